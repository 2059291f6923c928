"""What is known of a run from its parts: series, other records, and the times of attempts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from epochal.errors import FormatError, UsageError
from epochal.journal.entries import Cursor, Entry
from epochal.journal.facts import PartFacts, RunFacts, SeriesKey, seconds, weight_of
from epochal.journal.fold import RunMetrics, series_summary, without_details
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.metrics import Metric, metrics_of, set_metrics
from epochal.journal.part import Part, SealedPart, StalePartError, entries_in
from epochal.journal.reader import NewerFormatError, ShorterFileError
from epochal.journal.row import Mark
from epochal.journal.segments.columns import PartSummary
from epochal.journal.summaries import write_metrics, write_summary
from epochal.journal.tail import TailedPart
from epochal.records import DENSE_KINDS, KINDS, Axis, Position, Record
from epochal.series.blocks import Blocks, blocks_of, join
from epochal.series.series import Series, merge
from epochal.series.summary import Summary

# Where a name is on several axes, the first of these is meant.
AXES: tuple[Axis, ...] = ("step", "epoch", "time")
# A part may be sealed between a look and the reading; each look finds at least one of them settled.
_LOOKS = 100


# The series with their ranks, the definitions, and the metrics that were made of them.
_KnownMetrics = tuple[Mapping[SeriesKey, set[int]], Mapping[str, Mapping[str, Any]], list[Metric]]


class RunState(RunFacts):
    """The parts of a run as one; a new one is made when any of them has grown."""

    def __init__(self, parts: Sequence[Part], *, before: RunState | None = None) -> None:
        self.parts = sorted(parts, key=lambda part: part.name)
        # A hundred thousand metrics are the same ones after a step.
        self._known_metrics: _KnownMetrics | None = getattr(before, "_known_metrics", None)
        super().__init__(part.facts for part in self.parts)

    # -- series -----------------------------------------------------------------------------------

    def find(self, name: str, axis: Axis | None, rank: int) -> SeriesKey | None:
        """The series of a name, the step axis first where none is asked for; None for none."""
        keys = (SeriesKey(name, one) for one in (AXES if axis is None else (axis,)))
        found = next((key for key in keys if key in self.ranks), None)
        return found if found is not None and rank in self.ranks[found] else None

    @cached_property
    def ranks(self) -> Mapping[SeriesKey, set[int]]:
        """Every series there is and the ranks that have it, in order of first appearance."""
        found: dict[SeriesKey, set[int]] = {}
        for part in self.parts:
            rank = part.facts.origin.rank
            for key in part.series_keys():
                found.setdefault(key, set()).add(rank)
        return found

    @cached_property
    def part_summaries(self) -> Mapping[PartName, Mapping[SeriesKey, PartSummary]]:
        return {part.name: part.summaries() for part in self.parts}

    def parts_of(self, rank: int) -> Sequence[Part]:
        """The parts of one rank, in order."""
        return self._parts_of.get(rank, ())

    @cached_property
    def _parts_of(self) -> Mapping[int, Sequence[Part]]:
        """The parts of each rank: a series of one of a thousand ranks concerns few of them."""
        found: dict[int, list[Part]] = {}
        for part in self.parts:
            found.setdefault(part.facts.origin.rank, []).append(part)
        return found

    def _pieces(self, key: SeriesKey, rank: int) -> Iterator[tuple[int | None, Series]]:
        """The pieces of a series as ``merge`` takes them."""
        cuts = self.cuts(key.axis)
        parts = self._parts_of.get(rank, ())
        for part in sorted(parts, key=lambda part: weight_of(part.facts.origin)):
            piece = part.series(key)
            if piece is not None:
                yield cuts.get(part.facts.origin.attempt), piece

    def series(self, key: SeriesKey, rank: int) -> Series:
        """Every point of one rank's series."""
        merged = merge(self._pieces(key, rank))
        metric = self._metric_of.get(key)
        series = replace(
            merged,
            goal=None if metric is None else metric.goal,
            unit=None if metric is None else metric.unit,
        )
        for column in (series.steps, series.times, series.values):
            column.flags.writeable = False  # answers are shared between all who ask
        return series

    def blocks(self, key: SeriesKey, rank: int) -> Blocks | None:
        """A series as of ``series``, in blocks.

        None where no part has summaries of blocks, or where parts do not follow each other.
        """
        parts = sorted(self.parts_of(rank), key=lambda part: weight_of(part.facts.origin))
        known = {part.name: blocks for part in parts if (blocks := part.blocks(key)) is not None}
        cuts, pieces, total = self.cuts(key.axis), list[Blocks](), 0
        for part in parts if known else ():
            piece = known.get(part.name)
            if piece is None:
                series = part.series(key)
                if series is None:
                    continue
                piece = blocks_of(series)
            if piece is None:
                return None
            total += piece.num_points
            cut = cuts.get(part.facts.origin.attempt)
            pieces.append(piece if cut is None else piece.between(None, cut - 1))
        found = join(pieces) if pieces else None
        if found is None or not len(found) or not found.is_ascending:
            return None
        return replace(found, hidden=total - found.num_points)

    def block_summary(self, key: SeriesKey, rank: int) -> Summary | None:
        """The summary of one rank's series from its blocks; None where it has none."""
        blocks = self.blocks(key, rank)
        return None if blocks is None else blocks.summary

    def all_series(self, axis: Axis, rank: int) -> list[Series]:
        keys = (key for key, ranks in self.ranks.items() if key.axis == axis and rank in ranks)
        return [self.series(key, rank) for key in keys]

    @cached_property
    def _metric_of(self) -> Mapping[SeriesKey, Metric]:
        return {SeriesKey(metric.name, metric.axis): metric for metric in self.metrics}

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every series there is, with its meaning, in order of first appearance."""
        known, basis = self._known_metrics, (self.ranks, self.definitions)
        if known is None or known[:2] != basis or list(known[0]) != list(self.ranks):
            known = self._known_metrics = (*basis, metrics_of(*basis))
        return known[2]

    @property
    def set_metrics(self) -> list[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has."""
        return set_metrics(self.summary, {key.name for key in self.ranks}, self.definitions)

    # -- records ----------------------------------------------------------------------------------

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given."""
        for part in self.parts:
            seen = (since or {}).get(part.name.writer)
            if seen is None or part.name[1:] > seen[1:3]:
                yield from part.records(first=0)
            elif part.name[1:] == seen[1:3]:
                yield from part.records(first=seen.ordinal + 1)

    def kinds(self) -> Set[str]:
        """The kinds of records that ``entries`` returns."""
        return {kind for part in self.parts for kind in part.kinds()} - DENSE_KINDS

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = None) -> list[Entry]:
        """Records of these kinds that no later one replaced, by step, then by time.

        ``rank`` is None for the records of all ranks.
        """
        dense = DENSE_KINDS.intersection(kinds)
        if dense:
            raise UsageError(
                f"{', '.join(sorted(dense))} records are series: ask series() or records()."
            )
        parts = self.parts if rank is None else self.parts_of(rank)
        found: list[tuple[int, Entry]] = []
        for kind in kinds:
            axis: Axis = KINDS[kind].axis if kind in KINDS else "step"
            found += entries_in(parts, kind, label=name, axis=axis, cuts=self.cuts(axis))
        found.sort(key=lambda item: (item[0], seconds(item[1].record)))
        return [entry for _, entry in found]

    def end(self) -> dict[str, Position]:
        """The position of the last record of each writer."""
        return {
            part.name.writer: Position(*part.name, part.facts.num_records - 1)
            for part in self.parts
            if part.facts.num_records
        }


def all_summaries(state: RunState) -> dict[tuple[SeriesKey, int], Summary]:
    """The summaries of all series whose points ascend from part to part, by series and rank.

    Those of sealed parts are in their files: no column of them is read.
    """
    cuts = {axis: state.cuts(axis) for axis in ("step", "epoch")}
    pieces: dict[tuple[SeriesKey, int], list[PartSummary | None]] = {}
    for part in sorted(state.parts, key=lambda part: weight_of(part.facts.origin)):
        origin = part.facts.origin
        for key, piece in state.part_summaries[part.name].items():
            cut, last = cuts.get(key.axis, {}).get(origin.attempt), piece.summary.last_step
            is_hidden = cut is not None and (last is None or last >= cut)
            pieces.setdefault((key, origin.rank), []).append(None if is_hidden else piece)
    found = ((key, _joined_summary(key[0].axis, some)) for key, some in pieces.items())
    return {key: summary for key, summary in found if summary is not None}


def run_metrics(state: RunState) -> RunMetrics:
    """The summary of a run from all that it recorded: what ``Fold`` finds record by record.

    Raises ``FormatError`` and ``OSError`` where points cannot be read.
    """
    known = all_summaries(state)
    meant = {SeriesKey(metric.name, metric.axis): metric for metric in state.metrics}
    writers: dict[tuple[str, int], PartFacts] = {}
    marks: dict[str, Mark] = {}
    for part in state.parts:
        before = writers.get(part.name[:2])
        writers[part.name[:2]] = part.facts if before is None else before.extended(part.facts)
    for part in {part.name[:2]: part for part in state.parts}.values():
        marks[part.name.stem] = Mark(
            part.name.part,
            part.facts.num_records,
            part.num_bytes,
            part.is_sealed or part.facts.is_finished,
        )
    return RunMetrics(
        metrics=[
            series_summary(
                meant[key], rank, known.get((key, rank)) or _read_summary(state, key, rank)
            )
            for key, ranks in state.ranks.items()
            for rank in sorted(ranks)
        ],
        writers=[without_details(facts) for facts in writers.values()],
        marks=marks,
        kinds=sorted(state.kinds()),
    )


def _read_summary(state: RunState, key: SeriesKey, rank: int) -> Summary | None:
    """The summary of a series from its blocks or points; None where those cannot be read."""
    try:
        return state.block_summary(key, rank) or state.series(key, rank).summary
    except (StalePartError, FileNotFoundError):
        raise
    except (OSError, FormatError):  # the run's problem says so
        return None


def write_summaries(folder: RunFolder) -> bool:
    """Read all of a run again and write both of its summaries; False where one was not written.

    Raises ``FormatError`` and ``OSError`` where the run cannot be read.
    """
    for looks_left in reversed(range(_LOOKS)):
        try:
            known = run_metrics(RunState(_read_parts(folder)))
            break
        except (FileNotFoundError, ShorterFileError):  # sealed or repaired meanwhile
            if not looks_left:
                raise
    return write_metrics(folder, known) and write_summary(folder, known)


def _read_parts(folder: RunFolder) -> list[Part]:
    found: list[Part] = []
    journal = {*folder.parts()}  # first: a part goes from there to the segments, never back
    for name in sorted({*journal, *folder.sealed_parts()}):
        part = _sealed_part(folder, name, is_only=name not in journal)
        if part is None:
            part = TailedPart(folder.part_path(name), name)
            part.poll()
        found.append(part)
    return found


def _sealed_part(folder: RunFolder, name: PartName, *, is_only: bool) -> Part | None:
    """The sealed form of a part; None where the journal part has to be read."""
    path = folder.sealed_path(name)
    if not path.exists():
        return None
    try:
        part = SealedPart(path, name)
        is_all = is_only or part.num_bytes >= folder.part_path(name).stat().st_size
    except NewerFormatError:
        raise
    except FormatError:
        if is_only:
            raise
        return None
    return part if is_all else None


def _joined_summary(axis: Axis, pieces: Sequence[PartSummary | None]) -> Summary | None:
    """The summary of a series in several parts; None unless its points ascend through them."""
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces):
        return None
    if len(known) == 1:
        return known[0].summary
    for before, after in itertools.pairwise(known):
        end = before.last_t if axis == "time" else before.summary.last_step
        if end is None or not (end <= after.first_at if axis == "time" else end < after.first_at):
            return None
    summaries = [piece.summary for piece in known]
    finite = [one for one in summaries if one.mean is not None]
    lowest = min(finite, key=lambda one: one.min or 0.0, default=None)
    highest = max(finite, key=lambda one: one.max or 0.0, default=None)
    counts = [one.count - one.nonfinite for one in finite]
    return Summary(
        count=sum(one.count for one in summaries),
        nonfinite=sum(one.nonfinite for one in summaries),
        first=summaries[0].first,
        last=summaries[-1].last,
        last_step=summaries[-1].last_step,
        min=None if lowest is None else lowest.min,
        min_step=None if lowest is None else lowest.min_step,
        max=None if highest is None else highest.max,
        max_step=None if highest is None else highest.max_step,
        mean=float(np.average([one.mean or 0.0 for one in finite], weights=counts))
        if finite
        else None,
    )
