"""Makes the footer of a segment from the records that are being sealed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.journal.line import decode_json, encode_json
from epochal.records import KINDS, ROLE_GUESSES, Axis, Record, axis_of
from epochal.segments.collect import Collected
from epochal.segments.contents import SeriesSources, Source
from epochal.segments.footer import KEPT_KINDS, MAX_KEPT_BYTES, Extent, Footer, summary_numbers
from epochal.segments.long import NO_NUMBER, LongForm, LongSeries
from epochal.segments.plan import Plan
from epochal.segments.shape import Path
from epochal.series.reduce import summarise_rows

# Which series a segment holds, and where the points of each lie.


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records of one shape: their ordinals, and their values by path."""

    kind: str
    shape: int | None
    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]
    milliseconds: NDArray[np.int64]
    cells: Mapping[Path, NDArray[Any] | list[Any]]
    documents: Sequence[str] | None = None

    @property
    def num_numbers(self) -> int:
        """How many numbers they hold."""
        return sum(len(values) for values in self.cells.values() if isinstance(values, np.ndarray))


def catalogue(pieces: Iterable[Rows], long: LongForm) -> tuple[SeriesSources, ...]:
    """The series of a segment in order of first appearance."""
    sources: dict[tuple[str, Axis], dict[Source, None]] = {}
    first: dict[tuple[str, Axis], int] = {}
    for piece in pieces:
        if piece.shape is None:
            continue
        axis: Axis = axis_of({"log": piece.kind, "step": 0})
        ordinal = int(piece.ordinals.min())
        for name, source in _sources(piece.kind, piece.cells):
            sources.setdefault((name, axis), {})[source] = None
            first[name, axis] = min(ordinal, first.get((name, axis), ordinal))
    in_long: set[tuple[str, Axis]] = set()
    for key, series in long:
        in_long.add((key.name, key.axis))
        ordinal = min(series.ordinals)
        first[key.name, key.axis] = min(ordinal, first.get((key.name, key.axis), ordinal))
    return tuple(
        SeriesSources(name, axis, tuple(sources.get((name, axis), ())), (name, axis) in in_long)
        for name, axis in sorted(first, key=lambda key: first[key])
    )


def _sources(kind: str, cells: Mapping[Path, Any]) -> Iterator[tuple[str, Source]]:
    known = KINDS.get(kind)
    numbers = [path for path, values in cells.items() if isinstance(values, np.ndarray)]
    for path in numbers:
        if path[0] == "m" and len(path) == 2:
            yield path[1], Source(kind, path)
        elif known is not None and path[0] in known.objects and len(path) == 2:
            yield known.prefix + path[1], Source(kind, path)
    if known is None:
        return
    paths = {path[0]: path for path in numbers if len(path) == 1}
    for gpu in _gpus(cells) if known.by_id else [None]:
        for field, name in known.series_names({**paths, "id": gpu}).items():
            yield name, Source(kind, paths[field], gpu)


def _gpus(cells: Mapping[Path, Any]) -> list[str]:
    """The numbers of the GPUs as series names have them; a record without one is of GPU 0."""
    given = cells.get(("id",))
    if given is None:
        return ["0"]
    return sorted({str(gpu) for gpu in (given.tolist() if hasattr(given, "tolist") else given)})


# A summary takes as much room as this many points: of shorter series the points are read.
_MIN_POINTS = 12
_MANY_RECORDS = 4096
_VALUES_AT_ONCE = 1 << 20
_ROLE_NAMES = frozenset(name for names in ROLE_GUESSES.values() for name in names)


class _Points(NamedTuple):
    """Points of a series in some records; series with equal ``place`` are of the same records."""

    place: Any
    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]
    milliseconds: NDArray[np.int64]
    values: NDArray[Any]


def make_footer(
    found: Collected, plan: Plan, rows: Sequence[Rows], series: Sequence[SeriesSources]
) -> Footer:
    """The footer of a part that was read and planned."""
    kinds: Counter[str] = Counter()
    extents: dict[str, Extent] = {}
    for piece in rows:
        kinds[piece.kind] += len(piece.ordinals)
        extents[piece.kind] = _further(extents.get(piece.kind), piece)
    kept, records = _kept_records(found, plan, kinds)
    return Footer(
        num_records=found.num_records,
        num_damaged=found.num_damaged,
        journal_bytes=found.journal_bytes,
        kinds=kinds,
        extents=extents,
        names=tuple((entry.name, entry.axis) for entry in series),
        kept=kept,
        records=records,
        numbers=dict(_summaries(rows, found, series, _has_role(records))),
    )


def _further(known: Extent | None, piece: Rows) -> Extent:
    steps = piece.steps[piece.steps != NO_NUMBER]
    milliseconds = piece.milliseconds[piece.milliseconds != NO_NUMBER]
    step = int(steps.max()) if steps.size else None
    time = int(milliseconds.max()) / 1000 if milliseconds.size else None
    if known is None:
        return Extent(step, time)
    return Extent(
        max((n for n in (known.step, step) if n is not None), default=None),
        max((n for n in (known.time, time) if n is not None), default=None),
    )


