"""The judge counts what the rules really said, against the truth."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.health.case import Case, Fault
from benchmarks.health.faults import sicknesses
from benchmarks.health.generate import healthy_cases, sick_case
from benchmarks.health.judge import judge_family, judge_rule, upper


def sick(rule: str, seed: int = 1) -> Case:
    return sick_case(sicknesses()[rule], seed=seed, heldout=False)


def known_fault(case: Case) -> Fault:
    assert case.fault is not None
    return case.fault


def test_a_fault_that_is_told_in_its_own_record_has_no_delay() -> None:
    verdict = judge_rule("nonfinite", [sick("nonfinite")])
    assert (verdict.rate, verdict.delay_steps, verdict.delay_s) == (1.0, [0], [0.0])


def test_a_fault_of_another_kind_is_not_found() -> None:
    case = sick("nonfinite")
    other = replace(case, fault=replace(known_fault(case), rule="moe-collapse"))
    verdict = judge_rule("moe-collapse", [other])
    assert verdict.rate == 0
    assert "not found" in verdict.misses[0]


def test_a_finding_before_the_onset_does_not_count() -> None:
    case = sick("nonfinite")
    end = case.times[-1]
    later = replace(known_fault(case), onset_t=end, onset_row=case.steps - 1)
    verdict = judge_rule("nonfinite", [replace(case, fault=later)])
    assert verdict.rate == 0
    assert verdict.early == 1


def test_a_finding_that_names_another_place_is_not_enough() -> None:
    case = sick("nonfinite")
    elsewhere = replace(known_fault(case), names=("rank 99",))
    verdict = judge_rule("nonfinite", [replace(case, fault=elsewhere)])
    assert (verdict.rate, verdict.unnamed) == (0, 1)


def test_warnings_in_a_run_called_healthy_are_false_alarms() -> None:
    case = replace(sick("nonfinite"), fault=None)
    verdict = judge_family("any", [case])
    assert verdict.false["nonfinite"] >= 1
    assert verdict.per_20k > 1


def test_healthy_steps_are_counted_to_the_last() -> None:
    cases = list(healthy_cases("cosine", steps=2000, heldout=False))
    verdict = judge_family("cosine", cases)
    assert verdict.steps == sum(case.steps for case in cases) >= 2000
    assert verdict.runs == len(cases)


def test_the_upper_delay_is_one_that_was_seen() -> None:
    assert upper([float(n) for n in range(1, 21)]) == 19
    assert upper([]) is None
