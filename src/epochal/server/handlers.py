"""Handlers of the page, of runs and of their series, and of changes of labels."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import EpochalError, FormatError, MetricNotFoundError, UsageError
from epochal.server import wire
from epochal.server.cursor import format_cursors
from epochal.server.params import (
    bool_param,
    choice_param,
    float_param,
    int_param,
    ranks_param,
    required_param,
    str_param,
    str_params,
)
from epochal.server.responses import (
    body_response,
    error_response,
    etag_of,
    json_response,
    matches_etag,
    run_id_of,
    run_response,
)
from epochal.server.rows import labels_row, run_detail, run_row
from epochal.server.series_body import SeriesBlock, series_block, series_body
from epochal.server.state import server_state
from epochal.store.answers import Labels
from epochal.store.store import RunView
from epochal.version import __version__

MAX_SERIES = 4000
MAX_BODY_BYTES = 64 * 1024
_X_KINDS: Sequence[wire.XKind] = get_args(wire.XKind)
_AXES: Sequence[wire.AxisName] = get_args(wire.AxisName)

QUERY = str_param("query")
ORDER = str_param("order")
OFFSET = int_param("offset", default=0, most=10**9)
LIMIT = int_param("limit", default=100, most=10_000, note="100, at most 10,000")
WITH_CONFIG = bool_param("config", note="1: with the config of each run")
SUMMARIES = str_params("summary", most=64, note="a name, or `role:loss`")
WITH_SUMMARIES = bool_param("summary", default=True, note="0: without summaries of metrics")
NAMES = required_param("name", most=64)
RUNS = required_param("run", most=1000)
RANKS = ranks_param()
X = choice_param("x", _X_KINDS, typescript="XKind")
AXIS = choice_param("axis", _AXES, typescript="AxisName")
LO = float_param("lo")
HI = float_param("hi")
PIXELS = int_param("pixels", default=1000, most=20_000, note="1000; 0: every point")


async def page(request: Request) -> Response:
    """``/``: the page."""
    html = server_state(request).page.html
    return await body_response(request, html, media_type="text/html; charset=utf-8")


async def health(request: Request) -> Response:
    """``/healthz``: identifies the server."""
    state = server_state(request)
    return await json_response(
        request,
        wire.Health(
            service="epochal",
            version=__version__,
            pid=os.getpid(),
            folders=state.folders,
            streams=state.broadcaster.num_streams,
            faults=state.num_faults,
        ),
    )


async def runs(request: Request) -> Response:
    """``/api/runs``: one page of the list of runs."""
    text, order, offset, limit = QUERY(request), ORDER(request), OFFSET(request), LIMIT(request)
    with_config, summaries = WITH_CONFIG(request), SUMMARIES(request)
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
    """``/api/runs/{id}``: one run without its points and entries."""
    with_summaries = WITH_SUMMARIES(request)
    exports = list(server_state(request).exports)

    def query(view: RunView) -> wire.RunDetail:
        return run_detail(view, exports=exports, with_summaries=with_summaries)

    return await run_response(request, query)


async def config(request: Request) -> Response:
    """``/api/runs/{id}/config``: the config of a run."""
    return await run_response(request, lambda view: dict(view.config))


async def change_labels(request: Request) -> Response:
    """``PATCH /api/runs/{id}/labels``: replaces the given labels and keeps the others."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return error_response(415, "the body must be application/json.")
    too_large = error_response(
        413,
        f"the body must have at most {MAX_BODY_BYTES} bytes.",
        headers={"connection": "close"},  # the rest of the body is not read
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
        return error_response(400, f"the body is not a valid change of labels: {error}.")

    def query(view: RunView) -> wire.Labels | OSError:
        try:
            view.relabel(_changed(view.labels, change))
        except OSError as error:
            return error
        return labels_row(view.labels)

    stored = await server_state(request).reader.query_run(run_id_of(request), query)
    if isinstance(stored, OSError):
        return error_response(409, f"the labels could not be saved: {stored.strerror or stored}.")
    return await json_response(request, stored)


@dataclass(frozen=True, slots=True, eq=False)
class _RunBlocks:
    """The requested series of one run by name, and the position it was read to."""

    position: str | None
    blocks: Mapping[str, Sequence[SeriesBlock]] = field(default_factory=dict)
    missing: Mapping[str, Sequence[wire.Missing]] = field(default_factory=dict)


async def series(request: Request) -> Response:
    """``/api/series``: points of some series of many runs, in the layout of ``spec/wire.md``."""
    names, run_ids, ranks = NAMES(request), RUNS(request), RANKS(request)
    x, axis = X(request) or "step", AXIS(request)
    lo, hi, pixels = LO(request), HI(request), PIXELS(request)
    if lo is not None and hi is not None and lo > hi:
        raise UsageError(f"lo={lo} must not be above hi={hi}.")
    if len(names) * len(run_ids) * len(ranks or (0,)) > MAX_SERIES:
        raise UsageError(f"more than {MAX_SERIES} series in one request: request fewer at once.")
    reader = server_state(request).reader

    def blocks_of(run_id: str, run: RunView) -> _RunBlocks:
        blocks: dict[str, list[SeriesBlock]] = {}
        missing: dict[str, list[wire.Missing]] = {}
        for name in names:
            for rank in _ranks_of(run, name, axis) if ranks is None else ranks:
                try:
                    found = run.series(name, rank=rank, axis=axis).reindex(x, run)
                except (MetricNotFoundError, FormatError) as error:
                    absent = wire.Missing(run_id, name, rank, str(error))
                    missing.setdefault(name, []).append(absent)
                else:
                    one = series_block(run_id, found, pixels=pixels, lo=lo, hi=hi)
                    blocks.setdefault(name, []).append(one)
        return _RunBlocks(_position(run_id, run), blocks, missing)

    async def query_all(query: Callable[[str, RunView], _RunBlocks]) -> dict[str, _RunBlocks]:
        async def query_one(run_id: str) -> _RunBlocks:
            try:
                return await reader.query_run(run_id, lambda run: query(run_id, run))
            except EpochalError as error:
                missing = {name: [wire.Missing(run_id, name, 0, str(error))] for name in names}
                return _RunBlocks(None, missing=missing)

        found = await asyncio.gather(*map(query_one, run_ids))
        return dict(zip(run_ids, found, strict=True))

    def tag_of(found: Mapping[str, _RunBlocks]) -> str:
        return etag_of(request.url.query.encode(), msgspec.json.encode(_positions(found)))

    if "if-none-match" in request.headers:
        # Points are read only where the client does not have them.
        tag = tag_of(await query_all(lambda run_id, run: _RunBlocks(_position(run_id, run))))
        if matches_etag(request, tag):
            return await body_response(request, b"", media_type=wire.SERIES_MEDIA_TYPE, tag=tag)
    found = await query_all(blocks_of)

    def body() -> bytes:
        by_name = [(name, one) for name in names for one in found.values()]
        return series_body(
            [block for name, one in by_name for block in one.blocks.get(name, ())],
            missing=[each for name, one in by_name for each in one.missing.get(name, ())],
            positions=_positions(found),
        )

    encoded = await reader.call(body)
    return await body_response(
        request, encoded, media_type=wire.SERIES_MEDIA_TYPE, tag=tag_of(found)
    )


def _position(run_id: str, run: RunView) -> str:
    return format_cursors({run_id: run.end()})


def _positions(found: Mapping[str, _RunBlocks]) -> dict[str, str]:
    return {run_id: one.position for run_id, one in found.items() if one.position is not None}


def _ranks_of(run: RunView, name: str, axis: wire.AxisName | None) -> Sequence[int]:
    """The ranks that have a series; rank 0 where none has, to be reported as missing."""
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
