"""What is asked of the tables of runs, as SQL that every version since 18.16 understands."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epochal.journal.layout import PartName
from epochal.journal.line import decode
from epochal.records import Axis, Record
from epochal.segments.columns import PartSummary, SeriesKey
from epochal.series.reduce import Summary
from epochal.series.series import Series
from epochal.settings import cache_folder
from epochal.store.clickhouse.connection import Address, Server, connect, literal, parse_address
from epochal.store.clickhouse.documents import ClickHouseDocuments
from epochal.store.clickhouse.rows import AXES, NO_STEP, ROW_LINES, first_place, unpacked
from epochal.store.clickhouse.schema import PARTS, POINTS, RECORDS, SERIES, Table, one_of, set_up

_POINT = np.dtype([("place", "<u8"), ("step", "<i8"), ("t", "<f8"), ("value", "<f8")])
# Some records of parts: from an ordinal on, up to another.
Ranges = Mapping[PartName, tuple[int, int]]


class Received(NamedTuple):
    """How much of a part was received: a row of ``parts``, and when, by the server's clock."""

    lines: int = 0
    records: int = 0
    damaged: int = 0
    size: int = 0
    step: int = NO_STEP
    t: float = 0.0
    kinds: frozenset[str] = frozenset()
    at: int = 0


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
        columns = [
            *(f"max({name})" for name in ("lines", "records", "damaged", "bytes")),
            "max(step), max(t), argMax(kinds, lines)",
        ]
        found: dict[str, dict[PartName, Received]] = {}
        for run, writer, attempt, part, *counts, kinds, at in self._rows(
            f"SELECT run, writer, attempt, part, {', '.join(columns)}, toUInt32(max(received))"
            f" FROM {self.name(PARTS)} WHERE {where} GROUP BY run, writer, attempt, part",
            "ssIIQQQQqdsI",
        ):
            said = frozenset(kinds.decode().split(",")) - {""}
            one = Received(*counts)._replace(kinds=said, at=at)
            found.setdefault(run.decode(), {})[PartName(writer.decode(), attempt, part)] = one
        return found

    # -- records ----------------------------------------------------------------------------------

    def records(
        self,
        run_id: str,
        parts: Ranges,
        kinds: Sequence[str] | None = None,
        *,
        label: str | None = None,
    ) -> Iterator[tuple[PartName, int, Record]]:
        """Records of some kinds or of all with their ordinals, part by part in their order."""
        where = "kind != ''" if kinds is None else one_of("kind", kinds)
        if label is not None:
            where += f" AND label = {literal(label)}"
        statement = (
            f"SELECT writer, attempt, part, shift, lines, said FROM {self.name(RECORDS)}"
            f" WHERE {_of_run(run_id)} AND {where} AND ({_records_in(parts)})"
        )
        found: dict[PartName, dict[int, bytes]] = {}
        for writer, attempt, part, shift, lines, said in self._rows(statement, "sIIIAs"):
            name = PartName(writer.decode(), attempt, part)
            first, end = parts[name]
            rows = found.setdefault(name, {})  # of a batch that was sent twice, one counts
            for line, one in zip(lines, said.split(b"\n"), strict=True):
                if first <= line - shift < end:
                    rows[line - shift] = one
        for name in sorted(found):
            for ordinal, line in sorted(found[name].items()):
                record = decode(line)
                assert record is not None
                yield name, ordinal, record

    def lines(self, run_id: str, name: PartName, first: int, most: int) -> list[bytes]:
        """Lines of a part from a number on, damaged ones included."""
        statement = (
            f"SELECT lines, said FROM {self.name(RECORDS)}"
            f" WHERE {_of_run(run_id)} AND {_of_part(name)}"
            f" AND line >= {max(first - ROW_LINES, 0)} AND last >= {first}"
            f" AND line < {first + most}"
        )
        found: dict[int, bytes] = {}
        for lines, said in self._rows(statement, "As"):
            found.update(zip(lines, said.split(b"\n"), strict=True))
        return [line for number, line in sorted(found.items()) if first <= number < first + most]

    # -- points -----------------------------------------------------------------------------------

    def keys(self, run_id: str, names: Sequence[PartName]) -> dict[PartName, dict[SeriesKey, None]]:
        """The series of some parts, in the order of their first points."""
        of_parts = " OR ".join(f"({_of_part(name)})" for name in names) or "0"
        statement = (
            f"SELECT writer, attempt, part, name, axis FROM {self.name(SERIES)}"
            f" WHERE {_of_run(run_id)} AND ({of_parts})"
            " GROUP BY writer, attempt, part, name, axis ORDER BY min(place), min(number)"
        )
        found: dict[PartName, dict[SeriesKey, None]] = {}
        for writer, attempt, part, name, axis in self._rows(statement, "sIIsB"):
            of_part = found.setdefault(PartName(writer.decode(), attempt, part), {})
            of_part[SeriesKey(name.decode(), AXES[axis])] = None
        return found

    def series(self, run_id: str, key: SeriesKey, part: Ranges, rank: int) -> Series | None:
        """The points of one series of a part in the order written; None where there are none."""
        where = f"{_of_run(run_id)} AND name = {literal(key.name)}"
        where += f" AND axis = {AXES.index(key.axis)} AND ({_places_in(part)})"
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

    def summaries(
        self, run_id: str, parts: Ranges, axes: Collection[Axis]
    ) -> dict[PartName, dict[SeriesKey, PartSummary | None]]:
        """The summary of every series of each part.

        None where only the points say it: some steps or batches do occur twice.
        """
        found: dict[PartName, dict[SeriesKey, PartSummary | None]] = {}
        for is_time, at, key in (False, "step", "step"), (True, "t", "place"):
            if not any((axis == "time") == is_time for axis in axes):
                continue
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
                f" WHERE {_of_run(run_id)} AND axis {'=' if is_time else '<'} 2"
                f" AND ({_places_in(parts)})"
                " GROUP BY writer, part, name, axis"
            )
            for writer, part, name, axis, *row in self._rows(statement, "sQsBBQQ" + "d" * 10):
                key_ = SeriesKey(name.decode(), AXES[axis])
                summary = _summary(key_.axis, *row)
                found.setdefault(_part(writer, part), {})[key_] = summary
        return found


def _of_run(run_id: str) -> str:
    return f"run = {literal(run_id)}"


def _of_part(name: PartName) -> str:
    return f"writer = {literal(name.writer)} AND attempt = {name.attempt} AND part = {name.part}"


def _records_in(parts: Ranges) -> str:
    """A condition for the records of some parts."""
    pieces = (
        f"({_of_part(name)} AND line >= {max(first - ROW_LINES, 0)} AND last >= {first}"
        f" AND line - shift < {end})"
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


class Database:
    """One database of a server or a cluster; several stores and an inbox share it."""

    def __init__(self, address: str | Address) -> None:
        self.address = parse_address(address) if isinstance(address, str) else address
        self.server = connect(self.address)
        set_up(self.address, self.server)
        self.tables = Tables(self.address, self.server)
        self.documents = ClickHouseDocuments(self.address, self.server)

    @property
    def cache(self) -> Path:
        """Where blobs are kept that were read; it can be deleted at any time."""
        digest = hashlib.blake2b(str(self.address).encode(), digest_size=8).hexdigest()
        return cache_folder() / "clickhouse" / digest

    def close(self) -> None:
        """Close every connection."""
        self.server.close()
