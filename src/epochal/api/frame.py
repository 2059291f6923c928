"""Runs as tables, for programs that read many at once: DuckDB, pandas, Ray.

``frame`` says which runs there are and which files have their records, from the catalog of a bucket
or of folders; it never lists objects. ``points`` reads metrics from such files. A worker of a
distributed engine needs the rows of ``Frame.parts`` of some runs, and nothing else.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from epochal.errors import FormatError
from epochal.health.rule_settings import reader_rules
from epochal.journal.facts import RunFacts
from epochal.journal.layout import LOOP, PartName, json_bytes, parse_part_name, rank_of_writer
from epochal.journal.part import SealedPart
from epochal.journal.row import RunRow
from epochal.journal.state import Part, RunState
from epochal.journal.tail import TailedPart
from epochal.records import Axis
from epochal.records.format import plural
from epochal.series.series import Series
from epochal.settings import read_settings
from epochal.store.bucket import Bucket, ObjectNotFoundError, is_bucket_address, open_bucket
from epochal.store.opening import is_bucket, open_runs
from epochal.store.published import PublishedParts, read_parts
from epochal.store.store import Store

# So many runs are asked for at once.
_AT_ONCE = 16
_RUNS = pa.schema(
    {
        **dict.fromkeys(("run", "project", "name", "state", "group"), pa.string()),
        "tags": pa.list_(pa.string()),
        "created": pa.float64(),
        "attempts": pa.int32(),
        "step": pa.int64(),
        "config": pa.string(),
        "is_complete": pa.bool_(),
        "problem": pa.string(),
    }
)
_PARTS = pa.schema(
    {
        **dict.fromkeys(("run", "uri", "writer"), pa.string()),
        **dict.fromkeys(("rank", "attempt", "part"), pa.int32()),
        **dict.fromkeys(("records", "bytes", "before_step", "before_epoch"), pa.int64()),
    }
)
_POINTS = pa.schema(
    {
        **dict.fromkeys(("run", "metric"), pa.string()),
        "step": pa.int64(),
        **dict.fromkeys(("time", "value"), pa.float64()),
    }
)
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """Some runs, and the files that have their records.

    Attributes:
        runs: A row for each run. ``config`` is JSON, cut after 4 kB as in lists. ``is_complete``
            is false where records are missing that a hub has not sealed yet, and ``problem`` says
            what cannot be read.
        parts: A row for each file: its ``uri``, who wrote it, in which attempt, and as which part.
            Of its records, those at ``before_step`` and ``before_epoch`` or later do not count,
            because a newer attempt started again there. ``records`` is null where only the file
            says it.
    """

    runs: pa.Table
    parts: pa.Table

    @property
    def note(self) -> str | None:
        """A sentence about what is missing; None if nothing is."""
        missing = self.runs["is_complete"].to_pylist().count(False)
        if not missing:
            return None
        return f"{plural(missing, 'run')} with records that are not sealed yet: they are missing."

    def split(self, count: int) -> list[pa.Table]:
        """``parts`` in at most so many tables of about one size; none divides a run.

        Args:
            count: How many tables.
        """
        runs = self.parts["run"].to_pylist()
        starts = [at for at, run in enumerate(runs) if at == 0 or run != runs[at - 1]]
        chosen = starts[:: max(1, -(-len(starts) // count))]
        return [
            self.parts.slice(at, end - at)
            for at, end in zip(chosen, [*chosen[1:], len(runs)], strict=False)
        ]


def frame(
    path: str | Path | None = None,
    query: str | None = None,
    *,
    follow_links: bool = False,
    token: str | None = None,
) -> Frame:
    """Which runs there are and which files have their records, as tables for other programs.

    The files of a bucket are Parquet objects with what is sealed. Those of a folder may be lines of
    JSON as well, and those of a hub or a server are copied into the cache. Raises ``UsageError``
    for a folder that is not there and for a mistake in the query.

    Args:
        path: As for ``open``.
        query: Which runs, by default all of them.
        follow_links: Follow links that lead out of the folder.
        token: The token of the hub or server, by default that of EPOCHAL_HUB_TOKEN.
    """
    path = read_settings().dir if path is None else path
    store = open_runs(path, token=token, follow_links=follow_links, rules=reader_rules())
    bucket = open_bucket(str(path)) if is_bucket(path) else None
    listed = partial(_in_store, store) if bucket is None else partial(_in_bucket, bucket)
    with store, ThreadPoolExecutor(_AT_ONCE) as pool:
        ids = store.known_runs(query, budget_s=math.inf).ids
        rows = {row.id: row for row in store.catalog.rows()}
        chosen = [rows[run_id] for run_id in ids if run_id in rows]
        read = partial(_listed, listed)
        # The first alone: a process crashed in which threads decoded their first footers at once.
        found = [*map(read, chosen[:1]), *pool.map(read, chosen[1:])]
    return Frame(
        pa.Table.from_pylist([run for run, _ in found], schema=_RUNS),
        pa.Table.from_pylist([part for _, parts in found for part in parts], schema=_PARTS),
    )


def points(parts: pa.Table, *metrics: str, axis: Axis = "step", rank: int = 0) -> pa.Table:
    """The points of metrics that count, with the columns run, metric, step, time and value.

    ``time`` is in Unix seconds. A run without a metric has no rows of it. Raises ``FormatError``
    for a file that is damaged, and ``BucketError`` where the bucket cannot be reached.

    Args:
        parts: Rows of ``Frame.parts``; those of a run have to be together.
        metrics: Names of metrics; all metrics if you give none.
        axis: ``step``, ``epoch`` or ``time``; on the epoch axis ``step`` has the epochs.
        rank: The rank of a distributed run.
    """
    wanted = [row for row in parts.to_pylist() if row["rank"] in (None, 0, rank)]
    tables = [_POINTS.empty_table()]
    for run, rows in groupby(sorted(wanted, key=itemgetter("run")), itemgetter("run")):
        with _opened(rows) as opened:
            state = RunState(opened)
            for name in metrics or [key.name for key in state.ranks if key.axis == axis]:
                key = state.find(name, axis, rank)
                if key is not None:
                    tables.append(_table(run, state.series(key, rank)))
    return pa.concat_tables(tables)


# -- which files there are ------------------------------------------------------------------------


def _listed(list_parts: Any, row: RunRow) -> tuple[_Row, list[_Row]]:
    """The rows of a run and of its parts; a fault of one run is that run's problem."""
    problem, parts, is_complete = row.problem, list[_Row](), False
    try:
        parts, is_complete = list_parts(row)
        cuts = _cuts(parts)
    except (FormatError, ObjectNotFoundError) as error:
        problem, parts, cuts = str(error), [], {}
    for part in parts:
        part["run"] = row.id
        part["before_step"], part["before_epoch"] = cuts.get(part["attempt"], (None, None))
    names = ("project", "name", "group", "created", "attempts", "step")
    return {
        **{name: getattr(row, name) for name in names},
        "run": row.id,
        "tags": row.tags,
        "state": row.status.state,
        "config": json_bytes(row.config).decode(),
        "is_complete": is_complete,
        "problem": problem,
    }, parts


