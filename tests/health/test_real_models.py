"""Real trainings with one fault: a finding names it. The same without it have no warning."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from epochal.health.engine import Health
from epochal.health.finding import Finding
from tests.health.machine_records import metrics
from tests.health.real_trainings import diagnose, reward_answers


def grave(findings: list[Finding]) -> list[str]:
    return [f"{f.rule}: {f.sentence}" for f in findings if f.severity != "info"]


def of_rule(findings: list[Finding], rule: str) -> Finding:
    return next(finding for finding in findings if finding.rule == rule)


@pytest.mark.parametrize("name", ["reader", "reader-warmed", "classes"])
def test_a_healthy_training_has_no_warning(name: str, tmp_path: Path) -> None:
    assert grave(diagnose(name, tmp_path)) == []


def test_a_rate_thirty_times_too_high_is_named(tmp_path: Path) -> None:
    (found,) = (f for f in diagnose("reader-rate-x30", tmp_path) if f.severity != "info")
    assert (found.rule, found.severity) == ("lr-too-high", "warning")
    assert "0.09" in found.sentence


def test_a_loss_that_is_lost_in_the_first_steps_is_one_error(tmp_path: Path) -> None:
    found = diagnose("reader-unwarmed", tmp_path)
    assert [f.rule for f in found if f.severity != "info"] == ["nonfinite"]


def test_a_layer_no_optimizer_has_is_named(tmp_path: Path) -> None:
    found = diagnose("reader-frozen", tmp_path)
    assert "blocks.1.linear1" in of_rule(found, "untrained-parameters").sentence
    assert [f.rule for f in found if f.severity != "info"] == ["untrained-parameters"]


def test_a_loop_that_waits_for_its_data_is_named(tmp_path: Path) -> None:
    found = of_rule(diagnose("input-slow", tmp_path), "input-bound")
    # Without timed phases it is a note: the time between steps may be something else.
    assert found.severity == "info"
    assert float(found.evidence["share"]) > 0.5


def test_answers_among_the_inputs_are_suspected(tmp_path: Path) -> None:
    assert of_rule(diagnose("classes-leak", tmp_path), "too-good").severity != "info"


# Rules that once accused these trainings wrongly.
WRONG_ONCE = {"never-fell", "too-good", "untrained-parameters", "log-order"}


@pytest.mark.parametrize("name", ["line", "line-slow", "prices", "head"])
def test_fast_learners_and_frozen_bodies_are_not_accused(name: str, tmp_path: Path) -> None:
    found = diagnose(name, tmp_path, seed=0)
    assert [f"{f.rule}: {f.sentence}" for f in found if f.rule in WRONG_ONCE] == []


def rewarded(collapse_at: int | None = None) -> list[Finding]:
    """What is found in a policy that is rewarded, at a step a second."""
    health = Health()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for step, values in enumerate(reward_answers(collapse_at=collapse_at)):
            health.feed(metrics(step, values))
    assert values["train/reward"] < 0.4 if collapse_at else values["train/reward"] > 0.9
    return health.latest()


def test_the_loss_of_a_policy_may_rise_from_zero() -> None:
    assert grave(rewarded()) == []


def test_a_reward_that_is_lost_is_found() -> None:
    (found,) = (one for one in rewarded(collapse_at=250) if one.severity != "info")
    assert (found.rule, found.series, found.state) == ("divergence", "train/reward", "open")
    assert found.steps is not None
    assert 200 < found.steps[0] <= 250 < found.steps[1] < 400
    assert float(found.evidence["best"]) > 0.9
