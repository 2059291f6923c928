import random
from pathlib import Path

from benchmarks.clinic import evidence
from benchmarks.clinic.accepted import Accepted
from benchmarks.clinic.evidence import Evidence
from benchmarks.clinic.figures import contradictions
from benchmarks.clinic.plan import parse
from benchmarks.clinic.report import harm_table
from benchmarks.clinic.verdict import (
    Case,
    Said,
    falls_after,
    is_harmful,
    judge,
    outcome,
    results_of,
)
from epochal.health.finding import Finding


def said(rule: str, sentence: str = "", advice: str = "", severity: str = "warning") -> Said:
    return Said(rule, severity, sentence, advice, misleads=True, contradictions=())


def case(name: str, result: float, *found: Said) -> Case:
    both = {"everything": tuple(found), "scalars": ()}
    return Case(parse(name), {"result": result}, both, (), 1000)  # type: ignore[arg-type]


def finding(sentence: str, series: str = "loss") -> Finding:
    return Finding("1", "r", "info", sentence, series, (0, 9), {}, "", "open", 0.0)


TABLE = Accepted(cause=("right",), words=("zero_grad",), symptom=("divergence",))
TWINS = [case(f"mlp-momentum-healthy-{seed}", 1.0 + 0.1 * seed) for seed in range(3)]


def test_the_right_rule_counts_as_cause() -> None:
    assert outcome([said("divergence"), said("right", "x")], TABLE) == ("cause", "right: x")


def test_words_of_the_advice_count_as_advice() -> None:
    assert outcome([said("other", advice="Call zero_grad.")], TABLE)[0] == "advice"


def test_an_advice_that_lists_everything_does_not_count() -> None:
    assert outcome([said("other", advice="zero_grad " * 80)], TABLE)[0] == "missed"


def test_a_symptom_is_no_cause() -> None:
    assert outcome([said("divergence")], TABLE)[0] == "symptom"


def test_harm_is_worse_than_every_twin_beyond_their_spread() -> None:
    assert is_harmful(case("mlp-momentum-rate_x10-0", 1.4), TWINS)
    assert not is_harmful(case("mlp-momentum-rate_x10-0", 1.25), TWINS)
    assert is_harmful(case("mlp-momentum-rate_x10-0", float("nan")), TWINS)


def test_harm_is_shown_without_what_rules_say() -> None:
    worse = case("mlp-momentum-rate_x10-0", 1.4, said("lr-too-high", "The rate is too high."))
    same = case("mlp-momentum-rate_x10-1", 1.1)
    shown = harm_table(judge([*TWINS, worse, same]))
    assert "1 harmful, 1 harmless, 0 without healthy twins" in shown
    row = "| rate_x10 | mlp/momentum | 1/2 | result | 1.4 (-), 1.1 (-) | 1, 1.1, 1.2 |"
    assert row in shown
    assert "lr-too-high" not in shown


def test_results_are_read_without_asking_the_rules(tmp_path: Path) -> None:
    for name in ("mlp-momentum-healthy-0", "vit-adamw-healthy-0"):
        kept = Evidence(name, {"result": 0.5}, {}, 1.0)
        evidence.write(kept, evidence.path_of(tmp_path, name))
    (found,) = results_of(tmp_path, half="unseen")
    assert found.training.kind_name == "vit"
    assert found.result == {"result": 0.5}
    assert not any(found.said.values())


def test_what_healthy_twins_are_told_too_counts_for_nothing() -> None:
    rule = said("lr-too-high")
    twins = [case(f"mlp-momentum-healthy-{seed}", 1.0, rule) for seed in range(3)]
    verdict = judge([*twins, case("mlp-momentum-rate_x10-0", 9.0, rule)])
    assert verdict.faults[0].outcomes == {"everything": "missed", "scalars": "missed"}
    assert verdict.per_20k("everything", "warning") == 20.0


def test_a_fault_without_harm_does_not_count() -> None:
    verdict = judge([*TWINS, case("mlp-momentum-rate_x10-0", 1.1)])
    assert not verdict.faults
    assert len(verdict.harmless) == 1


def test_a_sentence_is_compared_with_its_own_figures() -> None:
    text = "The loss has not fallen: 2.2836 at first, 0.0913 at step 299."
    assert list(contradictions(finding(text), {}))
    assert not list(contradictions(finding("The loss rose from 1.0 to 2.0."), {}))
    assert list(contradictions(finding("The loss fell from 1.0 to 2.0."), {}))


def test_a_sentence_is_compared_with_its_series() -> None:
    series = {"loss": [(step, 1.0) for step in range(100)]}
    assert not list(contradictions(finding("The loss is 1.01 at step 50."), series))
    assert list(contradictions(finding("The loss is 3.5 at step 50."), series))


def rough(count: int, level: float, *, noise: float, fall: float = 0.0) -> list[float]:
    """A level with even noise, that falls by ``fall`` from its first point to its last."""
    draw = random.Random(0)
    return [level - fall * n / count + draw.gauss(0, noise) for n in range(count)]


def test_the_luck_of_one_level_among_twenty_is_no_fall() -> None:
    points = list(enumerate(rough(60, 0.8, noise=0.02, fall=0.25) + rough(1400, 0.55, noise=0.1)))
    assert falls_after(points, 200, noise_counts=False)
    assert not falls_after(points, 200)


def test_a_fall_beyond_noise_is_one() -> None:
    late = rough(1400, 0.55, noise=0.05, fall=0.2)
    points = list(enumerate(rough(60, 0.8, noise=0.02, fall=0.25) + late))
    assert falls_after(points, 200)
