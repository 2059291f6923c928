"""Draws cases: healthy runs of a family, or runs of any fitting family with one fault."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.health.case import Case
from benchmarks.health.families import families
from benchmarks.health.faults.planting import DoesNotFit, Sickness
from benchmarks.health.render import render
from benchmarks.health.strengths import STRENGTHS

# Short runs are mostly beginning, long ones mostly tail; false alarms hide in both.
LENGTHS = (1500, 4000, 10_000, 25_000)
_TRIES = 400


def healthy_cases(family: str, *, steps: int, heldout: bool) -> Iterator[Case]:
    """Runs of one family until they have ``steps`` step records between them."""
    draw = families(heldout=heldout)[family]
    left, seed = steps, 0
    while left > 0:
        rows = min(LENGTHS[seed % len(LENGTHS)], max(left, LENGTHS[0]))
        sketch = draw(_source(family, seed, heldout=heldout), rows)
        yield render(sketch, seed=seed)
        left -= rows
        seed += 1


def sick_cases(
    sickness: Sickness, *, count: int, heldout: bool, among: Sequence[str] | None = None
) -> Iterator[Case]:
    """Runs with one fault, on families drawn at random among those that can have it.

    ``among`` names the families to draw from; without it, all of the half.
    """
    for seed in range(count):
        yield sick_case(sickness, seed=seed, heldout=heldout, among=among)


def sick_case(
    sickness: Sickness, *, seed: int, heldout: bool, among: Sequence[str] | None = None
) -> Case:
    """One run with one fault; the same seed and families give the same run."""
    choice = families(heldout=heldout)
    names = list(choice if among is None else among)
    rng = _source(sickness.rule, seed, heldout=heldout)
    for _ in range(_TRIES):
        sketch = choice[names[int(rng.integers(0, len(names)))]](rng, sickness.rows)
        try:
            fault = sickness.plant(sketch, STRENGTHS)
        except DoesNotFit:
            continue
        return render(sketch, seed=seed, fault=fault)
    raise LookupError(f"no run of {', '.join(names)} can have the fault {sickness.rule}")


def _source(name: str, seed: int, *, heldout: bool) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), seed, 104_729 if heldout else 0])
