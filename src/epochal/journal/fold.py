"""Folds records into the summary of a run: how far it came, and what each series amounts to.

A fold reads each record once and keeps no point, so it goes on from where the last one stopped. It
needs nothing but Python: the companion folds while the run is going on, readers fold what was
appended since.

Folded extremes would be false where a step comes again or below the last one, or where an attempt
takes over from a step. Such a series is no longer known until somebody reads all of its points.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import FormatError
from epochal.journal.diagnosis import Area, area_of, steps_covered
from epochal.journal.facts import (
    FACT_KINDS,
    STEP_LIMIT,
    Extent,
    Origin,
    PartFacts,
    RunFacts,
    SeriesKey,
    seconds,
)
from epochal.journal.layout import PartName, parse_part_name
from epochal.journal.metrics import Metric, headline_order, metrics_of
from epochal.journal.reader import NewerFormatError, PartReader
from epochal.journal.row import SUMMARY_VERSION, Mark, SeriesSummary, numbers_of_summary
from epochal.records import DENSE_KINDS, Axis, Record, axis_of, stored_numbers_of, whole_number
from epochal.records.values import as_float
from epochal.series.summary import Summary

# Of the first record of a part: who wrote it, and what a run without run.json is known by.
_OF_HEADER = frozenset(
    "log t v id name project group job_type owner tags notes created totals source fork rank rules"
    " host boot_id pid_namespace pid pid_start".split()
)
_FACT_KINDS = frozenset(FACT_KINDS)
# The fields of nearly every record of a training.
_FREE = ("log", "t", "step", "m")
# A model has thousands of gradients, which all go as far.
_MOST_OF_AREA = 64


class MustReadAllError(FormatError):
    """What was folded does not fit the files: all of the run has to be read again."""


class Points:
    """One series as far as it was folded; its last point may still be replaced."""

    __slots__ = (
        "count", "first", "first_at", "has_last", "is_known", "is_shared", "last", "last_at",
        "max", "max_at", "min", "min_at", "nonfinite", "older_at", "total",
    )  # fmt: skip

    def __init__(self, known: Summary | None = None) -> None:
        self.is_known = True
        # Whether several writers log it: then it is not clear which of two points at a step counts.
        self.is_shared = False
        # Whether the last point is still to be counted.
        self.has_last = False
        # How far attempts before the newest one came.
        self.older_at = -math.inf
        self.count = self.nonfinite = 0
        self.total = self.first = self.last = 0.0
        self.first_at, self.last_at = math.inf, -math.inf
        self.min, self.max = math.inf, -math.inf
        self.min_at = self.max_at = 0.0
        if known is not None and known.last is not None and known.last_step is not None:
            self.count, self.nonfinite = known.count, known.nonfinite
            self.first, self.last = known.first or 0.0, known.last
            self.first_at, self.last_at = -math.inf, known.last_step
            self.older_at = known.last_step
            if known.min is not None and known.max is not None:
                self.min, self.min_at = known.min, known.min_step or 0
                self.max, self.max_at = known.max, known.max_step or 0
                self.total = (known.mean or 0.0) * (known.count - known.nonfinite)

    def add(self, at: float, value: float) -> None:
        """Add the next point along steps or epochs; one at the step of the last one replaces it."""
        if at > self.last_at:
            if self.has_last:
                self._count(self.last_at, self.last)
            self.has_last = True
            self.last, self.last_at = value, at
        elif at == self.last_at and self.has_last and not self.is_shared:
            self.last = value
        else:
            self.is_known = False

    def extend(self, ats: Sequence[int], values: Sequence[float]) -> None:
        """Add points along steps whose steps ascend, and all of whose values are floats."""
        total = sum(values)
        if ats[0] <= self.last_at or total - total != 0.0:  # one that is nan or infinite
            for at, value in zip(ats, values, strict=True):
                self.add(at, value)
            return
        if self.has_last:
            self._count(self.last_at, self.last)
        # The last one may still be replaced: it is counted when none can do that any more.
        self.has_last, self.last, self.last_at = True, values[-1], ats[-1]
        if len(values) == 1:
            return
        values = values[:-1]
        if not self.count:
            self.first, self.first_at = values[0], ats[0]
        self.count += len(values)
        self.total += sum(values)
        lowest, highest = min(values), max(values)
        if lowest < self.min:
            self.min, self.min_at = lowest, ats[values.index(lowest)]
        if highest > self.max:
            self.max, self.max_at = highest, ats[values.index(highest)]

    def add_at_time(self, at: float, value: float) -> None:
        """Add a point along the time, which keeps every point in whichever order they come."""
        self._count(at, value)
        if at >= self.last_at:
            self.last, self.last_at = value, at
        elif at != at:
            self.is_known = False

    def settle(self) -> None:
        """Count the last point: none will replace it."""
        if self.has_last:
            self._count(self.last_at, self.last)
            self.has_last = False

    def _count(self, at: float, value: float) -> None:
        if at < self.first_at:
            self.first, self.first_at = value, at
        self.count += 1
        if value - value != 0.0:  # nan or infinite
            self.nonfinite += 1
            return
        self.total += value
        if value <= self.min and (value < self.min or at < self.min_at):
            self.min, self.min_at = value, at
        if value >= self.max and (value > self.max or at < self.max_at):
            self.max, self.max_at = value, at

    def summary(self) -> Summary | None:
        """What the points amount to; None where only the points themselves tell."""
        count, nonfinite, total, first = self.count, self.nonfinite, self.total, self.first
        low, low_at, high, high_at = self.min, self.min_at, self.max, self.max_at
        last, last_at = self.last, self.last_at
        if self.has_last:  # it counts, and may still be replaced
            count += 1
            first = last if last_at < self.first_at else first
            if last - last != 0.0:
                nonfinite += 1
            else:
                total += last
                low, low_at = (last, last_at) if last < low else (low, low_at)
                high, high_at = (last, last_at) if last > high else (high, high_at)
        if not self.is_known or not count or total - total != 0.0:
            return None
        if count == nonfinite:
            return Summary(count, nonfinite, first, last, last_at)
        # Rounding may bring it just above the largest value or below the smallest.
        mean = min(max(total / (count - nonfinite), low), high)
        return Summary(count, nonfinite, first, last, last_at, low, low_at, high, high_at, mean)


class RunMetrics(msgspec.Struct, kw_only=True):
    """The content of ``metrics.json``: the summary of every series, and what a fold goes on from.

    ``writers`` has the facts of each writer in each attempt; ``marks`` how far each was read, by
    the stem of its newest part. ``areas`` says for how many steps the series of each area speak.
    """

    v: int = SUMMARY_VERSION
    metrics: list[SeriesSummary] = []
    writers: list[PartFacts] = []
    marks: dict[str, Mark] = {}
    kinds: list[str] = []
    areas: dict[Area, int | None] = {}

    @property
    def facts(self) -> RunFacts:
        """What the records say about the run as a whole."""
        return RunFacts(self.writers)


# What is folded of a writer in an attempt.
_Writer = tuple[str, int]


class Fold:
    """The summary of a run, record by record."""

    def __init__(self, known: RunMetrics | None = None) -> None:
        self.marks: dict[_Writer, Mark] = {}
        self.kinds: set[str] = set()
        self._facts: dict[_Writer, PartFacts] = {}
        self._points: dict[tuple[SeriesKey, int], Points] = {}
        # Who logged a series last; and by writer and axis, the series by their names.
        self._logged_by: dict[tuple[SeriesKey, int], Origin] = {}
        self._by_name: dict[tuple[Axis, Origin], dict[str, Points]] = {}
        # By axis and attempt, from where the attempt replaces older ones.
        self._takeovers: dict[Axis, dict[int, int]] = {"step": {}, "epoch": {}}
        # The series that show an area, among so many of all series.
        self._of_areas: dict[Area, list[tuple[Axis, Points]]] = {}
        self._num_of_areas = 0
        # What the series mean, and what that was made of.
        self._meant: tuple[Any, Mapping[SeriesKey, Metric]] | None = None
        if known is not None:
            self._restore(known)

    def _restore(self, known: RunMetrics) -> None:
        for facts in known.writers:
            self._facts[facts.name[:2]] = facts
            self._note_takeovers(facts)
        for stem, mark in known.marks.items():
            name = parse_part_name(f"{stem}.jsonl", ".jsonl")
            if name is not None:
                self.marks[name[:2]] = mark
        self.kinds = set(known.kinds)
        for one in known.metrics:
            points = self._points[SeriesKey(one.name, one.axis), one.rank] = Points(one.summary)
            points.is_known = one.is_known

    # -- reading ----------------------------------------------------------------------------------

    def read(
        self,
        parts: Mapping[PartName, Path],
        sealed: Collection[PartName] = (),
        *,
        enough: int | None = None,
    ) -> int:
        """Fold what was written since; returns how many records that were.

        Raises ``MustReadAllError`` where something is sealed that was not read before, or where a
        part became shorter: then this fold is of no use any more. With ``enough``, hardly more
        records than that, though a whole block of them at least.
        """
        for name in sealed:
            if name not in parts and not self._covers_sealed(name):
                raise MustReadAllError(f"{name.stem} was sealed before it was summarised.")
        num_read = 0
        # An attempt after the other, as they came: what a newer one replaced is met first.
        for name in sorted(parts, key=lambda name: (name.attempt, name)):
            try:
                left = None if enough is None else enough - num_read
                num_read += self._read_part(name, parts[name], enough=left)
            except NewerFormatError:
                raise
            except (FormatError, OSError) as error:
                raise MustReadAllError(str(error)) from error
            if enough is not None and num_read >= enough:
                break
        return num_read

    def _covers_sealed(self, name: PartName) -> bool:
        mark = self.marks.get(name[:2])
        return mark is not None and (
            mark.part > name.part or (mark.part == name.part and mark.is_whole)
        )

    def _read_part(self, name: PartName, path: Path, *, enough: int | None) -> int:
        mark = self.marks.get(name[:2], Mark(-1, 0, 0))
        if mark.part > name.part:
            return 0
        start = mark if mark.part == name.part else Mark(name.part, 0, 0)
        if path.stat().st_size == start.bytes:
            return 0
        reader = PartReader(path, name, offset=start.bytes, ordinal=start.records)
        for records in reader.read_blocks():
            if records:
                self.add(name, records, first=reader.ordinal - len(records))
            self._mark(name, reader)
            if enough is not None and reader.ordinal - start.records >= enough:
                break
        return reader.ordinal - start.records

    def _mark(self, name: PartName, reader: PartReader) -> None:
        """Note how far a part was read; a disk that fails at its next block changes nothing."""
        facts = self._facts.get(name[:2])
        if reader.damaged:
            facts = self._facts_of(name)
            facts.num_damaged += reader.damaged
            reader.damaged = 0
        is_whole = facts is not None and facts.is_finished
        self.marks[name[:2]] = Mark(name.part, reader.ordinal, reader.offset, is_whole)

    def _facts_of(self, name: PartName) -> PartFacts:
        facts = self._facts.get(name[:2])
        if facts is None:
            facts = self._facts[name[:2]] = PartFacts(name)
        facts.name = name
        return facts

    def add(self, name: PartName, records: Sequence[Record], *, first: int) -> None:
        """Add the next records of a part; ``first`` is the ordinal of the first of them."""
        facts = self._facts_of(name)
        if first == 0:  # each part begins with a header
            facts.header = {}
        place = 0
        while place < len(records):
            alike = _alike(records, place)
            if len(alike) > 1 and self._add_columns(facts, alike):
                place += len(alike)
                continue
            record = records[place]
            if record["log"] in _FACT_KINDS:
                facts.note(first + place, record)
                self._note_takeovers(facts)
            self._add_numbers(facts, record)
            place += 1
        self.kinds.update(record["log"] for record in records)
        facts.num_records += len(records)

    def _add_numbers(self, facts: PartFacts, record: Record) -> None:
        axis, t = axis_of(record), seconds(record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        step = at if axis != "epoch" else whole_number(record.get("step"))
        facts.extend(axis, Extent(step, t if math.isfinite(t) else None))
        if axis == "none" or (at is None and axis != "time"):
            return
        try:
            numbers = list(stored_numbers_of(record))
        except (AttributeError, TypeError, ValueError, OverflowError):
            facts.num_damaged += 1
            return
        if record["log"] == "allocator" and not isinstance(record.get("stats", []), list):
            facts.num_damaged += 1
            return
        if not numbers:
            return
        origin = facts.origin
        points_of = self._by_name.setdefault((axis, origin), {})
        is_hidden = at is not None and at >= self._cut(axis, origin.attempt)
        for series, value in numbers:
            points = points_of.get(series)
            if points is None:
                points = points_of[series] = self._series(SeriesKey(series, axis), origin)
            if axis == "time":
                points.add_at_time(t, value)
            elif not is_hidden and at is not None:
                points.add(at, value)

    def _add_columns(self, facts: PartFacts, alike: Sequence[Record]) -> bool:
        """Add records with the same metrics, a metric at a time; False where that cannot be."""
        origin, ats = facts.origin, [record["step"] for record in alike]
        newest = max(record["t"] for record in alike)
        if ats[-1] >= self._cut("step", origin.attempt) or newest >= STEP_LIMIT:
            return False
        facts.extend("step", Extent(ats[-1], newest))
        points_of = self._by_name.setdefault(("step", origin), {})
        columns = zip(*(record["m"].values() for record in alike), strict=True)
        for name, column in zip(alike[0]["m"], columns, strict=True):
            is_plain = set(map(type, column)) == {float}
            if not is_plain and not any(isinstance(value, (int, float)) for value in column):
                continue
            points = points_of.get(name)
            if points is None:
                points = points_of[name] = self._series(SeriesKey(name, "step"), origin)
            if is_plain:
                points.extend(ats, column)
                continue
            for at, value in zip(ats, column, strict=True):
                if isinstance(value, (int, float)):
                    points.add(at, as_float(value))
        return True

    def _series(self, key: SeriesKey, origin: Origin) -> Points:
        points = self._points.setdefault((key, origin.rank), Points())
        before = self._logged_by.get((key, origin.rank))
        self._logged_by[key, origin.rank] = origin
        if before is not None and before != origin:
            points.settle()
            points.is_shared = before.attempt == origin.attempt
            if before.attempt < origin.attempt:
                points.older_at = points.last_at
        return points

    # -- attempts that take over ------------------------------------------------------------------

    def _note_takeovers(self, facts: PartFacts) -> None:
        """Note from where an attempt replaces older ones; what was folded beyond is not known."""
        if not facts.is_loop:
            return
        found = dict(facts.takeovers)
        if facts.first_epoch is not None:
            found.setdefault("epoch", facts.first_epoch)
        attempt = facts.name.attempt
        for axis, at in found.items():
            if self._takeovers[axis].get(attempt) == at:
                continue
            self._takeovers[axis][attempt] = at
            if attempt > min(number for _, number in self._facts):
                for (key, rank), points in self._points.items():
                    by = self._logged_by.get((key, rank))
                    is_own = by is not None and by.attempt == attempt
                    if key.axis == axis and (points.older_at if is_own else points.last_at) >= at:
                        points.is_known = False

    def _cut(self, axis: Axis, attempt: int) -> float:
        newer = (at for number, at in self._takeovers.get(axis, {}).items() if number > attempt)
        return min(newer, default=math.inf)

    # -- answers ----------------------------------------------------------------------------------

    @property
    def facts(self) -> RunFacts:
        """What the records say about the run as a whole."""
        return RunFacts(self._facts[key] for key in sorted(self._facts))

    @property
    def is_known(self) -> bool:
        """Whether every series is known without its points."""
        return all(points.is_known for points in self._points.values())

    def _meanings(self) -> Mapping[SeriesKey, Metric]:
        """What each series means, the most important first; kept while there are no others."""
        basis = (len(self._points), self.facts.definitions)
        if self._meant is None or self._meant[0] != basis:
            ranks: dict[SeriesKey, set[int]] = {}
            for key, rank in self._points:
                ranks.setdefault(key, set()).add(rank)
            metrics = sorted(metrics_of(ranks, basis[1]), key=headline_order)
            self._meant = basis, {SeriesKey(one.name, one.axis): one for one in metrics}
        return self._meant[1]

    def known(self, *, most: int | None = None) -> RunMetrics:
        """What was folded so far, as ``metrics.json`` holds it: every series as they appeared.

        With ``most``, no more metrics than that, the most important ones.
        """
        meant, points_of = self._meanings(), self._points
        if most is not None:
            first = islice(meant.items(), most)
            points_of = {(k, r): points_of[k, r] for k, metric in first for r in metric.ranks}
        return RunMetrics(
            metrics=[
                series_summary(meant[key], rank, points.summary())
                for (key, rank), points in points_of.items()
            ],
            writers=[without_details(self._facts[key]) for key in sorted(self._facts)],
            marks=self.positions,
            kinds=sorted(self.kinds - DENSE_KINDS),
            areas=self._areas(),
        )

    def _areas(self) -> dict[Area, int | None]:
        """For how many steps the series of each area speak; the first of many stand for all."""
        for (key, _), points in islice(self._points.items(), self._num_of_areas, None):
            metric = self._meanings().get(key)
            area = area_of(key.name, None if metric is None else metric.role)
            if area is not None:
                some = self._of_areas.setdefault(area, [])
                if len(some) < _MOST_OF_AREA:
                    some.append((key.axis, points))
        self._num_of_areas = len(self._points)
        return {
            area: longest_covered(
                steps_covered(axis, points.count + points.has_last, points.last_at)
                for axis, points in some
            )
            for area, some in self._of_areas.items()
        }

    @property
    def positions(self) -> dict[str, Mark]:
        """How far each writer was read in each attempt, by the stem of its newest part."""
        return {PartName(*key, mark.part).stem: mark for key, mark in self.marks.items()}


def _alike(records: Sequence[Record], start: int) -> Sequence[Record]:
    """The records from here on that have the same free metrics and nothing else, step by step."""
    first = records[start]
    if tuple(first) != _FREE or first["log"] != "metrics" or type(first["m"]) is not dict:
        return ()
    names, step, end = tuple(first["m"]), -1, start
    for end, record in enumerate(islice(records, start, None), start):
        if tuple(record) != _FREE or record["log"] != "metrics" or type(record["t"]) is not float:
            return records[start:end]
        at, metrics = record["step"], record["m"]
        if type(at) is not int or not step < at < STEP_LIMIT or type(metrics) is not dict:
            return records[start:end]
        if tuple(metrics) != names:
            return records[start:end]
        step = at
    return records[start : end + 1]


def longest_covered(covered: Iterable[int | None]) -> int | None:
    """The largest number of steps; None where none of the series goes along steps."""
    return max((one for one in covered if one is not None), default=None)


def areas_of(metrics: Iterable[SeriesSummary]) -> dict[Area, int | None]:
    """For how many steps the series of each area speak."""
    found: dict[Area, list[int | None]] = {}
    for one in metrics:
        area = area_of(one.name, one.role)
        if area is not None:
            found.setdefault(area, []).append(steps_covered(one.axis, one.count, one.last_at))
    return {area: longest_covered(some) for area, some in found.items()}


def series_summary(metric: Metric, rank: int, summary: Summary | None) -> SeriesSummary:
    """A series of one rank with its meaning; ``summary`` is None where it is not known."""
    return SeriesSummary(
        name=metric.name,
        axis=metric.axis,
        rank=rank,
        unit=metric.unit,
        goal=metric.goal,
        role=metric.role,
        x=metric.x,
        importance=metric.importance,
        is_known=summary is not None,
        **({} if summary is None else numbers_of_summary(summary)),
    )


def without_details(facts: PartFacts) -> PartFacts:
    """The facts without what only ``run.json`` and the journal need to hold."""
    header = facts.header
    if header is not None:
        header = {name: value for name, value in header.items() if name in _OF_HEADER}
    return msgspec.structs.replace(facts, header=header)
