"""What is known of a run from the records read so far; records go in one by one and once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from epochal.journal.layout import LOOP
from epochal.record import ROLE_GUESSES, Axis, Position, Record, axis_of
from epochal.series.trend import Goal
from epochal.store.answers import Metric
from epochal.store.columns import NO_STEP, Columns, Origin, SeriesKey, seconds, whole_number
from epochal.store.merge import cuts_of
from epochal.store.parts import Span
from epochal.store.places import Place, Places

# Kinds that come every step or every second and are all numbers: found again by reading, not kept.
DENSE_KINDS = frozenset({"step", "metrics", "moe", "gpu", "system", "abs-maxes"})
_GOALS: Mapping[str, Goal] = {"loss": "min", "eval_loss": "min", "throughput": "max"}
_MEANINGS = ("unit", "goal", "x", "role")
_RANK, _CHILD = "rank-", "child-"


class RunState:
    """The sum of a run's records: columns of numbers, places of the rest, and a few facts."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.places: dict[str, Places] = {}
        self.num_records = 0
        self.num_misshapen = 0
        self.updated: float | None = None
        # By writer and attempt; empty where the first line of its file is damaged.
        self._headers: dict[tuple[str, int], Record] = {}
        self._origins: dict[tuple[str, int], Origin] = {}
        self._finishes: dict[tuple[str, int], Record] = {}
        self._configs: dict[int, dict[str, Any]] = {}
        self._definitions: dict[str, dict[str, Any]] = {}
        self._takeovers: dict[Axis, dict[int, int]] = {"step": {}, "epoch": {}}
        self._reached: dict[Axis, dict[int, int]] = {"step": {}, "epoch": {}}
        self.num_epochs: int | None = None

    # -- records in -------------------------------------------------------------------------------

    def add(self, position: Position, record: Record, *, part: int, span: Span) -> None:
        """Take in the next record of a writer."""
        self.num_records += 1
        t = seconds(record)
        if math.isfinite(t) and (self.updated is None or t > self.updated):
            self.updated = t
        kind, axis = record["log"], axis_of(record)
        if kind == "run" and position.ordinal == 0:
            self._headers[position[:2]] = record
        elif position[:2] not in self._headers:
            self._headers[position[:2]] = {}
        self._note_facts(kind, position, record)
        origin = self._origin(position)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        if position.writer == LOOP and at is not None and axis in self._reached:
            reached = self._reached[axis]
            reached[position.attempt] = max(at, reached.get(position.attempt, at))
            if axis == "epoch":
                self._takeovers[axis].setdefault(position.attempt, at)
        if axis == "time" or (at is not None and axis != "none"):
            step = NO_STEP if at is None else at
            try:
                self.columns.add(record, axis=axis, at=step, t=t, origin=origin)
            except (AttributeError, TypeError, ValueError, OverflowError):
                self.num_misshapen += 1  # valid JSON, but not what this kind of record holds
        if kind not in DENSE_KINDS:
            place = Place(
                part,
                position.ordinal,
                span,
                origin,
                _label(record),
                NO_STEP if at is None else at,
                t,
            )
            self.places.setdefault(kind, Places(axis)).add(place)

    def _note_facts(self, kind: str, position: Position, record: Record) -> None:
        attempt = position.attempt
        if kind == "finish":
            self._finishes[position[:2]] = record
        elif kind == "define" and isinstance(record.get("name"), str):
            meaning: dict[str, Any] = {k: record[k] for k in _MEANINGS if k in record}
            self._definitions.setdefault(record["name"], {}).update(meaning)
        elif kind == "epoch":
            self.num_epochs = whole_number(record.get("total")) or self.num_epochs
        elif position.writer != LOOP:
            return
        elif kind == "resume":
            for axis in ("step", "epoch"):
                takeover = whole_number(record.get(axis))
                if takeover is not None:
                    self._takeovers[axis][attempt] = takeover
        elif kind == "run" and isinstance(record.get("config"), dict):
            self._configs.setdefault(attempt, {}).update(record["config"])
        elif kind == "option" and "name" in record:
            self._configs.setdefault(attempt, {})[str(record["name"])] = record.get("value")

    def _origin(self, position: Position) -> Origin:
        origin = self._origins.get(position[:2])
        if origin is None:
            is_child = position.writer.startswith(_CHILD)
            origin = Origin(self._rank(position), is_child, position.attempt)
            self._origins[position[:2]] = origin
        return origin

    def _rank(self, position: Position) -> int:
        writer = position.writer
        if writer == LOOP:
            return 0
        if writer.startswith(_RANK) and writer[len(_RANK) :].isdigit():
            return int(writer[len(_RANK) :])
        # Telemetry of a node says which rank it sits beside; children say -1 and are rank 0's.
        rank = self._headers.get((writer, position.attempt), {}).get("rank")
        return rank if isinstance(rank, int) and rank > 0 else 0

    # -- answers out ------------------------------------------------------------------------------

    @property
    def attempts(self) -> int:
        """The number of the newest attempt, 0 before the first record."""
        return max((attempt for _, attempt in self._headers), default=0)

    @property
    def header(self) -> Record | None:
        """The first record of the newest attempt; rank 0's where there is one."""
        return self._headers[key] if (key := self._newest()) else None

    @property
    def finish(self) -> Record | None:
        """How the newest attempt ended, None while it has not."""
        return self._finishes.get(key) if (key := self._newest()) else None

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of all attempts, later ones over earlier ones."""
        merged: dict[str, Any] = {}
        for attempt in sorted(self._configs):
            merged.update(self._configs[attempt])
        return merged

    def reached(self, axis: Axis) -> int | None:
        """The highest step or epoch of rank 0 in the newest attempt that logged any."""
        reached = self._reached[axis]
        return reached[max(reached)] if reached else None

    def cuts(self, axis: Axis) -> dict[int, int]:
        """From where on each attempt is overtaken on an axis."""
        if axis not in self._takeovers:
            return {}
        return cuts_of(self._takeovers[axis], attempts=range(1, self.attempts + 1))

    def metrics(self) -> list[Metric]:
        """Every series there is, with its meaning, in order of first appearance."""
        roles = self._roles()
        return [self._metric(key, roles) for key in self.columns]

    def _metric(self, key: SeriesKey, roles: Mapping[str, str]) -> Metric:
        meaning = self._definitions.get(key.name, {})
        role = roles.get(key.name)
        goal = meaning.get("goal")
        return Metric(
            name=key.name,
            axis=key.axis,
            ranks=tuple(sorted({origin.rank for origin in self.columns.of(key)})),
            unit=meaning.get("unit"),
            goal=goal if goal in ("min", "max") else _GOALS.get(role or ""),
            role=role,
            x=meaning.get("x"),
        )

    def _roles(self) -> dict[str, str]:
        """Role by metric name: what was defined, else the first guess that exists."""
        names = {key.name for key in self.columns}
        roles: dict[str, str] = {}
        for name, meaning in self._definitions.items():
            if "role" in meaning and name in names:
                roles[name] = meaning["role"]
        for role, guesses in ROLE_GUESSES.items():
            if role in roles.values():
                continue
            guess = next((name for name in guesses if name in names and name not in roles), None)
            if guess is not None:
                roles[guess] = role
        return roles

    def _newest(self) -> tuple[str, int] | None:
        keys = [key for key in self._headers if key[0] == LOOP] or list(self._headers)
        return max(keys, key=lambda key: key[1]) if keys else None


def _label(record: Record) -> str:
    name = record.get("name", record.get("id", ""))
    return name if isinstance(name, str) else str(name)
