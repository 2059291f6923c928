"""Handlers of the page, of runs and of changes of their labels."""

from __future__ import annotations

import os
from dataclasses import replace

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.server import wire
from epochal.server.params import (
    bool_param,
    int_param,
    str_param,
    str_params,
)
from epochal.server.responses import (
    body_response,
    error_response,
    json_response,
    run_id_of,
    run_response,
)
from epochal.server.rows import group_row, labels_row, run_detail, run_row
from epochal.server.state import server_state
from epochal.store.answers import Labels
from epochal.store.store import RunView
from epochal.version import __version__

MAX_BODY_BYTES = 64 * 1024

QUERY = str_param("query")
ORDER = str_param("order")
GROUP = str_param("group", note="fields, with commas between")
OFFSET = int_param("offset", default=0, most=10**9)
LIMIT = int_param("limit", default=100, most=10_000, note="100, at most 10,000")
WITH_CONFIG = bool_param("config", note="1: with the config of each run")
SUMMARIES = str_params("summary", most=64, note="a name, or `role:loss`")
WITH_SUMMARIES = bool_param("summary", default=True, note="0: without summaries of metrics")


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
    """``/api/runs``: a window of the list of runs, filtered, ordered and grouped here."""
    text, order, offset, limit = QUERY(request), ORDER(request), OFFSET(request), LIMIT(request)
    with_config, summaries, group = WITH_CONFIG(request), SUMMARIES(request), GROUP(request)
    reader = server_state(request).reader

    def query() -> wire.RunList:
        reader.catalog.refresh()
        known = reader.catalog.known_runs(text or None, order=order or None, group=group or None)
        found = known.runs
        rows = [
            run_row(run, with_config=with_config, summaries=summaries, whole=False)
            for run in found[offset : offset + limit]
        ]
        groups = [group_row(*one, summaries=summaries) for one in known.groups] if group else None
        return wire.RunList(rows, len(found), offset, known.pending, groups)

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
            view.relabel(lambda labels: _changed(labels, change))
        except OSError as error:
            return error
        return labels_row(view.labels)

    stored = await server_state(request).reader.query_run(run_id_of(request), query)
    if isinstance(stored, OSError):
        return error_response(409, f"the labels could not be saved: {stored.strerror or stored}.")
    return await json_response(request, stored)


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
