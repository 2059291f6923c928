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
from epochal.server import asked, wire
from epochal.server.answer import answer, entity_tag, is_known, json_answer, problem
from epochal.server.cursor import cursors_text
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
            faults=parts.num_faults,
        ),
    )


async def runs(request: Request) -> Response:
    """``/api/runs``: one page of the list."""
    query, order = asked.text(request, "query"), asked.text(request, "order")
    offset = asked.whole(request, "offset", default=0, most=10**9)
    limit = asked.whole(request, "limit", default=100, most=MAX_ROWS)
    with_config = asked.flag(request, "config")
    summaries = asked.texts(request, "summary", most=MAX_NAMES)

    reader = served(request).reader

    def question() -> wire.RunList:
        reader.catalog.look()
        found = reader.catalog.runs(query or None, order=order or None)
        rows = [
            run_row(run, with_config=with_config, summaries=summaries)
            for run in found[offset : offset + limit]
        ]
        return wire.RunList(rows, total=len(found), offset=offset)

    return await json_answer(request, await reader.ask(question))


async def run(request: Request) -> Response:
    """``/api/runs/{id}``: everything about one run but its points and entries."""
    with_summaries = asked.flag(request, "summary", default=True)
    parts = served(request)

    def question(view: RunView) -> wire.RunDetail:
        return run_detail(view, exports=list(parts.exports), with_summaries=with_summaries)

    return await run_answer(request, question)


async def config(request: Request) -> Response:
    """``/api/runs/{id}/config``: what a run was configured with."""
    return await run_answer(request, lambda view: dict(view.config))


async def change_labels(request: Request) -> Response:
    """``PATCH /api/runs/{id}/labels``: what is given is replaced, the rest stays."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return problem(415, "labels are changed with a body of application/json.")
    too_large = problem(
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
        return problem(400, f"these are not labels: {error}.")

    def question(view: RunView) -> wire.Labels | OSError:
        try:
            view.relabel(_changed(view.labels, change))
        except OSError as error:
            return error
        return labels_row(view.labels)

    stored = await served(request).reader.ask_run(run_id_of(request), question)
    if isinstance(stored, OSError):
        return problem(409, f"the labels could not be stored: {stored.strerror or stored}.")
    return await json_answer(request, stored)


@dataclass(frozen=True, slots=True, eq=False)
class _RunCuts:
    """What one run has of the series asked for: by name, and where it was read to."""

    position: str | None
    cuts: Mapping[str, Sequence[Cut]] = field(default_factory=dict)
    missing: Mapping[str, Sequence[wire.Missing]] = field(default_factory=dict)


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

    def cuts_of(run_id: str, run: RunView) -> _RunCuts:
        cuts: dict[str, list[Cut]] = {}
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
                    one = cut(run_id, placed, pixels=pixels, lo=lo, hi=hi)
                    cuts.setdefault(name, []).append(one)
        return _RunCuts(_position(run_id, run), cuts, missing)

    async def ask_all(question: Callable[[str, RunView], _RunCuts]) -> dict[str, _RunCuts]:
        async def ask(run_id: str) -> _RunCuts:
            try:
                return await reader.ask_run(run_id, lambda run: question(run_id, run))
            except EpochalError as error:
                told = {name: [wire.Missing(run_id, name, 0, str(error))] for name in names}
                return _RunCuts(None, missing=told)

        found = await asyncio.gather(*map(ask, run_ids))
        return dict(zip(run_ids, found, strict=True))

    def tag_of(found: Mapping[str, _RunCuts]) -> str:
        return entity_tag(request.url.query.encode(), msgspec.json.encode(_positions(found)))

    if "if-none-match" in request.headers:
        # Points are read only where the browser does not hold them.
        tag = tag_of(await ask_all(lambda run_id, run: _RunCuts(_position(run_id, run))))
        if is_known(request, tag):
            return await answer(request, b"", media_type=wire.SERIES_MEDIA_TYPE, tag=tag)
    found = await ask_all(cuts_of)

    def body() -> bytes:
        by_name = [(name, one) for name in names for one in found.values()]
        return series_body(
            [cut for name, one in by_name for cut in one.cuts.get(name, ())],
            missing=[told for name, one in by_name for told in one.missing.get(name, ())],
            positions=_positions(found),
        )

    encoded = await reader.work(body)
    return await answer(request, encoded, media_type=wire.SERIES_MEDIA_TYPE, tag=tag_of(found))


async def run_answer(request: Request, question: Callable[[RunView], Any]) -> Response:
    """What a question about the run in a request's path comes to, as JSON."""
    found = await served(request).reader.ask_run(run_id_of(request), question)
    return await json_answer(request, found)


def run_id_of(request: Request) -> str:
    """The id in a request's path."""
    return str(request.path_params["run_id"])


def _position(run_id: str, run: RunView) -> str:
    return cursors_text({run_id: run.end()})


def _positions(found: Mapping[str, _RunCuts]) -> dict[str, str]:
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
