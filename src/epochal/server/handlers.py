"""Answers about runs and their series, and the one thing that can be changed: labels."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import epochal
from epochal.errors import EpochalError, FormatError, MetricNotFoundError, UsageError
from epochal.server import params, wire
from epochal.server.cursor import format_cursors
from epochal.server.responses import body_response, error_response, etag_of, is_known, json_response
from epochal.server.rows import labels_row, run_detail, run_row
from epochal.server.series_body import SeriesBlock, series_block, series_body
from epochal.server.state import server_state
from epochal.store.along import place
from epochal.store.answers import Labels
from epochal.store.store import RunView

MAX_ROWS = 10_000
MAX_RUNS = 1000
MAX_NAMES = 64
MAX_SERIES = 4000
MAX_PIXELS = 20_000
MAX_BODY_BYTES = 64 * 1024
DEFAULT_PIXELS = 1000
X_KINDS: Sequence[wire.XKind] = get_args(wire.XKind)
AXES: Sequence[wire.AxisName] = get_args(wire.AxisName)


async def page(request: Request) -> Response:
    """``/``: the page."""
    html = server_state(request).page.html
    return await body_response(request, html, media_type="text/html; charset=utf-8")


async def health(request: Request) -> Response:
    """``/healthz``: who answers here."""
    parts = server_state(request)
    return await json_response(
        request,
        wire.Health(
            service="epochal",
            version=epochal.__version__,
            pid=os.getpid(),
            folders=parts.folders,
            streams=parts.broadcaster.num_streams,
            faults=parts.num_faults,
        ),
    )


async def runs(request: Request) -> Response:
    """``/api/runs``: one page of the list."""
    text, order = params.text(request, "query"), params.text(request, "order")
    offset = params.whole(request, "offset", default=0, most=10**9)
    limit = params.whole(request, "limit", default=100, most=MAX_ROWS)
    with_config = params.flag(request, "config")
    summaries = params.texts(request, "summary", most=MAX_NAMES)

    reader = server_state(request).reader

    def query() -> wire.RunList:
        reader.catalog.refresh()
        found = reader.catalog.runs(text or None, order=order or None)
        rows = [
            run_row(run, with_config=with_config, summaries=summaries)
            for run in found[offset : offset + limit]
        ]
        return wire.RunList(rows, total=len(found), offset=offset)

    return await json_response(request, await reader.query(query))


async def run(request: Request) -> Response:
    """``/api/runs/{id}``: everything about one run but its points and entries."""
    with_summaries = params.flag(request, "summary", default=True)
    parts = server_state(request)

    def query(view: RunView) -> wire.RunDetail:
        return run_detail(view, exports=list(parts.exports), with_summaries=with_summaries)

    return await run_response(request, query)


async def config(request: Request) -> Response:
    """``/api/runs/{id}/config``: what a run was configured with."""
    return await run_response(request, lambda view: dict(view.config))


async def change_labels(request: Request) -> Response:
    """``PATCH /api/runs/{id}/labels``: what is given is replaced, the rest stays."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return error_response(415, "labels are changed with a body of application/json.")
    too_large = error_response(
        413,
        f"labels have at most {MAX_BODY_BYTES} bytes.",
        headers={"connection": "close"},  # what else is sent is not read
    )
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        return too_large
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return too_large
    try:
        change = msgspec.json.decode(body, type=wire.LabelsChange)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return error_response(400, f"these are not labels: {error}.")

    def query(view: RunView) -> wire.Labels | OSError:
        try:
            view.relabel(_changed(view.labels, change))
        except OSError as error:
            return error
        return labels_row(view.labels)

    stored = await server_state(request).reader.query_run(run_id_of(request), query)
    if isinstance(stored, OSError):
        return error_response(409, f"the labels could not be stored: {stored.strerror or stored}.")
    return await json_response(request, stored)


@dataclass(frozen=True, slots=True, eq=False)
class _RunBlocks:
    """What one run has of the series asked for: by name, and where it was read to."""

    position: str | None
    blocks: Mapping[str, Sequence[SeriesBlock]] = field(default_factory=dict)
    missing: Mapping[str, Sequence[wire.Missing]] = field(default_factory=dict)


