"""A rule of each shape fails or hangs, and every other rule goes on.

The shape of a rule is the set of methods it overrides. That all rules of the registry go through
the guard is shown once, by breaking them all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from epochal.base.alarm import interrupting
from epochal.base.guard import DISABLE_AFTER, Fault, Guard
from epochal.health.engine import Health, member_of
from epochal.health.finding import Finding
from epochal.health.registry import RULES
from epochal.health.rule import Rule
from epochal.health.rules.values import NonFinite
from epochal.records import KINDS, Record
from tests.members.faults import broken, hanging

METHODS = ("__init__", "observe", "tick", "forget_from", "finish")


def shape_of(rule: type[Rule]) -> frozenset[str]:
    return frozenset(name for name in METHODS if getattr(rule, name) is not getattr(Rule, name))


ONE_OF_EACH_SHAPE = {shape_of(rule): rule for rule in reversed(RULES)}.values()
one_rule_of_each_shape = pytest.mark.parametrize(
    "rule", ONE_OF_EACH_SHAPE, ids=lambda rule: rule.name
)


def records() -> Iterator[Record]:
    """Records of every kind, then a loss that is no number, then another attempt."""
    yield {"log": "run", "t": 0.0, "attempt": 1, "config": {}}
    for step, kind in enumerate(DISABLE_AFTER * sorted(KINDS)):
        yield {"log": kind, "t": float(step), "step": step, "epoch": step, "m": {"loss": 1.0}}
    for step in range(100, 110):
        yield {"log": "step", "t": float(step), "step": step, "loss": math.nan, "norm": 1.0}
    yield {"log": "run", "t": 110.0, "attempt": 2}
    yield {"log": "resume", "t": 110.0, "attempt": 2, "step": 108}
    yield {"log": "step", "t": 111.0, "step": 108, "loss": math.nan}


def found_by(health: Health) -> list[Finding]:
    found: list[Finding] = []
    for record in records():
        found += health.feed(record)
        found += health.tick(health.context.now + 1)
    return [*found, *health.close(), *health.renotify(is_over=True)]


def without(findings: list[Finding], rule: type[Rule]) -> list[Finding]:
    return [finding for finding in findings if finding.rule != rule.name]


def undisturbed(rule: type[Rule]) -> list[Finding]:
    return without(found_by(Health(rules=[one for one in RULES if one is not rule])), rule)


@pytest.mark.parametrize("method", METHODS)
def test_every_rule_of_the_registry_goes_through_the_guard(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rule in RULES:
        monkeypatch.setattr(rule, method, broken)
    health = Health()
    found_by(health)
    asked = [rule for rule in RULES if rule.holds_in(health.context.family.name)]
    # Rules that do not hold in the family of the training are made, and not asked.
    assert set(map(member_of, asked)) <= health.guard.faults.keys() <= set(map(member_of, RULES))
    assert len(asked) > len(RULES) - 5


@one_rule_of_each_shape
def test_a_rule_that_raises_is_disabled_and_the_others_find_what_they_would(
    rule: type[Rule],
) -> None:
    expected = undisturbed(rule)
    for method in METHODS:
        reported: list[Fault] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rule, method, broken)
            found = found_by(Health(guard=Guard(reported.append)))
        assert without(found, rule) == expected
        assert [one.member for one in reported] == [member_of(rule)]
        assert "Traceback" in reported[0].traceback
        assert 1 <= reported[0].count <= DISABLE_AFTER


@one_rule_of_each_shape
def test_a_rule_that_hangs_is_interrupted_and_the_others_go_on(
    rule: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "observe", hanging)
    guard = Guard(tick_s=0.01)
    with interrupting(), guard.alarm.armed():
        found = found_by(Health(guard=guard, rule_budget_s=0.05))
    assert without(found, rule) == undisturbed(rule)
    assert guard.faults[member_of(rule)].error.startswith("BudgetExceeded")
    assert guard.count(member_of(rule)) == DISABLE_AFTER


@one_rule_of_each_shape
def test_a_rule_that_fails_once_is_made_anew_and_goes_on(
    rule: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Rule] = []
    observe = rule.observe

    def fail_at_first(self: Rule, *args: Any) -> Any:
        if not any(one is self for one in seen):
            seen.append(self)
        if len(seen) == 1:
            raise ValueError("once")
        return observe(self, *args)

    monkeypatch.setattr(rule, "observe", fail_at_first)
    health = Health()
    found_by(health)
    assert health.guard.count(member_of(rule)) == 1
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("where", "member"),
    [
        ("epochal.health.engine.Curves.note", "curves"),
        ("epochal.health.phase.PhaseDetector.observe", "phase"),
        ("epochal.health.rate_limiter.RateLimiter.accepted", "rate limiter"),
        ("epochal.health.context.Context.take", "record"),
        ("epochal.health.finding_tracker.FindingTrackers.renotify", "findings"),
    ],
)
def test_what_rules_are_built_on_may_fail_too(
    where: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, broken)
    health = Health()
    health.thin(list(records()))
    found_by(health)
    assert list(health.guard.faults) == [member]


def test_findings_of_a_rule_that_fails_later_stay() -> None:
    chance = random.Random(0)

    class Once(NonFinite):
        name = "once"

        def observe(self, observation: Any, context: Any) -> Any:
            verdicts = list(super().observe(observation, context))
            if chance.random() < 0.5:
                raise ValueError("now and then")
            return verdicts

    health = Health(rules=[Once])
    for step in range(40):
        health.feed({"log": "step", "t": float(step), "step": step, "loss": math.nan})
    assert health.guard.is_disabled("rule once")
    assert [finding.rule for finding in health.open_findings] == ["once"]
