"""What is asked of the tables of runs, as SQL that every version since 18.16 understands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.journal.layout import PartName
from epochal.records import Axis
from epochal.segments.columns import PartSummary, SeriesKey
from epochal.series.reduce import Summary
from epochal.series.series import Series
from epochal.store.clickhouse.connection import Address, Server, literal
from epochal.store.clickhouse.rows import AXES, Points, RecordRow, first_place, unpacked
from epochal.store.clickhouse.schema import PARTS, POINTS, RECORDS, Table, one_of

_PART_PLACES = 1 << 32
_POINT = np.dtype([("place", "<u8"), ("step", "<i8"), ("t", "<f8"), ("value", "<f8")])
# Later ones win: children before rank 0 itself, then by attempt, part and ordinal.
_WEIGHT = f"place + if(startsWith(writer, 'child-'), 0, toUInt64({2**63}))"


# Some records of parts: from an ordinal on, up to another.
Ranges = Mapping[PartName, tuple[int, int]]


class Received(NamedTuple):
    """How much of a part was received, and when the newest of it, by the server's clock."""

    lines: int = 0
    records: int = 0
    damaged: int = 0
    size: int = 0
    at: int = 0


class Extents(NamedTuple):
    """The records of a kind in some lines of a part: the highest step, and the latest time."""

    part: PartName
    kind: str
    step: int
    t: float


class Visible(NamedTuple):
    """The points of one writer in some parts, below the step where a newer attempt took over."""

    writer: str
    first: int
    end: int
    cut: int | None = None


class Bounds(NamedTuple):
    """The first and last position of a series in a range, and its number of stored points."""

    lo: float
    hi: float
    num_points: int