async def series(request: Request) -> Response:
    """``/api/series``: points of some series of many runs, as ``spec/wire.md`` lays them out."""
    names = params.needed(request, "name", most=MAX_NAMES)
    run_ids = params.needed(request, "run", most=MAX_RUNS)
    ranks = params.ranks(request)
    x = params.choice(request, "x", X_KINDS, default=None) or "step"
    axis = params.choice(request, "axis", AXES, default=None)
    lo, hi = params.number(request, "lo"), params.number(request, "hi")
    pixels = params.whole(request, "pixels", default=DEFAULT_PIXELS, most=MAX_PIXELS)
    if lo is not None and hi is not None and lo > hi:
        raise UsageError(f"lo={lo} must not be above hi={hi}.")
    if len(names) * len(run_ids) * len(ranks or (0,)) > MAX_SERIES:
        raise UsageError(f"more than {MAX_SERIES} series in one request: ask for fewer at once.")
    reader = server_state(request).reader

    def blocks_of(run_id: str, run: RunView) -> _RunBlocks:
        blocks: dict[str, list[SeriesBlock]] = {}
        missing: dict[str, list[wire.Missing]] = {}
        for name in names:
            for rank in _ranks_of(run, name, axis) if ranks is None else ranks:
                try:
                    points = run.series(name, rank=rank, axis=axis)
                except (MetricNotFoundError, FormatError) as error:
                    told = wire.Missing(run_id, name, rank, str(error))
                    missing.setdefault(name, []).append(told)
                else:
                    placed = place(run, points, x=x)
                    one = series_block(run_id, placed, pixels=pixels, lo=lo, hi=hi)
                    blocks.setdefault(name, []).append(one)
        return _RunBlocks(_position(run_id, run), blocks, missing)

    async def ask_all(query: Callable[[str, RunView], _RunBlocks]) -> dict[str, _RunBlocks]:
        async def ask(run_id: str) -> _RunBlocks:
            try:
                return await reader.query_run(run_id, lambda run: query(run_id, run))
            except EpochalError as error:
                told = {name: [wire.Missing(run_id, name, 0, str(error))] for name in names}
                return _RunBlocks(None, missing=told)

        found = await asyncio.gather(*map(ask, run_ids))
        return dict(zip(run_ids, found, strict=True))

    def tag_of(found: Mapping[str, _RunBlocks]) -> str:
        return etag_of(request.url.query.encode(), msgspec.json.encode(_positions(found)))

    if "if-none-match" in request.headers:
        # Points are read only where the browser does not hold them.
        tag = tag_of(await ask_all(lambda run_id, run: _RunBlocks(_position(run_id, run))))
        if is_known(request, tag):
            return await body_response(request, b"", media_type=wire.SERIES_MEDIA_TYPE, tag=tag)
    found = await ask_all(blocks_of)

    def body() -> bytes:
        by_name = [(name, one) for name in names for one in found.values()]
        return series_body(
            [series_block for name, one in by_name for series_block in one.blocks.get(name, ())],
            missing=[told for name, one in by_name for told in one.missing.get(name, ())],
            positions=_positions(found),
        )

    encoded = await reader.call(body)
    return await body_response(
        request, encoded, media_type=wire.SERIES_MEDIA_TYPE, tag=tag_of(found)
    )


async def run_response(request: Request, query: Callable[[RunView], Any]) -> Response:
    """What a question about the run in a request's path comes to, as JSON."""
    found = await server_state(request).reader.query_run(run_id_of(request), query)
    return await json_response(request, found)


def run_id_of(request: Request) -> str:
    """The id in a request's path."""
    return str(request.path_params["run_id"])


def _position(run_id: str, run: RunView) -> str:
    return format_cursors({run_id: run.end()})


def _positions(found: Mapping[str, _RunBlocks]) -> dict[str, str]:
    return {run_id: one.position for run_id, one in found.items() if one.position is not None}


def _ranks_of(run: RunView, name: str, axis: wire.AxisName | None) -> Sequence[int]:
    """The ranks that have a series; rank 0 where none has, so that it is told missing."""
    for metric in run.metrics():
        if metric.name == name and axis in (None, metric.axis):
            return metric.ranks
    return (0,)


def _changed(labels: Labels, change: wire.LabelsChange) -> Labels:
    if change.name is not msgspec.UNSET:
        labels = replace(labels, name=change.name or None)
    if change.tags is not msgspec.UNSET:
        tags = None if change.tags is None else tuple(dict.fromkeys(filter(None, change.tags)))
        labels = replace(labels, tags=tags)
    if change.notes is not msgspec.UNSET:
        labels = replace(labels, notes=change.notes)
    if change.hidden is not msgspec.UNSET:
        labels = replace(labels, hidden=change.hidden)
    return labels
