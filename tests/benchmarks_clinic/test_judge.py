"""The judge and rule-check on made-up cases."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch")

from benchmarks.clinic import rule_check
from benchmarks.clinic.accepted import Accepted
from benchmarks.clinic.judge import (
    Case,
    Reported,
    details,
    falls_after,
    is_harmful,
    judge,
    markdown,
    summary,
    worth,
)
from benchmarks.clinic.plan import parse
from benchmarks.clinic.sentences import contradictions
from epochal.health.finding import Finding


def reported(rule: str, sentence: str = "", advice: str = "") -> Reported:
    return Reported(rule, "warning", sentence, advice, misleads=True)


def case(name: str, result: float, *found: Reported, evaluated: float = 0.0) -> Case:
    values = {"result": result, "reported": evaluated, "steps": 400.0}
    return Case(parse(name), values, {"everything": found, "scalars": ()})


def finding(sentence: str) -> Finding:
    return Finding("1", "r", "info", sentence, "loss", (0, 9), {}, "", "open", 0.0)


TABLE = Accepted(("right",), ("zero_grad",), ("divergence",))
TWINS = [case(f"census-healthy-{seed}", 1.0 + 0.1 * seed) for seed in range(3)]
HIGH = reported("lr-too-high", "The learning rate is too high.")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (reported("right"), "right"),
        (reported("other", advice="Call zero_grad."), "right"),
        (reported("other", advice="zero_grad " * 80), "missed"),  # an advice that lists everything
        (reported("divergence"), "symptom"),
        (reported("other"), "missed"),
    ],
)
def test_a_finding_is_worth_what_the_table_says(found: Reported, expected: str) -> None:
    assert worth(found, TABLE) == expected


def test_harm_is_beyond_the_spread_of_the_healthy_twins() -> None:
    assert is_harmful(case("census-lr_x10-0", 1.4), TWINS)
    assert not is_harmful(case("census-lr_x10-0", 1.25), TWINS)
    assert is_harmful(case("census-lr_x10-0", float("nan")), TWINS)
    assert is_harmful(case("census-eval_scale-0", 1.1, evaluated=1.4), TWINS)
    assert not is_harmful(case("census-eval_scale-0", 1.1, evaluated=1.2), TWINS)


def test_harmful_trainings_are_counted_by_view() -> None:
    found = judge([*TWINS, case("census-lr_x10-0", 9.0, HIGH), case("census-lr_x30-0", 1.0, HIGH)])
    assert found.count("everything", "lr_x10") == {"right": 1}
    assert found.count("scalars") == {"missed": 1}
    assert [one.training.fault_name for one in found.harmless] == ["lr_x30"]
    assert next(summary(found)) == (
        "3 healthy trainings (1,200 steps), 1 harmful faults, 1 harmless"
    )
    assert "| lr_x10 | 1 | 1 | 0 | 0 | 0 |" in list(markdown(found))
    assert list(details(found)) == ["missed (scalars) census-lr_x10-0: -"]


def test_what_healthy_twins_are_told_too_counts_for_nothing() -> None:
    twins = [case(f"census-healthy-{seed}", 1.0, HIGH) for seed in range(3)]
    found = judge([*twins, case("census-lr_x10-0", 9.0, HIGH)])
    assert found.count("everything") == {"missed": 1}
    assert len(found.false("everything", "warning")) == 3


def test_a_sentence_is_compared_with_its_numbers_and_its_series() -> None:
    text = "The loss has not fallen: 2.2836 at first, 0.0913 at step 299."
    assert list(contradictions(finding(text), {}))
    assert not list(contradictions(finding("The loss rose from 1.0 to 2.0."), {}))
    assert list(contradictions(finding("The loss fell from 1.0 to 2.0."), {}))
    series = {"loss": [(step, 1.0) for step in range(100)]}
    assert not list(contradictions(finding("The loss is 1.01 at step 50."), series))
    assert list(contradictions(finding("The loss is 3.5 at step 50."), series))


def noisy(count: int, level: float, *, noise: float, fall: float = 0.0) -> list[float]:
    """A level with even noise, that falls by ``fall`` from its first point to its last."""
    draw = random.Random(0)
    return [level - fall * n / count + draw.gauss(0, noise) for n in range(count)]


def test_a_loss_falls_after_a_step_only_beyond_its_noise() -> None:
    early = noisy(60, 0.8, noise=0.02, fall=0.25)
    flat = list(enumerate(early + noisy(1400, 0.55, noise=0.1)))
    assert not falls_after(flat, 200)
    falling = list(enumerate(early + noisy(1400, 0.55, noise=0.05, fall=0.2)))
    assert falls_after(falling, 200)


def test_rule_check_shows_what_a_rule_finds_and_where_it_is_wrong() -> None:
    names = ["a-lr_x10-0", "a-lr_x30-0", "a-labels_shuffled-0", "a-healthy-0"]
    lines = [
        rule_check.Line(names[0], "right", HIGH),
        rule_check.Line(names[2], "beside", HIGH),
        rule_check.Line(names[3], "false", HIGH),
    ]
    (row,) = (one for one in rule_check.table(names, lines) if one.startswith("lr-too-high"))
    assert row.split() == ["lr-too-high", "1/2", "0", "0", "1", "1"]
    assert rule_check.total(names, lines).startswith("1 of 3 faults are named; 1 findings mislead")
    assert [line.split()[:2] for line in rule_check.sentences("lr-too-high", names, lines)] == [
        ["false", "a-healthy-0"],
        ["beside", "a-labels_shuffled-0"],
        ["right", "a-lr_x10-0"],
        ["silent", "a-lr_x30-0:"],
    ]
