"""Rules are found by their files, and by entry points of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.base.guard import Guard
from epochal.health.engine import Health
from epochal.health.registry import RULES, all_rules
from epochal.health.rule import GROUPS
from tests.doubles.packages import installed_package

RULE = """
from epochal.health.rule import Rule, RuleThresholds, Verdict


class TooWarm(Rule):
    'The room is too warm.'

    name = "too-warm"
    group = "operation"
    healthy = "Below 30 degrees."
    reports = {"warning": "Above 30 degrees."}
    kinds = frozenset({"metrics"})

    class Thresholds(RuleThresholds):
        degrees: float = 30.0

    thresholds: Thresholds

    def observe(self, observation, context):
        for name, value in observation.values.items():
            if name == "room":
                yield Verdict(name, value > self.thresholds.degrees, sentence=f"{value} degrees.")
"""
WARM = {"log": "metrics", "t": 1.0, "step": 1, "m": {"room": 35.0}}


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages, with one that says it has a rule."""
    with installed_package(
        tmp_path, "warm_rooms", "[epochal.rules]\ntoo-warm = warm_rooms:TooWarm\n"
    ) as installed:
        yield installed


def test_names_are_unique() -> None:
    assert len(RULES) == len({rule.name for rule in RULES})


def test_causes_see_a_record_before_their_symptoms() -> None:
    groups = [GROUPS.index(rule.group) for rule in RULES]
    assert groups == sorted(groups)


def test_another_package_brings_a_rule(package: Path) -> None:
    (package / "warm_rooms.py").write_text(RULE)
    (found,) = Health().feed(WARM)
    assert (found.rule, found.sentence) == ("too-warm", "35.0 degrees.")
    assert Health(thresholds={"too-warm": {"degrees": 40}}).feed(WARM) == []
    assert Health(silenced=["too-warm"]).feed(WARM) == []


@pytest.mark.parametrize(
    "source", ["import no_such_package", "TooWarm = 3", RULE.replace("too-warm", "plateau")]
)
def test_a_rule_that_cannot_be_loaded_is_one_fault_and_left_out(package: Path, source: str) -> None:
    (package / "warm_rooms.py").write_text(source)
    guard = Guard()
    assert all_rules(guard) == RULES
    assert list(guard.faults) == ["rule too-warm"]


def test_a_threshold_that_does_not_fit_is_a_fault_and_the_rule_keeps_its_own() -> None:
    health = Health(thresholds={"overfitting": {"evals": "many"}, "plateau": {"windw": 3}})
    assert list(health.guard.faults) == ["thresholds of plateau", "thresholds of overfitting"]
    assert "windw" in health.guard.faults["thresholds of plateau"].error