class Tables:
    """The tables of one database; several threads use it."""

    def __init__(self, address: Address, server: Server) -> None:
        self.address = address
        self.server = server

    def name(self, table: Table) -> str:
        """The full name of a table."""
        return f"{self.address.database}.{table.name}"

    def _rows(self, statement: str, types: str) -> Iterator[Any]:
        return unpacked(self.server.query(f"{statement} FORMAT RowBinary"), types)

    def now(self) -> int:
        """The time of the server, in Unix seconds."""
        return int(self.server.query("SELECT toUInt32(now()) FORMAT TabSeparatedRaw"))

    # -- parts ------------------------------------------------------------------------------------

    def changed_since(self, t: int) -> set[str]:
        """The runs of which something was received since a time of the server."""
        where = f"received >= toDateTime({t})"
        statement = f"SELECT DISTINCT run FROM {self.name(PARTS)} WHERE {where}"
        return {str(run, "utf-8") for (run,) in self._rows(statement, "s")}

    def received(self, run_ids: Iterable[str] | None = None) -> dict[str, dict[PartName, Received]]:
        """What was received of runs, part by part; of all runs unless some are named."""
        where = "1" if run_ids is None else one_of("run", list(run_ids))
        numbers = ", ".join(f"max({name})" for name in ("lines", "records", "damaged", "bytes"))
        found: dict[str, dict[PartName, Received]] = {}
        for run, writer, attempt, part, *counts in self._rows(
            f"SELECT run, writer, attempt, part, {numbers}, toUInt32(max(received))"
            f" FROM {self.name(PARTS)} WHERE {where} GROUP BY run, writer, attempt, part",
            "ssIIQQQQI",
        ):
            name = PartName(writer.decode(), attempt, part)
            found.setdefault(run.decode(), {})[name] = Received(*counts)
        return found

    # -- records ----------------------------------------------------------------------------------

    def records(
        self, run_id: str, kinds: Sequence[str], parts: Ranges, *, label: str | None = None
    ) -> Iterator[tuple[PartName, int, RecordRow]]:
        """Records of some kinds with their ordinals."""
        where = f"{_of_run(run_id)} AND {one_of('kind', kinds)} AND ({_records_in(parts)})"
        if label is not None:
            where += f" AND label = {literal(label)}"
        yield from self._record_rows(where)

    def lines(
        self, run_id: str, name: PartName, first: int, most: int
    ) -> list[tuple[bool, RecordRow]]:
        """Lines of a part from a number on, and whether each is damaged."""
        statement = (
            f"SELECT kind = '', ordinal, step, t, rest FROM {self.name(RECORDS)}"
            f" WHERE {_of_run(run_id)} AND {_of_part(name)}"
            f" AND line >= {first} AND line < {first + most} ORDER BY line LIMIT 1 BY line"
        )
        place = first_place(name)
        return [
            (bool(is_damaged), RecordRow(place + ordinal, *row))
            for is_damaged, ordinal, *row in self._rows(statement, "BIqds")
        ]

    def _record_rows(self, where: str) -> Iterator[tuple[PartName, int, RecordRow]]:
        statement = (
            f"SELECT writer, attempt, part, ordinal, step, t, rest FROM {self.name(RECORDS)}"
            f" WHERE {where} ORDER BY writer, attempt, part, ordinal"
        )
        before = None
        for row in self._rows(statement, "sIIIqds"):
            writer, attempt, part, ordinal, step, t, rest = row
            if row[:4] == before:
                continue  # of a batch that was sent twice
            before = row[:4]
            name = PartName(writer.decode(), attempt, part)
            place = first_place(name) + ordinal
            yield name, ordinal, RecordRow(place, step, t, rest)

    def any_records(self, run_id: str, parts: Ranges) -> Iterator[tuple[int, RecordRow]]:
        """Records of every kind, in their order."""
        where = f"{_of_run(run_id)} AND kind != '' AND ({_records_in(parts)})"
        return ((ordinal, row) for _, ordinal, row in self._record_rows(where))

    def extents(self, run_id: str, parts: Ranges) -> list[Extents]:
        """How far the records of each kind of each part reach."""
        statement = (
            "SELECT writer, attempt, part, kind, max(step), maxIf(t, isFinite(t))"
            f" FROM {self.name(RECORDS)} WHERE {_of_run(run_id)} AND kind != ''"
            f" AND ({_records_in(parts)}) GROUP BY writer, attempt, part, kind"
        )
        return [
            Extents(PartName(writer.decode(), attempt, part), kind.decode(), step, t)
            for writer, attempt, part, kind, step, t in self._rows(statement, "sIIsqd")
        ]

    # -- points -----------------------------------------------------------------------------------

    def keys(self, run_id: str, parts: Ranges) -> list[tuple[PartName, SeriesKey]]:
        """The series of each part, in the order of their first points."""
        statement = (
            "SELECT writer, bitShiftRight(place, 32) AS part, name, axis"
            f" FROM {self.name(POINTS)} WHERE {_of_run(run_id)} AND ({_places_in(parts)})"
            " GROUP BY writer, part, name, axis ORDER BY min(place), argMin(number, place)"
        )
        return [
            (_part(writer, part), SeriesKey(name.decode(), AXES[axis]))
            for writer, part, name, axis in self._rows(statement, "sQsB")
        ]

    def series(self, run_id: str, key: SeriesKey, name: PartName, rank: int) -> Series | None:
        """The points of one series of a part in the order written; None where there are none."""
        first = first_place(name)
        where = _of_series(run_id, key, [Visible(name.writer, first, first + _PART_PLACES)])
        answer = self.server.query(
            f"SELECT place, step, t, value FROM {self.name(POINTS)} WHERE {where} FORMAT RowBinary"
        )
        rows = np.frombuffer(answer, _POINT)
        if not rows.size:
            return None
        if not bool(np.all(rows["place"][:-1] < rows["place"][1:])):
            _, which = np.unique(rows["place"], return_index=True)
            rows = rows[which]
        step, t, value = (rows[column].copy() for column in ("step", "t", "value"))
        return Series(*key, rank, step, t, value)

    def points(self, run_id: str, parts: Ranges) -> Points:
        """All points of some records of one part, by series."""
        where = f"{_of_run(run_id)} AND ({_places_in(parts)})"
        statement = (
            "SELECT name, groupArray(place), groupArray(value)"
            f" FROM {self.name(POINTS)} WHERE {where} GROUP BY name"
        )
        return {
            series.decode(): (places, values)
            for series, places, values in self._rows(statement, "sUD")
        }

    def summaries(
        self, run_id: str, parts: Ranges
    ) -> dict[PartName, dict[SeriesKey, PartSummary | None]]:
        """The summary of every series of each part.

        None where only the points say it: some steps or batches occur twice.
        """
        found: dict[PartName, dict[SeriesKey, PartSummary | None]] = {}
        for axes, at, key in ("axis < 2", "step", "step"), ("axis = 2", "t", "place"):
            known = "isFinite(value)"
            columns = [
                f"count() = uniqExact({key})",
                "count()",
                f"countIf({known})",
                *(f"toFloat64({end}({at}))" for end in ("min", "max")),
                *(f"{end}(value, {at})" for end in ("argMin", "argMax")),
                f"argMax(t, {at})",
                *(f"{end}If(value, {known})" for end in ("min", "max", "avg")),
                # The first of equal ones.
                f"toFloat64(argMinIf({at}, (value, {at}), {known}))",
                f"toFloat64(argMinIf({at}, (-value, {at}), {known}))",
            ]
            statement = (
                "SELECT writer, bitShiftRight(place, 32) AS part, name, axis,"
                f" {', '.join(columns)} FROM {self.name(POINTS)}"
                f" WHERE {_of_run(run_id)} AND {axes} AND ({_places_in(parts)})"
                " GROUP BY writer, part, name, axis"
            )
            for writer, part, name, axis, *row in self._rows(statement, "sQsBBQQ" + "d" * 10):
                key_ = SeriesKey(name.decode(), AXES[axis])
                summary = _summary(key_.axis, *row)
                found.setdefault(_part(writer, part), {})[key_] = summary
        return found

    # -- charts -----------------------------------------------------------------------------------

    def bounds(
        self,
        run_id: str,
        key: SeriesKey,
        visible: Sequence[Visible],
        lo: float | None = None,
        hi: float | None = None,
    ) -> Bounds | None:
        """Where a series begins and ends between lo and hi; None without a point."""
        at = _at(key.axis)
        where = _of_series(run_id, key, visible) + _between(at, lo, hi)
        statement = f"SELECT toFloat64(min({at})), toFloat64(max({at})), count()"
        (row,) = self._rows(f"{statement} FROM {self.name(POINTS)} WHERE {where}", "ddQ")
        return Bounds(*row) if row[2] else None

    def slices(
        self,
        run_id: str,
        key: SeriesKey,
        visible: Sequence[Visible],
        bounds: tuple[float, float],
        *,
        pixels: int,
    ) -> NDArray[np.float64]:
        """The slices of a series between two positions, one row each.

        The columns are: number of points and of finite ones, first and last position of all and of
        the finite ones; then last, mean, smallest and largest finite value. A step that was logged
        twice counts once.
        """
        lo, hi = bounds
        known = "isFinite(v)"
        columns = (
            "toFloat64(count())",
            f"toFloat64(countIf({known}))",
            *(f"toFloat64({end}(at))" for end in ("min", "max")),
            *(f"toFloat64({end}If(at, {known}))" for end in ("min", "max")),
            f"argMaxIf(v, at, {known})",
            *(f"{end}If(v, {known})" for end in ("avg", "min", "max")),
        )
        answer = self.server.query(
            f"SELECT {', '.join(columns)} FROM ({self._resolved(run_id, key, visible, lo, hi)})"
            f" GROUP BY {_slice(lo, hi, pixels)} AS slice ORDER BY slice FORMAT RowBinary"
        )
        return np.frombuffer(answer, np.float64).reshape(-1, len(columns))

    def nonfinite(
        self,
        run_id: str,
        key: SeriesKey,
        visible: Sequence[Visible],
        bounds: tuple[float, float],
        *,
        pixels: int,
    ) -> NDArray[np.float64]:
        """Position and kind of points that are no number, the first of each kind in each slice.

        The kinds are 0 for nan, 1 and -1 for the infinities.
        """
        lo, hi = bounds
        kind = "if(isNaN(v), 0, if(v > 0, 1, -1))"
        answer = self.server.query(
            f"SELECT toFloat64(min(at)), toFloat64({kind} AS kind)"
            f" FROM ({self._resolved(run_id, key, visible, lo, hi)}) WHERE NOT isFinite(v)"
            f" GROUP BY {_slice(lo, hi, pixels)} AS slice, kind"
            " ORDER BY min(at) FORMAT RowBinary"
        )
        return np.frombuffer(answer, np.float64).reshape(-1, 2)

    def num_stored(
        self,
        run_id: str,
        key: SeriesKey,
        visible: Sequence[Visible],
        lo: float | None = None,
        hi: float | None = None,
    ) -> int:
        """How many points were logged, also where several are at one step."""
        where = _of_series(run_id, key, visible) + _between(_at(key.axis), lo, hi)
        statement = f"SELECT uniqExact(writer, place) FROM {self.name(POINTS)} WHERE {where}"
        return int(next(self._rows(statement, "Q"))[0])

    def _resolved(
        self, run_id: str, key: SeriesKey, visible: Sequence[Visible], lo: float, hi: float
    ) -> str:
        """A query for the points of a series, one for each step, as ``at`` and ``v``."""
        at = _at(key.axis)
        where = _of_series(run_id, key, visible) + _between(at, lo, hi)
        if key.axis == "time":
            return (
                f"SELECT any(t) AS at, any(value) AS v FROM {self.name(POINTS)} WHERE {where}"
                " GROUP BY writer, place"
            )
        return (
            f"SELECT step AS at, argMax(value, {_WEIGHT}) AS v FROM {self.name(POINTS)}"
            f" WHERE {where} GROUP BY step"
        )


