"""The endpoint table: every endpoint of the server in one row.

The routes of the server, the contents of an archive, ``web/src/wire.ts`` and the table of
endpoints in the docs come from these rows. A response type declared here may stand in any module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from epochal.compare.groups import GroupTables
from epochal.compare.importance import Importance
from epochal.compare.why import Why
from epochal.journal.boards import StoredBoard
from epochal.journal.row import Labels
from epochal.records import LOG_KINDS
from epochal.server import (
    boards,
    changes,
    control,
    data,
    downloads,
    entries,
    groups,
    handlers,
    marks,
    mirroring,
    prometheus,
    run_metrics,
    series,
    stream,
    wire,
)
from epochal.server.entries import EntrySource, entries_handler
from epochal.server.params import Param
from epochal.server.rows import run_detail
from epochal.server.state import run_response
from epochal.store.projects import ProjectList
from epochal.store.run import RunView

Handler = Callable[[Request], Awaitable[Response]]
RunQuery = Callable[[RunView], msgspec.Struct]


class Endpoint(msgspec.Struct, frozen=True):
    """One endpoint: ``response`` is its type, or a phrase for a body that is not JSON.

    ``name`` is an identifier, because TypeScript has it as a name too. ``archive`` is what an
    archive holds of each run: the result of a query, the entries of a source, or nothing. The docs
    have the first paragraph of the handler's docstring, or ``summary`` in its place.
    """

    name: str
    path: str
    response: type | str
    handler: Handler
    params: tuple[Param[Any], ...] = ()
    method: Literal["GET", "PATCH", "POST"] = "GET"
    archive: RunQuery | EntrySource | None = None
    summary: str = ""

    def __post_init__(self) -> None:
        for name in (self.name, *(param.name for param in self.params)):
            if not name.isidentifier():
                raise ValueError(
                    f"the name {name!r} of an endpoint or parameter must be an identifier, "
                    "with _ between words."
                )


def run_endpoint(
    name: str, response: type[msgspec.Struct], query: RunQuery, summary: str
) -> Endpoint:
    """An endpoint without parameters that returns the result of a query; archives have it too."""

    async def run_query(request: Request) -> Response:
        return await run_response(request, query)

    path = f"/api/runs/{{run_id}}/{name}"
    return Endpoint(name, path, response, run_query, archive=query, summary=summary)


def entries_endpoint(name: str, source: EntrySource, summary: str) -> Endpoint:
    """An endpoint that lists records which are not numbers."""
    params: tuple[Param[Any], ...] = (entries.NAME, entries.LIMIT, entries.OFFSET, entries.SPREAD)
    if source.is_by_rank:
        params = (*params, entries.RANK)
    if len(source.kinds) > 1:
        params = (*params, entries.KIND)
    path, handler = f"/api/runs/{{run_id}}/{name}", entries_handler(source)
    return Endpoint(name, path, wire.EntryList, handler, params, archive=source, summary=summary)


_HISTOGRAMS = EntrySource(("histogram",))
_TEXTS = EntrySource(("text",))
_BLOBS = EntrySource(("blob",), keep="files")
_FILES = EntrySource(("file",), keep="newest")
_EXPERTS = EntrySource(("experts",))
_PHASES = EntrySource(("phases",))
_FINDINGS = EntrySource(("finding",), is_by_rank=False, keep="all")
_GRAPH = EntrySource(("graph",), is_by_rank=False, keep="newest")
_TIMELINE = EntrySource(("timeline", "span"), is_by_rank=False, keep="newest")
_LOG = EntrySource(LOG_KINDS, is_by_rank=False, keep="newest")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("page", "/", "HTML", handlers.page),
    Endpoint("health", "/healthz", wire.Health, handlers.health),
    Endpoint("metrics", "/metrics", "Prometheus text", prometheus.metrics),
    Endpoint("runs", "/api/runs", wire.RunList, handlers.runs, handlers.RUNS_PARAMS),
    Endpoint("projects", "/api/projects", ProjectList, handlers.projects),
    Endpoint("series", "/api/series", "series body (§2)", series.series, series.PARAMS),
    Endpoint("groups", "/api/groups", GroupTables, groups.groups, groups.GROUPS_PARAMS),
    Endpoint(
        "group_curves",
        "/api/group_curves",
        groups.GroupCurves,
        groups.group_curves,
        groups.CURVES_PARAMS,
    ),
    Endpoint(
        "importance", "/api/importance", Importance, groups.importance, groups.IMPORTANCE_PARAMS
    ),
    Endpoint("why", "/api/why", Why, groups.why, groups.WHY_PARAMS),
    Endpoint("events", "/api/events", "event stream (§3)", stream.events, stream.EVENTS_PARAMS),
    Endpoint(
        "run",
        "/api/runs/{run_id}",
        wire.RunDetail,
        handlers.run,
        (handlers.WITH_SUMMARIES,),
        archive=run_detail,
    ),
    Endpoint(
        "run_metrics",
        "/api/runs/{run_id}/metrics",
        run_metrics.MetricList,
        run_metrics.run_metrics,
        run_metrics.PARAMS,
        archive=run_metrics.all_metrics,
    ),
    Endpoint("config", "/api/runs/{run_id}/config", "JSON", handlers.config),
    Endpoint("labels", "/api/runs/{run_id}/labels", Labels, changes.change_labels, method="PATCH"),
    Endpoint(
        "many_labels",
        "/api/labels",
        changes.LabelsChanged,
        changes.change_many_labels,
        method="PATCH",
    ),
    Endpoint("trash", "/api/trash", changes.TrashList, changes.trash),
    Endpoint("remove", "/api/trash", changes.RunsRemoved, changes.remove, method="POST"),
    Endpoint("restore", "/api/trash/restore", changes.RunsRestored, changes.restore, method="POST"),
    Endpoint("control", "/api/runs/{run_id}/control", control.Control, handlers.control),
    Endpoint(
        "request_control",
        "/api/runs/{run_id}/control",
        control.ControlRequest,
        handlers.request_control,
        method="POST",
    ),
    entries_endpoint("histograms", _HISTOGRAMS, "histograms by step"),
    entries_endpoint("texts", _TEXTS, "text samples by step"),
    entries_endpoint(
        "blobs", _BLOBS, "pictures, tables and other samples by step; bytes at `blob/{file}`"
    ),
    entries_endpoint("files", _FILES, "files that the run keeps; bytes at `blob/{file}`"),
    Endpoint(
        "samples", "/api/runs/{run_id}/samples", entries.SampleList, entries.samples, (entries.AT,)
    ),
    entries_endpoint("experts", _EXPERTS, "the load of each expert of each layer, by step"),
    run_endpoint(
        "data",
        data.DataSplits,
        data.data_splits,
        "splits of watched data loaders: epochs, repeats, overlaps, labels, padding and lengths",
    ),
    entries_endpoint("phases", _PHASES, "the time of each phase of a step, by step"),
    entries_endpoint("findings", _FINDINGS, "findings of all ranks, by time"),
    entries_endpoint("graph", _GRAPH, "graphs of the model, by time"),
    entries_endpoint("timeline", _TIMELINE, "timeline samples and spans of all ranks, by time"),
    entries_endpoint(
        "log", _LOG, "epochs, evaluations, messages, events and findings of all ranks, by time"
    ),
    run_endpoint(
        "marks",
        wire.MarkList,
        marks.run_marks,
        "restarts, epochs, checkpoints, phases and throttled GPUs",
    ),
    Endpoint(
        "records",
        "/api/runs/{run_id}/records",
        wire.RecordPage,
        entries.records,
        (entries.SINCE, entries.RECORD_LIMIT),
    ),
    Endpoint("blob", "/api/runs/{run_id}/blob/{file}", "bytes", downloads.blob),
    Endpoint("plotly", "/api/plotly", "HTML", downloads.plotly),
    Endpoint("export", "/api/export", "HTML", boards.export, boards.EXPORT_PARAMS),
    Endpoint("boards", "/api/boards", boards.BoardList, boards.boards, (boards.PROJECT,)),
    Endpoint("save_board", "/api/boards", StoredBoard, boards.save, method="POST"),
    Endpoint("remove_board", "/api/boards/delete", "null", boards.remove, method="POST"),
    Endpoint("infos", "/api/infos", "MessagePack", mirroring.infos, mirroring.INFOS_PARAMS),
    Endpoint(
        "run_state",
        "/api/hub/runs/{run_id}",
        "JSON (`docs/explanation/hub-protocol.md` §2)",
        mirroring.run_state,
    ),
    Endpoint(
        "run_lines",
        "/api/hub/runs/{run_id}/parts/{stem}",
        "JSON lines",
        mirroring.run_lines,
        (mirroring.FIRST,),
    ),
    Endpoint(
        "run_file",
        "/api/hub/runs/{run_id}/{kind}/{name}",
        "bytes",
        mirroring.run_file,
        (mirroring.PLACE,),
    ),
    Endpoint("history", "/api/history", "JSON (§5)", stream.history, (downloads.RUN,)),
    Endpoint("epoch_events", "/events", "event stream (§5)", stream.epoch_events, (downloads.RUN,)),
    Endpoint("graph_svg", "/graph.svg", "SVG (§5)", downloads.graph_svg, (downloads.RUN,)),
)


def routes() -> list[Route]:
    """The table as Starlette routes."""
    return [Route(one.path, one.handler, methods=[one.method]) for one in ENDPOINTS]
