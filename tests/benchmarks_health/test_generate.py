"""Drawn runs could stand in a journal, and the truth about them holds."""

from __future__ import annotations

import json
from itertools import islice, pairwise

import numpy as np
import pytest

from benchmarks.health.case import Case
from benchmarks.health.families import families
from benchmarks.health.faults import sicknesses
from benchmarks.health.faults.planting import DoesNotFit, Sickness
from benchmarks.health.generate import healthy_cases, sick_case
from benchmarks.health.strengths import STRENGTHS
from epochal.records import KINDS

HALVES = [(half, name) for half in (False, True) for name in families(heldout=half)]


def healthy(family: str, *, heldout: bool) -> Case:
    return next(healthy_cases(family, steps=1500, heldout=heldout))


@pytest.mark.parametrize(("heldout", "family"), HALVES)
def test_records_of_every_family_could_stand_in_a_journal(heldout: bool, family: str) -> None:
    case = healthy(family, heldout=heldout)
    assert case.steps == 1500
    for entry in case.records:
        assert entry.record["log"] in KINDS
        json.dumps(entry.record, allow_nan=False)


@pytest.mark.parametrize(("heldout", "family"), HALVES)
def test_time_goes_on_in_every_file_of_a_healthy_run(heldout: bool, family: str) -> None:
    case = healthy(family, heldout=heldout)
    for writer in {entry.writer for entry in case.records}:
        times = [entry.record["t"] for entry in case.records if entry.writer == writer]
        assert all(later >= earlier - 0.01 for earlier, later in pairwise(times))


def test_the_halves_share_no_family() -> None:
    assert not families(heldout=False).keys() & families(heldout=True).keys()


def test_the_same_seed_draws_the_same_run() -> None:
    sickness = sicknesses()["divergence"]
    one, two = (sick_case(sickness, seed=5, heldout=False) for _ in range(2))
    assert one == two
    assert one != sick_case(sickness, seed=6, heldout=False)


@pytest.mark.parametrize("rule", sicknesses())
@pytest.mark.parametrize("heldout", [False, True])
def test_a_fault_begins_within_the_run_and_leaves_time_to_be_found(
    rule: str, heldout: bool
) -> None:
    case = sick_case(sicknesses()[rule], seed=1, heldout=heldout)
    fault = case.fault
    assert fault is not None
    assert fault.rule == rule
    assert case.times[0] <= fault.onset_t <= case.times[-1]
    end = case.row_times[-1] + case.silence_s
    assert fault.onset_row + fault.limit_rows < case.steps or fault.onset_t + fault.limit_s <= end


def fits(sickness: Sickness, family: str, *, heldout: bool) -> bool:
    for seed in range(8):
        sketch = families(heldout=heldout)[family](np.random.default_rng(seed), sickness.rows)
        try:
            sickness.plant(sketch, STRENGTHS)
        except DoesNotFit:
            continue
        return True
    return False


@pytest.mark.parametrize("rule", sicknesses())
@pytest.mark.parametrize("heldout", [False, True])
def test_no_class_of_faults_hangs_on_one_family(rule: str, heldout: bool) -> None:
    names = families(heldout=heldout)
    fitting = (name for name in names if fits(sicknesses()[rule], name, heldout=heldout))
    assert len(list(islice(fitting, 3))) == 3


@pytest.mark.parametrize("rule", sicknesses())
def test_every_class_of_faults_is_defined_in_words(rule: str) -> None:
    assert sicknesses()[rule].definition.endswith(".")


def test_shares_of_experts_are_shares() -> None:
    case = sick_case(sicknesses()["moe-collapse"], seed=0, heldout=False)
    loads = [e.record for e in case.records if e.record["log"] == "experts"]
    assert loads
    for record in loads:
        for layer in record["load"]:
            assert sum(layer) == pytest.approx(1)


def test_a_number_that_is_not_finite_is_null_with_its_word() -> None:
    sickness = sicknesses()["nonfinite"]
    cases = (sick_case(sickness, seed=seed, heldout=False) for seed in range(4))
    for case in cases:
        words = [e.record["nonfinite"] for e in case.records if "nonfinite" in e.record]
        assert words
        assert set(words[0].values()) <= {"nan", "inf"}
