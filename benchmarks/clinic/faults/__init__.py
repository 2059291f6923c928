"""Planted faults: each changes a training before it runs, and says which harm proves it.

A fault is planted on some kinds, each with the optimizer on which it does harm. Half of these kinds
are of the unseen half. Later kinds name their faults themselves.
"""

from __future__ import annotations

from benchmarks.clinic.faults import data, evaluation, loop, model, rate, running
from benchmarks.clinic.faults.fault import Fault

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for room in (rate, model, loop, data, evaluation, running)
    for fault in room.FAULTS
}