def _slice(lo: float, hi: float, pixels: int) -> str:
    """The number of the slice that a position is in, of equal ones between two others."""
    return f"least(toInt64(floor((at - ({lo!r})) * {pixels / (hi - lo)!r})), {pixels - 1})"


def _at(axis: Axis) -> str:
    return "t" if axis == "time" else "step"


def _between(at: str, lo: float | None, hi: float | None) -> str:
    low = "" if lo is None else f" AND {at} >= {lo!r}"
    return low + ("" if hi is None else f" AND {at} <= {hi!r}")


def _of_run(run_id: str) -> str:
    return f"run = {literal(run_id)}"


def _of_part(name: PartName) -> str:
    return f"writer = {literal(name.writer)} AND attempt = {name.attempt} AND part = {name.part}"


def _of_series(run_id: str, key: SeriesKey, visible: Sequence[Visible]) -> str:
    pieces = [
        f"writer = {literal(one.writer)} AND place >= {one.first} AND place < {one.end}"
        + ("" if one.cut is None else f" AND step < {one.cut}")
        for one in visible
    ]
    where = f"{_of_run(run_id)} AND name = {literal(key.name)} AND axis = {AXES.index(key.axis)}"
    return f"{where} AND ({' OR '.join(f'({piece})' for piece in pieces) or '0'})"


