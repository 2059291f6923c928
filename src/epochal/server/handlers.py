"""Handlers of the page and of runs."""

from __future__ import annotations

import os

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.journal.row import LIVE_STATES
from epochal.server import wire
from epochal.server.access import principal_of
from epochal.server.changes import body_of
from epochal.server.control import Control, ControlChange, ControlRefusedError, ControlRequest
from epochal.server.params import bool_param, int_param, str_param, str_params
from epochal.server.reader import LIST_BUDGET_S
from epochal.server.responses import body_response, error_response, json_response, run_id_of
from epochal.server.rows import group_row, run_detail, run_row
from epochal.server.state import run_response, server_state
from epochal.store.projects import ProjectList
from epochal.store.run import RunView
from epochal.version import __version__

QUERY = str_param("query")
ORDER = str_param("order")
GROUP = str_param("group", note="fields, with commas between")
OFFSET = int_param("offset", default=0, most=10**9)
LIMIT = int_param("limit", default=100, most=10_000, note="100, at most 10,000")
WITH_CONFIG = bool_param("config", note="1: with the config of each run")
SUMMARIES = str_params("summary", most=64, note="a name, or `role:loss`")
WITH_PROJECTS = bool_param("projects", note="1: with `stored` and `projects`")
WITH_SUMMARIES = bool_param("summary", default=True, note="0: without summaries of metrics")
RUNS_PARAMS = (QUERY, ORDER, GROUP, OFFSET, LIMIT, WITH_CONFIG, SUMMARIES, WITH_PROJECTS)


async def page(request: Request) -> Response:
    """The page."""
    built = server_state(request).page
    return await body_response(
        request,
        built.html,
        media_type="text/html; charset=utf-8",
        tag=built.tag,
        compress=lambda: built.compressed,
    )


async def health(request: Request) -> Response:
    """The server's state; needs no token."""
    state = server_state(request)
    return await json_response(
        request,
        wire.Health(
            service="epochal",
            version=__version__,
            pid=os.getpid(),
            folders=state.folders,
            streams=state.streams.num_streams,
            faults=state.guard.total,
        ),
    )


async def runs(request: Request) -> Response:
    """A window of the list of runs."""
    text, order, offset, limit = QUERY(request), ORDER(request), OFFSET(request), LIMIT(request)
    with_config, summaries, group = WITH_CONFIG(request), SUMMARIES(request), GROUP(request)
    with_projects = WITH_PROJECTS(request)
    state = server_state(request)
    reader = state.reader

    def query() -> wire.RunList:
        reader.catalog.refresh()
        known = reader.catalog.known_runs(text or None, order=order or None, group=group or None)
        found = known.runs
        rows = [
            run_row(run, with_config=with_config, summaries=summaries, whole=False)
            for run in found[offset : offset + limit]
        ]
        groups = [group_row(*one, summaries=summaries) for one in known.groups] if group else None
        answer = wire.RunList(rows, len(found), offset, known.unsummarised, groups)
        if with_projects:
            projects = list(known.projects)
            return msgspec.structs.replace(answer, stored=known.stored, projects=projects)
        return answer

    return await json_response(request, await reader.query(query))


async def run(request: Request) -> Response:
    """One run without its points and entries."""
    with_summaries = WITH_SUMMARIES(request)

    def query(view: RunView) -> wire.RunDetail:
        return run_detail(view, with_summaries=with_summaries)

    return await run_response(request, query)


async def config(request: Request) -> Response:
    """The config of a run."""
    return await run_response(request, lambda view: dict(view.config))


async def projects(request: Request) -> Response:
    """Every project: counts, live and failed runs, best value, last activity."""
    state = server_state(request)
    catalog = state.reader.catalog

    def query() -> ProjectList:
        catalog.refresh()
        return catalog.store.projects(budget_s=LIST_BUDGET_S)

    return await json_response(request, await state.reader.query(query))


async def control(request: Request) -> Response:
    """Whether a hub may control the training, and what was asked of it."""
    state, who = server_state(request), principal_of(request)
    run_id = await state.reader.query_run(run_id_of(request), lambda view: view.id)
    controls, found = state.controls, Control(allowed=False, listens=False, requests=[])
    if controls is not None:
        found = await state.reader.call(lambda: controls.of(run_id, who))
    return await json_response(request, found)


async def request_control(request: Request) -> Response:
    """Asks the training to stop, suspend, continue or save; body ``ControlChange``."""
    state, who = server_state(request), principal_of(request)
    run_id, status = await state.reader.query_run(
        run_id_of(request), lambda view: (view.id, view.status)
    )
    if (controls := state.controls) is None:
        return error_response(
            403, "this server controls no trainings: a hub with --allow-control does."
        )
    change = await body_of(request, ControlChange)

    def ask() -> ControlRequest | None:
        # A companion that asks is there, whatever records have arrived.
        is_live = status.state in LIVE_STATES or controls.of(run_id, who).listens
        return controls.ask(run_id, change.action, who, is_live=is_live)

    try:
        made = await state.reader.call(ask)
    except ControlRefusedError as error:
        return error_response(403, str(error))
    if made is None:
        return error_response(409, f"the run has ended: it is {status.text}.")
    return await json_response(request, made)
