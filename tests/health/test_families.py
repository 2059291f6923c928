"""Which family a run is of, and which rules run in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.errors import UsageError
from epochal.health.engine import Health
from epochal.health.families import BY_NAME, MOVING_TARGETS, REGISTRY
from epochal.health.families.family import Family
from epochal.health.registry import RULES
from epochal.health.rule_settings import rules_of
from epochal.journal.layout import RunFolder
from epochal.settings.declared import FAMILIES
from tests.health.curve_records import flat, steps
from tests.health.machine_records import metrics


@pytest.mark.parametrize("family", REGISTRY, ids=lambda family: family.name)
def test_a_family_says_what_carries_its_diagnosis_and_what_is_normal(family: Family) -> None:
    assert family.name in FAMILIES
    assert family.curves
    assert set(family.normal) <= set(family.curves)
    assert family.title


def test_each_family_can_be_named_and_rules_name_only_these() -> None:
    assert sorted(BY_NAME) == sorted(FAMILIES)
    for rule in RULES:
        assert rule.not_in | rule.only_in <= set(FAMILIES), rule.name


@pytest.mark.parametrize(
    ("names", "config", "family"),
    [
        (("loss", "reward"), {}, "rl"),
        (("train/loss", "rollout/ep_rew_mean", "train/approx_kl"), {}, "rl"),
        (("d_loss", "g_loss"), {}, "adversarial"),
        (("loss", "rewards/chosen", "rewards/margins"), {}, "preference"),
        (("loss", "eval/perplexity"), {}, "language"),
        (("loss",), {"model": {"vocab_size": 50257}}, "language"),
        (("loss",), {"vocab_size": 30522, "num_labels": 2}, "supervised"),
        (("loss", "eval/accuracy"), {}, "supervised"),
        (("infonce", "eval/accuracy"), {}, "contrastive"),
        (("loss", "recon", "kl"), {}, "generative"),
        (("loss", "eval/wer"), {}, "transduction"),
        (("loss", "params/generator.weight/norm"), {}, None),
    ],
)
def test_names_and_configuration_tell_the_family(
    names: tuple[str, ...], config: Mapping[str, Any], family: str | None
) -> None:
    health = Health(config=config)
    health.feed(metrics(0, dict.fromkeys(names, 1.0)))
    found = health.family
    assert (None if found is None else found[0]) == family


def test_the_family_that_the_user_named_wins() -> None:
    health = Health(family="rl")
    health.feed(metrics(0, {"eval/accuracy": 0.5}))
    assert health.family == ("rl", "you named it")


def test_the_family_of_init_reaches_everybody_who_judges_the_run(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False, family="rl")
    run.finish()
    assert rules_of(RunFolder(run.dir)).diagnosis().family == ("rl", "you named it")
    with pytest.raises(UsageError, match="use one of supervised, language, preference, rl"):
        epochal.init("p", "b", dir=tmp_path, companion=False, family="robots")


def test_a_loss_of_a_policy_need_not_fall() -> None:
    def rules_of(family: str | None) -> set[str]:
        health = Health(family=family)
        for record in steps(flat(500, 2.3, width=0.001)):
            health.feed(record)
        return {finding.rule for finding in health.open_findings}

    assert "never-fell" in rules_of(None)
    for family in MOVING_TARGETS:
        assert "never-fell" not in rules_of(family)
