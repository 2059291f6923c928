"""Answers with records that are not numbers: texts, histograms, findings, the log, raw records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from epochal.server import params, wire
from epochal.server.cursor import format_cursors, format_position, parse_cursors
from epochal.server.handlers import run_id_of, run_response
from epochal.server.updates import entry_row
from epochal.store.answers import Cursor, Entry
from epochal.store.store import RunView

MAX_ENTRIES = 5000
DEFAULT_ENTRIES = 500
MAX_RECORDS = 10_000
TIMELINE_KINDS = ("timeline", "span")
LOG_KINDS = ("message", "event", "epoch", "eval", "resume", "finish", "finding")

Choose = Callable[[RunView, int | None], list[Entry]]


async def histograms(request: Request) -> Response:
    """``…/histograms``: of one ``name`` or of all; ``spread=1`` picks them evenly over steps."""
    return await _entries(request, lambda run, rank: run.entries("histogram", rank=rank))


async def texts(request: Request) -> Response:
    """``…/texts``: text samples."""
    return await _entries(request, lambda run, rank: run.entries("text", rank=rank))


async def blobs(request: Request) -> Response:
    """``…/blobs``: images and other blobs; their bytes are at ``…/blob/{file}``."""
    return await _entries(request, lambda run, rank: run.entries("blob", rank=rank))


async def findings(request: Request) -> Response:
    """``…/findings``: what the health rules found, of all ranks, by time; then our own faults."""
    return await _entries(request, lambda run, _: [*run.findings(), *run.internal_errors()])


async def graph(request: Request) -> Response:
    """``…/graph``: pictures of the model, the newest last."""
    return await _entries(request, lambda run, _: by_time(run, "graph"))


async def experts(request: Request) -> Response:
    """``…/experts``: how much each expert of each layer had to do, by step."""
    return await _entries(request, lambda run, rank: run.entries("experts", rank=rank))


async def phases(request: Request) -> Response:
    """``…/phases``: where the time of steps went, by step."""
    return await _entries(request, lambda run, rank: run.entries("phases", rank=rank))


async def timeline(request: Request) -> Response:
    """``…/timeline``: long phases and samples around slow stretches, of all ranks, by time."""
    return await _entries(request, lambda run, _: by_time(run, *TIMELINE_KINDS))


async def log(request: Request) -> Response:
    """``…/log``: epochs, evaluations, messages, events and findings of all ranks, by time."""
    kinds = params.texts(request, "kind", most=len(LOG_KINDS)) or LOG_KINDS
    return await _entries(request, lambda run, _: by_time(run, *kinds))


async def records(request: Request) -> Response:
    """``…/records``: raw records after ``since``, in file order."""
    limit = params.whole(request, "limit", default=1000, most=MAX_RECORDS)
    since = parse_cursors(params.texts(request, "since", most=64))
    run_id = run_id_of(request)

    def query(run: RunView) -> wire.RecordPage:
        cursor: Cursor = since.get(run_id, {})
        found = list(islice(run.records(cursor), limit + 1))
        page = [wire.PositionedRecord(format_position(p), record) for p, record in found[:limit]]
        reached = {**cursor, **{position.writer: position for position, _ in found[:limit]}}
        return wire.RecordPage(page, format_cursors({run_id: reached}), more=len(found) > limit)

    return await run_response(request, query)


async def _entries(request: Request, choose: Choose) -> Response:
    """The newest ``limit`` entries before the newest ``offset``, in their order."""
    name = params.text(request, "name")
    offset = params.whole(request, "offset", default=0, most=10**9)
    limit = params.whole(request, "limit", default=DEFAULT_ENTRIES, most=MAX_ENTRIES)
    spread = params.flag(request, "spread")
    ranks = params.ranks(request)

    def query(run: RunView) -> wire.EntryList:
        found = choose(run, ranks[0] if ranks else None)
        names = Counter(entry.name for entry in found if entry.name is not None)
        chosen = [entry for entry in found if name in (None, entry.name)]
        shown = _spread(chosen, limit) if spread else _newest(chosen, offset, limit)
        rows = [entry_row(entry) for entry in shown]
        return wire.EntryList(rows, dict(names), total=len(chosen), offset=offset)

    return await run_response(request, query)


def _newest(entries: Sequence[Entry], offset: int, limit: int) -> Sequence[Entry]:
    end = max(len(entries) - offset, 0)
    return entries[max(end - limit, 0) : end]


def _spread(entries: Sequence[Entry], limit: int) -> Sequence[Entry]:
    """At most ``limit`` entries, evenly apart, the first and the last among them."""
    if len(entries) <= limit or limit == 0:
        return entries[:limit] if limit == 0 else entries
    last = len(entries) - 1
    steps = max(limit - 1, 1)
    return [entries[last - last * back // steps] for back in range(limit - 1, -1, -1)]


def by_time(run: RunView, *kinds: str) -> list[Entry]:
    """Entries of all ranks, the oldest first."""
    return sorted(run.entries(*kinds, rank=None), key=lambda entry: entry.t or 0.0)
