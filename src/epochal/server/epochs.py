"""Epochs in the format of the first dashboard: ``/events`` and ``/api/history``.

Each epoch is an object of ``epoch`` (from 1), ``total``, ``duration`` and ``eta`` in seconds,
``metrics``, ``resources`` and ``gpus``; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.records import finite
from epochal.server.downloads import run_or_current
from epochal.server.responses import error_response, json_response
from epochal.server.state import server_state
from epochal.server.stream import open_stream
from epochal.server.streams import Subscription
from epochal.server.updates import UpdateFilter
from epochal.store.progress import epochs_with_eta
from epochal.store.store import RunView

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
    """``/api/history``: every epoch of a run, of the current one without ``run=``."""
    run_id = await run_or_current(request)
    return await json_response(
        request, await server_state(request).reader.query_run(run_id, epochs_of)
    )


async def events(request: Request) -> Response:
    """``/events``: ``epoch`` for each epoch, past ones first, then ``complete``.

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
        told = [_event("epoch", epoch, epoch["epoch"]) for epoch in epochs if epoch["epoch"] > sent]
        sent = max([sent, *(epoch["epoch"] for epoch in epochs)])
        is_complete = state in _ENDED
        if is_complete:
            told.append(_event("complete", {"epochs": len(epochs), "status": state}, sent))
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


def _event(name: str, data: Mapping[str, Any], number: int) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