def _records_in(parts: Ranges) -> str:
    """A condition for the records of some parts."""
    pieces = (
        f"({_of_part(name)} AND ordinal >= {first} AND ordinal < {end})"
        for name, (first, end) in parts.items()
    )
    return " OR ".join(pieces) or "0"


def _places_in(parts: Ranges) -> str:
    """The same for points."""
    pieces = [
        f"(writer = {literal(name.writer)} AND place >= {first_place(name) + first}"
        f" AND place < {first_place(name) + end})"
        for name, (first, end) in parts.items()
    ]
    return " OR ".join(pieces) or "0"


def _part(writer: bytes, number: int) -> PartName:
    return PartName(writer.decode(), number >> 16, number & 0xFFFF)


def _summary(
    axis: Axis,
    is_exact: int,
    count: int,
    num_finite: int,
    first_at: float,
    last_at: float,
    first: float,
    last: float,
    last_t: float,
    *of_finite: float,
) -> PartSummary | None:
    """A summary from a row of an answer; None where some points occur twice."""
    if not is_exact:
        return None
    low, high, mean, low_at, high_at = of_finite if num_finite else (None,) * 5
    kind = float if axis == "time" else int  # steps keep their own type
    places = [None if at is None else kind(at) for at in (last_at, low_at, high_at)]
    summary = Summary(
        count, count - num_finite, first, last, places[0], low, places[1], high, places[2], mean
    )
    return PartSummary(summary, first_at, last_t)
