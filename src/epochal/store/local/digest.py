"""Takes in the records of one part, one by one and once.

This runs for every line of a journal: what a training loop writes a million times (``metrics``,
``step`` and the other kinds that are all numbers) goes straight to its block.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from epochal.journal.layout import PartName
from epochal.records import DENSE_KINDS, KINDS, Axis, Record, axis_of
from epochal.store.local.columns import NO_STEP, Block, Blocks, Names, seconds, whole_number
from epochal.store.local.fast_decoder import Lanes
from epochal.store.local.part import FACT_KINDS, PartFacts, label_of
from epochal.store.local.record_index import RecordIndex

_PLANNED = frozenset({"step", "moe", "gpu", "system"})
_STEP_LIMIT = 2**63


class _Plan(NamedTuple):
    """Which fields of a record are which series; for all records with the same keys."""

    names: Names
    fields: Names
    values: itemgetter[Any]


class PartDigest:
    """The sum of a part's records: columns of numbers, places of the rest, and the facts."""

    def __init__(self, name: PartName) -> None:
        self.facts = PartFacts(name)
        self._is_loop = self.facts.is_loop
        self.blocks = Blocks()
        self.lanes = Lanes(self.facts)
        self.places: dict[str, RecordIndex] = {}
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}
        self._by_axis: Mapping[Axis, dict[Names, Any]] = {
            axis: self.blocks.shapes(axis) for axis in ("step", "time")
        }

    def take(self, ordinal: int, record: Record, start: int, end: int) -> None:
        """Take in the next record, which lies between these bytes of its file."""
        if ordinal == 0:
            self.facts.header = {}
        kind = record["log"]
        if kind == "metrics":
            if self._take_metrics(ordinal, record):
                return
        elif kind in _PLANNED and self._take_planned(kind, ordinal, record):
            return
        self._take_any(kind, ordinal, record, start, end)

    def _take_metrics(self, ordinal: int, record: Record) -> bool:
        metrics, step = record.get("m"), record.get("step")
        if type(metrics) is not dict or type(step) is not int or "nonfinite" in record:
            return False
        names = tuple(metrics)
        block = self._append("step", names, ordinal, step, record.get("t"), metrics.values())
        if block is not None:
            self.lanes.learn(record, names, "step", block)
        return block is not None

    def _take_planned(self, kind: str, ordinal: int, record: Record) -> bool:
        key = (kind, record.get("id"), *record) if kind == "gpu" else (kind, *record)
        try:
            plan = self._plans[key]
        except KeyError:
            plan = self._plans[key] = _plan(kind, record)
        except TypeError:  # an id that cannot be looked up
            return False
        if plan is None:
            return False
        step = record.get("step", NO_STEP)
        if type(step) is not int:
            return False
        axis: Axis = "step" if kind in ("step", "moe") else "time"
        values = plan.values(record)
        block = self._append(axis, plan.names, ordinal, step, record.get("t"), values)
        if block is not None:
            self.lanes.learn(record, plan.fields, axis, block)
        return block is not None

    def _append(
        self, axis: Axis, names: Names, ordinal: int, step: int, t: Any, values: Any
    ) -> Block | None:
        """The block that a row of plain numbers was added to; None where nothing has changed."""
        if type(t) is not float or not -_STEP_LIMIT <= step < _STEP_LIMIT:
            return None
        block = self._by_axis[axis].get(names) or self.blocks.block(axis, names)
        if block is None:
            return None
        try:
            block.append(ordinal, step, t, values)
        except (struct.error, OverflowError):
            return None
        facts = self.facts
        if facts.updated is None or t > facts.updated:
            facts.updated = t
        if axis == "step" and self._is_loop and step > facts.reached.get(axis, step - 1):
            facts.reached[axis] = step
        return block

    def _take_any(self, kind: str, ordinal: int, record: Record, start: int, end: int) -> None:
        facts, axis, t = self.facts, axis_of(record), seconds(record)
        if math.isfinite(t) and (facts.updated is None or t > facts.updated):
            facts.updated = t
        if kind in FACT_KINDS:
            facts.note(ordinal, record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        if at is not None and axis in ("step", "epoch"):
            facts.reach(axis, at)
        if axis == "time" or (at is not None and axis != "none"):
            step = NO_STEP if at is None else at
            try:
                self.blocks.add(record, axis=axis, ordinal=ordinal, at=step, t=t)
            except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
                facts.num_damaged += 1  # valid JSON, but not what this kind of record holds
        if kind not in DENSE_KINDS:
            places = self.places.get(kind)
            if places is None:
                places = self.places[kind] = RecordIndex()
            places.add(ordinal, (start, end), label_of(record), NO_STEP if at is None else at, t)


def _plan(kind: str, record: Record) -> _Plan | None:
    """The plan for records like this one; None where some value is not simply in a field."""
    if "m" in record or "nonfinite" in record:
        return None
    names = KINDS[kind].series_names(record)
    if len(names) < 2:
        return None  # one getter of one field gives no row
    return _Plan(tuple(names.values()), tuple(names), itemgetter(*names))
