"""Handlers for readers on other machines: rows of the store as they are, and files to copy.

A reader lists runs here and copies those that it reads in depth, so it returns what this store
returns. Requests for files are those of a hub
(``docs/explanation/hub-protocol.md``); a hub answers them itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.blobs import encode_pending
from epochal.journal.layout import RunFolder, is_patch
from epochal.server.handlers import LIMIT, OFFSET, ORDER, QUERY
from epochal.server.params import bool_param, int_param, str_param
from epochal.server.reader import LIST_BUDGET_S
from epochal.server.responses import body_response, json_response, run_id_of
from epochal.server.state import server_state
from epochal.settings import read_settings
from epochal.shipping.offering import named_part, piece_of, state_of
from epochal.shipping.protocol import FileKind
from epochal.store.row import RunPage, pack
from epochal.store.run import RunView

RUN = str_param("run", note="one run by its id, read whole")


IS_FRESH = bool_param("fresh", note="1: look at the files first")
IS_PATIENT = bool_param("patient", note="1: read runs that carry no summary for seconds")
FIRST = int_param("first", default=0, most=10**15)
PLACE = int_param("offset", default=0, most=10**15)
INFOS_PARAMS = (QUERY, ORDER, OFFSET, LIMIT, RUN, IS_FRESH, IS_PATIENT)
_RETRY_S = 0.02
# Large runs are read as well.
_PATIENCE_S = 5.0


async def infos(request: Request) -> Response:
    """Rows of the store for ``epochal.open(url)``: ``RunPage`` of ``store/row.py``."""
    state, run_id = server_state(request), RUN(request)
    if run_id is not None:
        row = await state.reader.query_run(run_id, lambda run: run.info)
        return await _packed(request, RunPage([row], 1))
    text, order, offset, limit = QUERY(request), ORDER(request), OFFSET(request), LIMIT(request)
    catalog, asked_at, is_patient = state.reader.catalog, time.monotonic(), IS_PATIENT(request)
    if IS_FRESH(request):
        while not await state.reader.query(lambda: catalog.search_since(asked_at)):
            await asyncio.sleep(_RETRY_S)

    def query() -> RunPage:
        catalog.refresh()
        budget_s = _PATIENCE_S if is_patient else LIST_BUDGET_S
        known = catalog.store.known_runs(text or None, order=order or None, budget_s=budget_s)
        window = known.runs[offset : offset + limit]
        rows = [run.outline() for run in window]
        return RunPage(rows, len(known.runs), offset, known.unsummarised)

    return await _packed(request, await state.reader.query(query))


async def run_state(request: Request) -> Response:
    """The parts and files of a run, to copy them."""
    state, run_id = server_state(request), run_id_of(request)
    folder = await state.reader.query_run(run_id, _folder)
    with contextlib.suppress(OSError):  # a folder that is read-only
        await state.reader.encode(run_id, lambda: encode_pending(folder))

    def query(run: RunView) -> object:
        found = state_of(folder, state.part_counts)
        blobs = {name: size for name, size in found.blobs.items() if _is_offered(run, name)}
        return msgspec.structs.replace(found, blobs=blobs)

    return await json_response(request, await state.reader.query_run(run_id, query))


async def run_lines(request: Request) -> Response:
    """Lines of a part, about 1 MiB."""
    state, first, name = server_state(request), FIRST(request), request.path_params["stem"]

    def query(run: RunView) -> bytes:
        return state.part_counts.lines(_folder(run).part_path(named_part(name)), first)

    lines = await state.reader.query_run(run_id_of(request), query)
    return await body_response(request, lines, media_type="application/x-ndjson")


async def run_file(request: Request) -> Response:
    """A piece of a segment, a blob or live readings, about 1 MiB."""
    state, offset, name = server_state(request), PLACE(request), request.path_params["name"]
    kind = cast(FileKind, request.path_params["kind"])

    def query(run: RunView) -> bytes:
        if kind == "blobs" and not _is_offered(run, name):
            raise RunNotFoundError(f"no record of this run names a file {name!r}.")
        return piece_of(_folder(run), kind, name, offset=offset)

    piece = await state.reader.query_run(run_id_of(request), query)
    return await body_response(request, piece, media_type="application/octet-stream")


def _is_offered(run: RunView, blob: str) -> bool:
    """Whether a record names a blob; uncommitted changes leave the machine only if you allow it."""
    return read_settings().hub_patch if is_patch(blob) else blob in run.blob_types()


def _folder(run: RunView) -> RunFolder:
    info = run.outline()
    if info.tracker is not None:
        raise UsageError(f"{info.name!r} lies in files of {info.tracker}, which cannot be copied.")
    folder = RunFolder(Path(info.folder))
    if not folder.identity.is_file():
        raise RunNotFoundError(f"{info.name!r} has no run.json yet, so it cannot be copied.")
    for inside in (folder.journal, folder.segments, folder.blobs, folder.live):
        if inside.is_symlink():
            raise UsageError(f"{inside} is a link, so {info.name!r} cannot be copied.")
    return folder


async def _packed(request: Request, page: RunPage) -> Response:
    # MessagePack: it has nan and infinities, which JSON has not.
    return await body_response(request, pack(page), media_type="application/vnd.msgpack")