def _in_bucket(bucket: Bucket, row: RunRow) -> tuple[list[_Row], bool]:
    """The objects of a run, and whether they have all of its records."""
    published: PublishedParts = read_parts(bucket, row.folder)
    found = [
        _part(name, f"{bucket.address}/{part.object}", part.size, records=part.sealed)
        for stem, part in published.parts.items()
        if part.object is not None
        and (name := parse_part_name(f"{stem}.parquet", ".parquet")) is not None
    ]
    is_sealed = all(part.records == part.sealed for part in published.parts.values())
    return found, is_sealed and not row.status.is_live


def _in_store(store: Store, row: RunRow) -> tuple[list[_Row], bool]:
    """The files of a run in its folder, or in the copy of it."""
    run = store.find(row.id)
    if run is None:
        return [], False
    run.look_again()
    listing = run.source.listing
    # A part that is in both is being sealed.
    files = {**listing.sealed, **listing.journal}
    return [_part(name, file.path, file.size) for name, file in sorted(files.items())], True


def _part(name: PartName, uri: str, size: int, *, records: int | None = None) -> _Row:
    rank = rank_of_writer(name.writer)
    return {**name._asdict(), "uri": uri, "rank": rank, "records": records, "bytes": size}


def _cuts(parts: Sequence[_Row]) -> Mapping[int, tuple[int | None, int | None]]:
    """By attempt, the step and epoch at which a newer one started again."""
    attempts = {part["attempt"] for part in parts}
    if len(attempts) < 2:
        return {}
    with _opened(part for part in parts if part["writer"] == LOOP) as opened:
        facts = RunFacts(part.facts for part in opened)
    steps, epochs = facts.cuts("step"), facts.cuts("epoch")
    return {attempt: (steps.get(attempt), epochs.get(attempt)) for attempt in attempts}


# -- what is in them ------------------------------------------------------------------------------


@contextmanager
def _opened(rows: Iterable[_Row]) -> Iterator[list[Part]]:
    """The parts of a run; objects are copied into a folder that is gone afterwards."""
    known = list(rows)
    is_remote = any(is_bucket_address(row["uri"]) for row in known)
    copies = tempfile.TemporaryDirectory(prefix="epochal-") if is_remote else nullcontext("")
    with copies as folder:
        yield [_opened_part(row, Path(folder)) for row in known]


def _opened_part(row: _Row, folder: Path) -> Part:
    name, path = PartName(row["writer"], row["attempt"], row["part"]), Path(row["uri"])
    if is_bucket_address(row["uri"]):
        scheme, _, rest = row["uri"].partition("://")
        host, _, key = rest.partition("/")
        path = folder / f"{name.stem}.parquet"
        path.write_bytes(_bucket(f"{scheme}://{host}").get(key))
    if path.suffix == ".parquet":
        return SealedPart(path, name)
    part = TailedPart(path, name)
    part.poll()
    return part


@lru_cache(8)
def _bucket(address: str) -> Bucket:
    return open_bucket(address)


def _table(run: str, series: Series) -> pa.Table:
    num_points = len(series)
    columns = [pa.repeat(pa.scalar(text), num_points) for text in (run, series.name)]
    return pa.table([*columns, series.steps, series.times, series.values], schema=_POINTS)
