"""How a training is, from its findings and from what was observed of it."""

from __future__ import annotations

from typing import Any

import pytest

from epochal.journal.diagnosis import (
    Diagnosis,
    Family,
    diagnose,
    name_of,
    observed_areas,
    shortened,
    steps_covered,
    with_finding,
)

SEEN = {"program": 300, "gradients": 300, "evaluation": 300}


def finding(name: str, severity: str = "warning", **fields: Any) -> dict[str, Any]:
    sentence = f"This is {name}."
    known = {"id": name, "rule": name, "severity": severity, "state": "open", "sentence": sentence}
    return {**known, **fields}


@pytest.mark.parametrize(
    ("findings", "observed", "family", "state"),
    [
        ([], {}, None, "unknown"),
        ([], SEEN, None, "healthy"),
        ([], {**SEEN, "evaluation": 199}, None, "unknown"),
        ([], {**SEEN, "gradients": None}, None, "unknown"),
        ([], {"program": 300, "gradients": 300}, None, "unknown"),
        ([], {"program": 300, "gradients": 300}, "reinforcement", "healthy"),
        ([], {"program": 300, "gradients": 300}, "language", "unknown"),
        ([finding("a", "info")], SEEN, None, "healthy"),
        ([finding("a", "info")], {}, None, "unknown"),
        ([finding("a")], SEEN, None, "suspicious"),
        ([finding("a", "error")], {}, None, "broken"),
        ([finding("a"), finding("b", "error")], SEEN, None, "broken"),
        ([finding("a", "error", state="closed")], SEEN, None, "healthy"),
        ([finding("a", "error", state="closed"), finding("b")], SEEN, None, "suspicious"),
        ([finding("a"), finding("b", "error", under="a")], SEEN, None, "broken"),
    ],
)
def test_the_state_follows_from_findings_and_from_what_was_seen(
    findings: list[dict[str, Any]], observed: dict[str, int | None], family: str | None, state: str
) -> None:
    of = None if family is None else Family(family)
    known = diagnose(findings, observed=observed, family=of)
    assert known.state == state
    assert known.sentence.startswith(f"{state}: ")


def test_nobody_calls_a_run_healthy_that_no_rule_has_read() -> None:
    known = diagnose([], observed=SEEN, is_judged=False)
    assert (known.state, known.sentence) == ("unknown", "unknown: nobody has judged this run")


def test_what_was_not_seen_has_the_line_that_adds_it() -> None:
    known = diagnose([], observed={"program": 500, "evaluation": 20})
    assert list(known.not_observed) == ["optimizer", "gradients", "data", "machine"]
    assert known.sentence == (
        "unknown: nothing wrong in what was seen"
        " (gradients not seen, evaluation seen for fewer than 200 steps)"
    )
    assert known.next == known.not_observed["gradients"] == "epochal.watch(model)"


def test_causes_are_ranked_by_severity_then_by_how_sure_they_are() -> None:
    findings = [
        finding("guess", certainty="inferred"),
        finding("measure"),
        finding("fact", certainty="fact"),
        finding("grave guess", "error", certainty="inferred"),
    ]
    known = diagnose(findings, observed={})
    assert [one.rule for one in known.causes] == ["grave guess", "fact", "measure", "guess"]
    assert [one.confidence for one in known.causes] == ["possible", "certain", "likely", "possible"]
    assert known.sentence == "broken: grave guess, and 3 more causes"


def test_a_consequence_stands_under_its_cause() -> None:
    findings = [finding("c", "error", under="b"), finding("a"), finding("b", under="a")]
    known = diagnose(findings, observed={})
    (cause,) = known.causes
    assert (cause.rule, [one.rule for one in cause.consequences]) == ("a", ["c", "b"])
    # Without its cause, or in a circle, it stands alone.
    for others in ([finding("b", under="a")], [finding("b", under="b")]):
        assert [one.rule for one in diagnose(others, observed={}).causes] == ["b"]


def test_two_causes_of_one_rank_say_what_tells_them_apart() -> None:
    first = finding("a", experiment="Try a.", apart={"b": "Try both."})
    second = finding("b", experiment="Try b.")
    assert diagnose([first], observed={}).next == "Try a."
    assert diagnose([second, first], observed={}).next == "Try both."
    surer = {**second, "certainty": "fact"}
    assert diagnose([first, surer], observed={}).next == "Try b."


def test_a_loss_that_falls_speaks_against_a_model_that_cannot_learn() -> None:
    told = [finding("never-fell", evidence={"ratio": 1.23456})]
    known = diagnose(told, observed={}, progress=(2.3026, 0.4))
    assert known.causes[0].against == ("the training loss fell from 2.30 to 0.4",)
    assert known.causes[0].supports == ("ratio 1.23",)
    assert not diagnose(told, observed={}, progress=(2.3, 2.2)).causes[0].against


def test_how_a_run_ended_is_a_cause_once() -> None:
    ending = finding("failed", "error", certainty="fact")
    known = diagnose([finding("a")], observed=SEEN)
    ended = with_finding(known, ending)
    assert [one.rule for one in ended.causes] == ["failed", "a"]
    assert (ended.state, with_finding(ended, ending)) == ("broken", ended)
    assert with_finding(known, finding("interrupted", "info")).state == "suspicious"


def test_a_short_one_counts_what_it_leaves_out() -> None:
    findings = [finding(f"c{n}", sentence="x" * 1000) for n in range(5)]
    findings += [finding(f"n{n}", "info") for n in range(7)]
    short = shortened(diagnose(findings, observed={}))
    assert (len(short.causes), len(short.notes), short.more) == (3, 3, 6)
    assert max(len(one.sentence) for one in short.causes) == 300
    assert shortened(Diagnosis()) == Diagnosis()


def test_records_of_strangers_are_read_as_far_as_they_can_be() -> None:
    odd = {"id": 3, "severity": "error", "steps": ["x", 2], "evidence": [1], "certainty": 8}
    known = diagnose([odd, {"severity": {}}], observed={})
    assert (known.state, known.causes[0].rule, known.causes[0].steps) == ("broken", "finding", None)


def test_a_series_speaks_for_the_steps_until_its_next_point() -> None:
    assert steps_covered("step", 11, 1000) == 1101
    assert steps_covered("step", 1, 0) == 1
    assert steps_covered("epoch", 3, 2) is None
    seen = observed_areas(
        {"evaluation": 1101, "machine": None}, kinds=["data"], events=["model", "x"], step=1049
    )
    assert seen == {"program": 1050, "data": 1050, "evaluation": 1050, "machine": None}


def test_rules_have_names_for_people() -> None:
    assert name_of("lr-too-high") == "learning rate too high"
    assert name_of("data-leak") == "data leak"
