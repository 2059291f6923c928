"""Processes the records of one part, each once.

Frequent kinds that hold only numbers (``metrics``, ``step`` and others) come as columns and go
straight to their block. Other records come one by one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from epochal.journal.layout import PartName
from epochal.journal.line_columns import Lines, LineShape, Path
from epochal.records import DENSE_KINDS, KINDS, Axis, Record, axis_of
from epochal.store.local.columns import NO_STEP, STEP_LIMIT, Blocks, Names, seconds, whole_number
from epochal.store.local.part import FACT_KINDS, PartFacts, RecordIndex, label_of
from epochal.store.local.spill import SpillFile

_PLANNED = frozenset({"step", "moe", "gpu", "system"})
_NUMPY_TYPES: Mapping[type, Any] = {float: np.float64, int: np.int64, bool: np.bool_}


class Plan(NamedTuple):
    """Which values of a record of one shape belong to which series."""

    names: Names
    paths: tuple[Path, ...]
    axis: Axis


class PartDigest:
    """The content of a part: columns of numbers, file positions of other records, and the facts."""

    def __init__(self, name: PartName, spill: SpillFile | None = None) -> None:
        self.facts = PartFacts(name)
        self.blocks = Blocks(spill)
        self.places: dict[str, RecordIndex] = {}
        self._plans: dict[tuple[LineShape, Any], Plan | None] = {}

    def take(self, ordinal: int, record: Record, start: int, end: int) -> None:
        """Process the next record, which lies between these bytes of its file."""
        if ordinal == 0:
            self.facts.header = {}
        kind = record["log"]
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

    def take_lines(self, lines: Lines) -> None:
        """Process records of one shape that ``plan_of`` has a plan for."""
        plan = self.plan_of(lines)
        assert plan is not None
        paths = lines.shape.paths()
        numbers = {
            path: np.frombuffer(column, dtype=_NUMPY_TYPES[kind])
            for path, kind, column in zip(paths, lines.shape.types, lines.columns, strict=True)
            if kind in _NUMPY_TYPES
        }
        if lines.ordinals[0] == 0:
            self.facts.header = {}
        times = numbers["t",]
        is_time = np.abs(times) < STEP_LIMIT
        if not is_time.all():
            times = np.where(is_time, times, np.nan)
        steps = numbers.get(("step",))
        block = self.blocks.block(plan.axis, plan.names)
        columns = [numbers[path].astype(np.float64, copy=False) for path in plan.paths]
        if block is not None:
            block.extend(lines.ordinals, steps, times, columns)
        else:
            for name, column in zip(plan.names, columns, strict=True):
                alone = self.blocks.block(plan.axis, (name,))
                assert alone is not None
                alone.extend(lines.ordinals, steps, times, [column])
        facts, latest = self.facts, float(times[is_time].max(initial=-np.inf))
        if math.isfinite(latest) and (facts.updated is None or latest > facts.updated):
            facts.updated = latest
        if steps is not None and plan.axis == "step":
            facts.reach("step", int(steps.max()))

    def plan_of(self, lines: Lines) -> Plan | None:
        """The plan that turns records of one shape into series at once; None if there is none."""
        gpu = lines.columns[lines.shape.paths().index(("id",))][0] if _has_id(lines) else None
        key = (lines.shape, gpu)
        if key not in self._plans:
            self._plans[key] = plan_of(lines.shape, gpu)
        return self._plans[key]


@lru_cache(256)
def plan_of(shape: LineShape, gpu: Any) -> Plan | None:
    """The plan for records of a shape; None where a number has to be looked for in each record."""
    paths = shape.paths()
    types = dict(zip(paths, shape.types, strict=True))
    keys = [name for name, _ in shape.keys]
    if types.get(("t",)) is not float or "nonfinite" in keys:
        return None
    if types.get(("step",), int) is not int:
        return None
    named: dict[str, Path]
    if shape.kind == "metrics":
        if ("step",) not in types:
            return None
        named = {path[1]: path for path in paths if path[0] == "m" and len(path) == 2}
    elif shape.kind in _PLANNED and "m" not in keys:
        fields: Record = dict.fromkeys(keys) | ({"id": gpu} if "id" in keys else {})
        named = {name: (field,) for field, name in KINDS[shape.kind].series_names(fields).items()}
        if KINDS[shape.kind].axis == "step" and ("step",) not in types:
            return None
    else:
        return None
    if not named or any(types.get(path) not in _NUMPY_TYPES for path in named.values()):
        return None
    return Plan(tuple(named), tuple(named.values()), KINDS[shape.kind].axis)


def are_series(shape: LineShape) -> bool:
    """Whether all that is kept of records of a shape is their series."""
    return shape.kind != "gpu" and plan_of(shape, None) is not None


def _has_id(lines: Lines) -> bool:
    return lines.shape.kind == "gpu" and ("id",) in lines.shape.paths()