def _kept_records(
    found: Collected, plan: Plan, counts: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[tuple[int, Record], ...]]:
    """The kinds that are few enough to be kept, and their records in file order."""
    by_kind: dict[str, list[tuple[int, Record]]] = {
        kind: [] for kind in KEPT_KINDS if 0 < counts.get(kind, 0) <= _MANY_RECORDS
    }
    for piece in plan.pieces:
        of_kind = by_kind.get(piece.shape.kind)
        if of_kind is not None:
            of_kind += zip(piece.ordinals.tolist(), piece.bucket.records(), strict=True)
    for document in found.documents:
        if document.kind in by_kind:
            by_kind[document.kind].append((document.ordinal, decode_json(document.text)))
    few = {
        kind: records
        for kind, records in by_kind.items()
        if len(encode_json(records)) <= MAX_KEPT_BYTES
    }
    together = [entry for records in few.values() for entry in records]
    return tuple(few), tuple(sorted(together, key=lambda entry: entry[0]))


def _has_role(records: Iterable[tuple[int, Record]]) -> frozenset[str]:
    """The names that a list shows the last value of."""
    defined = {
        str(record.get("name"))
        for _, record in records
        if record["log"] == "define" and "role" in record
    }
    return _ROLE_NAMES | defined


# -- summaries ------------------------------------------------------------------------------------


def _summaries(
    rows: Sequence[Rows], found: Collected, series: Sequence[SeriesSources], always: frozenset[str]
) -> Iterator[tuple[int, list[Any]]]:
    """By number, what each series amounts to whose points ascend; epochs are kept as records."""
    holders: dict[tuple[str, Path], list[Rows]] = {}
    for piece in rows:
        for path, values in piece.cells.items():
            if isinstance(values, np.ndarray):
                holders.setdefault((piece.kind, path), []).append(piece)
    long: dict[tuple[str, Axis], list[LongSeries]] = {}
    for key, points in found.long:
        long.setdefault((key.name, key.axis), []).append(points)
    num_points = sum(piece.num_numbers for piece in rows) + len(found.long)
    is_worth_it = num_points >= _MIN_POINTS * len(series)
    alike: dict[tuple[Any, ...], list[tuple[int, list[_Points]]]] = {}
    for number, entry in enumerate(series):
        if entry.axis != "epoch" and (is_worth_it or entry.name in always):
            pieces = list(_pieces(entry, holders, long.get((entry.name, entry.axis), ())))
            alike.setdefault((entry.axis, *(p.place for p in pieces)), []).append((number, pieces))
    for (axis, *_), members in alike.items():
        yield from _summarised(axis, members)


def _pieces(
    entry: SeriesSources,
    holders: Mapping[tuple[str, Path], Sequence[Rows]],
    long: Iterable[LongSeries],
) -> Iterator[_Points]:
    """The points of a series in the order in which a record has its scalars."""
    for source in entry.sources:
        if len(source.path) > 1:
            yield from _in_columns(source, holders)
    if entry.long:
        for points in long:
            yield _Points(
                bytes(points.ordinals),
                np.frombuffer(points.ordinals, dtype=np.int64),
                np.frombuffer(points.steps, dtype=np.int64),
                np.frombuffer(points.milliseconds, dtype=np.int64),
                np.frombuffer(points.values, dtype=np.float64),
            )
    for source in entry.sources:
        if len(source.path) == 1:
            yield from _in_columns(source, holders)


def _in_columns(
    source: Source, holders: Mapping[tuple[str, Path], Sequence[Rows]]
) -> Iterator[_Points]:
    for piece in holders.get((source.kind, source.path), ()):
        values = np.asarray(piece.cells[source.path])
        columns = (piece.ordinals, piece.steps, piece.milliseconds, values)
        if source.gpu is None:
            yield _Points(id(piece), *columns)
            continue
        given = piece.cells.get(("id",), ())
        texts = [str(gpu) for gpu in (given.tolist() if isinstance(given, np.ndarray) else given)]
        chosen = np.array(texts or ["0"] * len(piece.ordinals)) == source.gpu
        yield _Points((id(piece), source.gpu), *(column[chosen] for column in columns))


def _summarised(
    axis: Axis, members: Sequence[tuple[int, list[_Points]]]
) -> Iterator[tuple[int, list[Any]]]:
    """The summaries of series that stand at the same places; none unless the points ascend."""
    pieces = members[0][1]
    if not pieces:
        return
    order = np.argsort(np.concatenate([piece.ordinals for piece in pieces]), kind="stable")
    steps = np.concatenate([piece.steps for piece in pieces])[order]
    times = np.concatenate([piece.milliseconds for piece in pieces])[order] / 1000
    if axis == "step":
        order, times, steps = (column[steps != NO_NUMBER] for column in (order, times, steps))
    at = times if axis == "time" else steps
    if not order.size or times.min() <= NO_NUMBER / 1000 or not _ascend(axis, at):
        return
    first_at, last_t = at[0].item(), times[-1].item()
    width = max(1, _VALUES_AT_ONCE // order.size)
    for start in range(0, len(members), width):
        some = members[start : start + width]
        values = np.empty((len(some), order.size))
        for row, (_, own) in zip(values, some, strict=True):
            row[:] = np.concatenate([piece.values for piece in own])[order]
        for (number, _), summary in zip(some, summarise_rows(at, values), strict=True):
            yield number, summary_numbers(summary, first_at=first_at, last_t=last_t)


def _ascend(axis: Axis, at: NDArray[Any]) -> bool:
    """Whether no point replaces another."""
    before, after = at[:-1], at[1:]
    return bool(np.all(before <= after if axis == "time" else before < after))
