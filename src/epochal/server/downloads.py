"""Endpoints that return files: blobs, the graph of the model, exports."""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
from collections.abc import AsyncIterator
from typing import IO
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from epochal.errors import RunNotFoundError, UsageError
from epochal.server.params import str_param
from epochal.server.responses import body_response, error_response, run_id_of
from epochal.server.state import ExportFormat, ServerState, server_state
from epochal.store.row import RunRow
from epochal.store.store import RunView

MAX_BLOB_BYTES = 256 * 1024 * 1024
FORMAT = str_param("format", note="one of `RunDetail.exports`")
RUN = str_param("run", note="the newest running run, else the newest")
_CHUNK_BYTES = 256 * 1024
# Types that a browser shows; anything else is a download.
_INLINE_TYPES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"}
    | {"text/html"}
)
# A script in an image or a page has no origin and cannot run; nothing else is loaded.
_SANDBOX = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    ),
    "cross-origin-resource-policy": "same-origin",
}


async def blob(request: Request) -> Response:
    """``…/blob/{file}``: the bytes of a blob that a record names."""
    file, reader = str(request.path_params["file"]), server_state(request).reader

    found = await reader.query_run(run_id_of(request), lambda run: _blob(run, file))
    if isinstance(found, OSError):
        return error_response(404, f"the blob cannot be read: {found.strerror or found}.")
    if found is None:
        return error_response(413, f"blobs over {MAX_BLOB_BYTES} bytes are not served.")
    body, media_type = found
    headers = dict(_SANDBOX)
    if media_type not in _INLINE_TYPES:
        media_type = "application/octet-stream"
        headers["content-disposition"] = _attachment(file)
    return await body_response(request, body, media_type=media_type, headers=headers)


async def graph_svg(request: Request) -> Response:
    """``/graph.svg``: the newest picture of a run's model; of the current run without ``run=``."""

    def query(run: RunView) -> str | None:
        pictures = [e for e in run.entries("graph", rank=None) if e.record.get("svg")]
        return str(max(pictures, key=lambda e: e.t or 0.0).record["svg"]) if pictures else None

    svg = await server_state(request).reader.query_run(await run_or_current(request), query)
    if svg is None:
        return error_response(404, "this run has no graph of its model: watch(model) records one.")
    return await body_response(
        request, svg.encode(), media_type="image/svg+xml", headers=dict(_SANDBOX)
    )


async def export(request: Request) -> Response:
    """``…/export?format=``: a run as a file, written for each download."""
    state, run_id = server_state(request), run_id_of(request)
    name = FORMAT(request) or ""
    chosen = state.exports.get(name)
    if chosen is None:
        known = ", ".join(state.exports) or "none on this server"
        raise UsageError(f"format={name[:40]!r} is not known: use one of {known}.")
    info = await state.reader.query_run(run_id, lambda run: run.info)
    file = await state.reader.call(lambda: _written(state, info, chosen))
    return StreamingResponse(
        _chunks(file),
        media_type=chosen.media_type,
        headers={
            "content-disposition": _attachment(f"{info.name}.{chosen.ending}"),
            "cache-control": "no-store",
            "content-length": str(file.seek(0, 2)),
        },
    )


async def run_or_current(request: Request) -> str:
    """The id in ``run=``; else the newest running run, else the newest run."""
    run_id, reader = RUN(request), server_state(request).reader
    return await reader.query(reader.catalog.current) if run_id is None else run_id


def _blob(run: RunView, file: str) -> tuple[bytes, str] | OSError | None:
    for entry in run.entries("blob", rank=None):
        if entry.record.get("file") == file:
            size = entry.record.get("bytes")
            if isinstance(size, (int, float)) and size > MAX_BLOB_BYTES:
                return None
            try:
                return run.blob(file), str(entry.record.get("media_type"))
            except OSError as error:
                return error
    raise RunNotFoundError(f"this run has no blob {file!r}.")


def _written(state: ServerState, info: RunRow, chosen: ExportFormat) -> IO[bytes]:
    """Write the export to a temporary file, with its own store so that others are not blocked."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the response
    store = state.open_store()
    try:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        # A file of another tracker may hold several runs; a folder of ours is quicker to find.
        run = store.run(info.folder if info.tracker is None else info.id)
        chosen.write(run, text)
        text.flush()
        text.detach()
    except BaseException:
        file.close()
        raise
    finally:
        store.close()
    return file


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk


def _attachment(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "download"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
