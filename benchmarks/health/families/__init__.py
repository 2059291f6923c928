"""Families of healthy runs: one function each, which draws a sketch of so many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from numpy.random import Generator

from benchmarks.health.sketch import Sketch

Family = Callable[[Generator, int], Sketch]


def families(*, heldout: bool) -> Mapping[str, Family]:
    """The families of one half, by name."""
    half = import_module(f"benchmarks.health.families.{'heldout' if heldout else 'train'}")
    found: Mapping[str, Family] = half.FAMILIES
    return found
