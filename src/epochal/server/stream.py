"""``/api/events``, and epochs in the format of the first dashboard: ``/events``, ``/api/history``.

There each epoch is an object of ``epoch`` (from 1), ``total``, ``duration`` and ``eta`` in seconds,
``metrics``, ``resources`` and ``gpus``; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from epochal.errors import UsageError
from epochal.records import finite
from epochal.server.access import has_access
from epochal.server.downloads import run_or_current
from epochal.server.params import Param, bool_param, ranks_param, str_params
from epochal.server.responses import error_response, json_response
from epochal.server.state import server_state
from epochal.server.streams import MAX_STREAMS, Subscription, encode_event
from epochal.server.updates import Cursors, UpdateFilter, parse_cursors
from epochal.server.wire import ResetEvent
from epochal.store.progress import epochs_with_eta
from epochal.store.run import RunView

RUNS = str_params("run", most=256)
NAMES = str_params("name", most=512)
RANKS = ranks_param()
KINDS = str_params("kind", most=64)
LIVE = bool_param("live", note="1: with readings of the machines")
# A cursor has a limit of its own, and one that is invalid resets the stream.
SINCE = Param("since", tuple, "readonly string[]", most=1024, longest=1 << 20)
EVENTS_PARAMS = (RUNS, NAMES, RANKS, KINDS, LIVE, SINCE)
_HEADERS = {
    "cache-control": "no-store",
    "content-type": "text/event-stream; charset=utf-8",
    # Proxies that buffer responses would hold the stream back.
    "x-accel-buffering": "no",
}

# Turns a batch of events into what a client is sent; nothing is sent of an empty result.
View = Callable[[bytes], Awaitable[bytes]]


async def events(request: Request) -> Response:
    """Updates of the list and of some runs."""
    subscription = Subscription(
        runs=RUNS(request),
        update_filter=UpdateFilter(
            names=NAMES(request), ranks=RANKS(request), kinds=KINDS(request)
        ),
        live=LIVE(request),
    )
    given = [*SINCE(request), request.headers.get("last-event-id", "")]
    texts = [text for text in given if text]
    first = b""
    try:
        since = parse_cursors(texts) if texts else None
    except UsageError:
        since, first = None, encode_event("reset", ResetEvent(None, "unknown"))
    return open_stream(request, subscription, since=since, first=first)


def open_stream(
    request: Request,
    subscription: Subscription,
    *,
    since: Cursors | None = None,
    first: bytes = b"",
    view: View | None = None,
) -> Response:
    """A stream of a subscription, until the client, the server or the access ends it."""
    streams = server_state(request).streams
    if streams.num_streams >= MAX_STREAMS:
        sentence = f"{MAX_STREAMS} event streams are already open."
        return error_response(503, sentence, headers={"retry-after": "10"})
    if request.method == "HEAD":
        return Response(headers=_HEADERS)
    may_go_on = partial(has_access, request.scope)
    batches = streams.follow(subscription, since, may_go_on)
    return StreamingResponse(_viewed(batches, first, view), headers=_HEADERS)


async def _viewed(
    batches: AsyncIterator[bytes], first: bytes, view: View | None
) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for batch in batches:
        if shown := batch if view is None else await view(batch):
            yield shown


_ENDED = ("finished", "failed", "interrupted", "terminated", "crashed")
_RESOURCES = {
    "cpu_pct": "cpu",
    "ram_used": "ram_used",
    "ram_total": "ram_total",
    "gpu_pct": "gpu",
    "vram_allocated_bytes": "vram_alloc",
    "vram_total": "vram_total",
}
_GPUS = {
    "device": "dev",
    "id": "dev",
    "name": "name",
    "gpu_util": "util",
    "dram_used": "vram_alloc",
    "dram_total": "vram_total",
    "throughput": "throughput",
    "share": "chunk",
    "batches": "shard",
}


async def history(request: Request) -> Response:
    """Epochs of a run."""
    run_id = await run_or_current(request)
    return await json_response(
        request, await server_state(request).reader.query_run(run_id, epochs_of)
    )


async def epoch_events(request: Request) -> Response:
    """Epochs of a run as they end.

    It is a view of ``/api/events``: whatever is sent of the run there, new epochs are sent here.
    """
    reader = server_state(request).reader
    run_id = await run_or_current(request)
    last = request.headers.get("last-event-id", "0")
    if not (last.isascii() and last.isdigit() and len(last) < 10):
        return error_response(400, "Last-Event-ID must be the number of an epoch.")
    sent, is_complete = int(last), False

    def query(run: RunView) -> tuple[list[dict[str, Any]], str]:
        return epochs_of(run), run.info.status.state

    async def view(_batch: bytes) -> bytes:
        nonlocal sent, is_complete
        if is_complete:  # an ended stream would make the browser come back and hear it all again
            return b": alive\n\n"
        epochs, state = await reader.query_run(run_id, query)
        new = [epoch for epoch in epochs if epoch["epoch"] > sent]
        told = [encode_event("epoch", one, position=str(one["epoch"])) for one in new]
        sent = max([sent, *(epoch["epoch"] for epoch in epochs)])
        is_complete = state in _ENDED
        if is_complete:
            ended = {"epochs": len(epochs), "status": state}
            told.append(encode_event("complete", ended, position=str(sent)))
        return b"".join(told) or b": alive\n\n"

    await reader.query_run(run_id, lambda run: None)  # a missing run is a 404 before the stream
    subscription = Subscription((run_id,), UpdateFilter(kinds=("epoch",)))
    return open_stream(request, subscription, view=view)


def epochs_of(run: RunView) -> list[dict[str, Any]]:
    """The epochs that no newer attempt replaced, in order."""
    return [_epoch(entry.record, eta_s) for entry, eta_s in epochs_with_eta(run)]


def _epoch(record: Mapping[str, Any], eta_s: float | None) -> dict[str, Any]:
    total, duration = record.get("total"), finite(record.get("duration_s"))
    event: dict[str, Any] = {"epoch": record["epoch"]}
    if isinstance(total, int):
        event["total"] = total
    if duration is not None:
        event["duration"] = round(duration, 4)
    if eta_s is not None:
        event["eta"] = round(eta_s, 1)
    event["metrics"] = {name: _rounded(v) for name, v in (record.get("m") or {}).items()}
    event["resources"] = _renamed(record.get("resources") or {}, _RESOURCES)
    event["gpus"] = [_renamed(gpu, _GPUS) for gpu in record.get("gpus") or ()]
    return event


def _renamed(fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[name]: value for name, value in fields.items() if name in names}


def _rounded(value: Any) -> Any:
    return round(value, 8) if isinstance(value, float) else value
