"""Real trainings with one fault are told what it is; the same without it are told nothing grave."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochal.health.finding import Finding
from tests.health.real_trainings import diagnose


def grave(findings: list[Finding]) -> list[str]:
    return [f"{f.rule}: {f.sentence}" for f in findings if f.severity != "info"]


def of_rule(findings: list[Finding], rule: str) -> Finding:
    return next(finding for finding in findings if finding.rule == rule)


@pytest.mark.parametrize("name", ["reader", "reader-warmed", "classes"])
def test_a_healthy_training_is_told_nothing_grave(name: str, tmp_path: Path) -> None:
    assert grave(diagnose(name, tmp_path)) == []


def test_a_rate_thirty_times_too_high_is_named(tmp_path: Path) -> None:
    found = diagnose("reader-rate-x30", tmp_path)
    assert "0.09" in of_rule(found, "lr-too-high").sentence
    assert of_rule(found, "divergence").severity == "error"


def test_a_missing_warm_up_is_named_before_the_loss_is_lost(tmp_path: Path) -> None:
    found = diagnose("reader-unwarmed", tmp_path)
    shock, loss = of_rule(found, "no-warmup"), of_rule(found, "nonfinite")
    assert shock.steps is not None
    assert loss.steps is not None
    assert found.index(shock) < found.index(loss)
    assert shock.steps[0] < loss.steps[0]


def test_a_layer_no_optimizer_has_is_named(tmp_path: Path) -> None:
    found = diagnose("reader-frozen", tmp_path)
    assert "blocks.1.linear1" in of_rule(found, "frozen-layer").sentence
    assert [finding.rule for finding in found if finding.severity != "info"] == ["frozen-layer"]


def test_a_loop_that_waits_for_its_data_is_named(tmp_path: Path) -> None:
    assert of_rule(diagnose("input-slow", tmp_path), "input-bound").severity != "info"


def test_answers_among_the_inputs_are_suspected(tmp_path: Path) -> None:
    assert of_rule(diagnose("classes-leak", tmp_path), "too-good").severity != "info"


# Rules that once accused these trainings wrongly.
WRONG_ONCE = {"never-fell", "too-good", "frozen-layer", "clock-anomaly"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["line", "line-slow", "prices", "head"])
def test_fast_learners_and_frozen_bodies_are_not_accused(
    name: str, seed: int, tmp_path: Path
) -> None:
    found = diagnose(name, tmp_path, seed=seed)
    assert [f"{f.rule}: {f.sentence}" for f in found if f.rule in WRONG_ONCE] == []
