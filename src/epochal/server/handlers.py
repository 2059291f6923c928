"""Answers about runs and their series, and the one thing that can be changed: labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import epochal
from epochal.errors import EpochalError, FormatError, MetricNotFoundError, UsageError
from epochal.server import asked, wire
from epochal.server.answer import answer, entity_tag, is_known, json_answer, problem
from epochal.server.cursor import cursors_text
from epochal.server.reader import Catalog
from epochal.server.rows import labels_row, run_detail, run_row
from epochal.server.series_body import Cut, cut, series_body
from epochal.server.served import served
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
    html = served(request).page.html
    return await answer(request, html, media_type="text/html; charset=utf-8")


async def health(request: Request) -> Response:
    """``/healthz``: who answers here."""
    parts = served(request)
    return await json_answer(
        request,
        wire.Health(
            service="epochal",
            version=epochal.__version__,
            pid=os.getpid(),
            folders=parts.folders,
            streams=parts.hub.num_streams,
            faults=parts.faults.count,
        ),
    )


async def runs(request: Request) -> Response:
    """``/api/runs``: one page of the list."""
    query, order = asked.text(request, "query"), asked.text(request, "order")
    offset = asked.whole(request, "offset", default=0, most=10**9)
    limit = asked.whole(request, "limit", default=100, most=MAX_ROWS)
    with_config = asked.flag(request, "config")
    summaries = asked.texts(request, "summary", most=MAX_NAMES)

    def question(catalog: Catalog) -> wire.RunList:
        catalog.look()
        found = catalog.runs(query or None, order=order or None)
        rows = [
            run_row(run, with_config=with_config, summaries=summaries)
            for run in found[offset : offset + limit]
        ]
        return wire.RunList(rows, total=len(found), offset=offset)

    reader = served(request).reader
    return await json_answer(request, await reader.ask(question, reader.catalog))


async def run(request: Request) -> Response:
    """``/api/runs/{id}``: everything about one run but its points and entries."""
    with_summaries = asked.flag(request, "summary", default=True)
    parts = served(request)

    def question(run_id: str) -> wire.RunDetail:
        view = parts.reader.catalog.run(run_id)
        return run_detail(view, exports=list(parts.exports), with_summaries=with_summaries)

    return await json_answer(request, await parts.reader.ask(question, run_id_of(request)))


async def config(request: Request) -> Response:
    """``/api/runs/{id}/config``: what a run was configured with."""
    reader = served(request).reader

    def question(run_id: str) -> dict[str, object]:
        return dict(reader.catalog.run(run_id).config)

    return await json_answer(request, await reader.ask(question, run_id_of(request)))


async def change_labels(request: Request) -> Response:
    """``PATCH /api/runs/{id}/labels``: what is given is replaced, the rest stays."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return problem(415, "labels are changed with a body of application/json.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return problem(413, f"labels have at most {MAX_BODY_BYTES} bytes.")
    try:
        change = msgspec.json.decode(body, type=wire.LabelsChange)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return problem(400, f"these are not labels: {error}.")
    reader = served(request).reader

    def question(run_id: str) -> wire.Labels:
        view = reader.catalog.run(run_id)
        view.relabel(_changed(view.labels, change))
        return labels_row(view.labels)

    try:
        return await json_answer(request, await reader.ask(question, run_id_of(request)))
    except OSError as error:
        return problem(409, f"the labels could not be stored: {error.strerror or error}.")


async def series(request: Request) -> Response:
    """``/api/series``: points of some series of many runs, as ``spec/wire.md`` lays them out."""
    names = asked.needed(request, "name", most=MAX_NAMES)
    run_ids = asked.needed(request, "run", most=MAX_RUNS)
    ranks = asked.ranks(request)
    x = asked.choice(request, "x", X_KINDS, default=None) or "step"
    axis = asked.choice(request, "axis", AXES, default=None)
    lo, hi = asked.number(request, "lo"), asked.number(request, "hi")
    pixels = asked.whole(request, "pixels", default=DEFAULT_PIXELS, most=MAX_PIXELS)
    if lo is not None and hi is not None and lo > hi:
        raise UsageError(f"lo={lo} must not be above hi={hi}.")
    if len(names) * len(run_ids) * len(ranks or (0,)) > MAX_SERIES:
        raise UsageError(f"more than {MAX_SERIES} series in one request: ask for fewer at once.")
    reader = served(request).reader

    def question(catalog: Catalog) -> tuple[str, bytes | None]:
        found = {run_id: _run_or_reason(catalog, run_id) for run_id in run_ids}
        positions = {
            run_id: cursors_text({run_id: run.end()})
            for run_id, run in found.items()
            if not isinstance(run, str)
        }
        tag = entity_tag(request.url.query.encode(), msgspec.json.encode(positions))
        if is_known(request, tag):
            return tag, None
        cuts: list[Cut] = []
        missing: list[wire.Missing] = []
        for name in names:
            for run_id, run in found.items():
                if isinstance(run, str):
                    missing.append(wire.Missing(run_id, name, 0, run))
                    continue
                for rank in _ranks_of(run, name, axis) if ranks is None else ranks:
                    try:
                        points = run.series(name, rank=rank, axis=axis)
                    except (MetricNotFoundError, FormatError) as error:
                        missing.append(wire.Missing(run_id, name, rank, str(error)))
                    else:
                        placed = place(run, points, x=x)
                        cuts.append(cut(run_id, placed, pixels=pixels, lo=lo, hi=hi))
        return tag, series_body(cuts, missing=missing, positions=positions)

    tag, body = await reader.ask(question, reader.catalog)
    return await answer(request, body or b"", media_type=wire.SERIES_MEDIA_TYPE, tag=tag)


def run_id_of(request: Request) -> str:
    """The id in a request's path."""
    return str(request.path_params["run_id"])


def _run_or_reason(catalog: Catalog, run_id: str) -> RunView | str:
    try:
        return catalog.run(run_id)
    except EpochalError as error:
        return str(error)


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
