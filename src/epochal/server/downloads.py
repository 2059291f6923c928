"""Endpoints that return files: those that records name, the graph of the model, Plotly's frame."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from collections.abc import AsyncIterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from epochal.errors import FormatError, MissingPackageError, RunNotFoundError
from epochal.journal.blobs import blob_bytes, store_blob
from epochal.journal.layout import RunFolder
from epochal.journal.regular_file import regular_only
from epochal.server.page import Page
from epochal.server.params import str_param
from epochal.server.responses import body_response, error_response, etag_of, matches_etag, run_id_of
from epochal.server.state import server_state
from epochal.store.run import RunView

RUN = str_param("run", note="the newest running run, else the newest")
_CHUNK_BYTES = 256 * 1024
# Types that a browser shows or plays; anything else is a download.
INLINE_TYPE = re.compile(
    r"image/(png|jpeg|gif|webp|avif|bmp|svg\+xml)|(audio|video)/[\w.+-]+|text/html"
)
# Texts are sent whole and compressed up to this size; anything else is sent in pieces.
_TEXT = re.compile(r"text/.*|.*\bjson|image/svg\+xml")
_MAX_TEXT_BYTES = 64 * 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
# A script in an image or a page has no origin and cannot run; nothing else is loaded.
_SANDBOX = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    ),
    "cross-origin-resource-policy": "same-origin",
    # Chromium would connect to the address of a frame before it finds that it may not load it.
    "connection-allowlist": "()",
}


async def blob(request: Request) -> Response:
    """A file that a record names, or the part of it that ``Range`` asks for."""
    file, reader = str(request.path_params["file"]), server_state(request).reader

    run_id = run_id_of(request)
    content: BinaryIO
    path, media_type, name = await reader.query_run(run_id, lambda run: _find_blob(run, file))
    try:
        try:
            content = await reader.call(lambda: open(path, "rb", opener=regular_only))  # noqa: SIM115
        except FileNotFoundError:
            content = await reader.encode(run_id, lambda: _encoded(path))
    except OSError as error:
        return error_response(404, f"the file cannot be read: {error.strerror or error}.")
    except (FormatError, MissingPackageError) as error:
        return error_response(404, f"the picture cannot be encoded: {error}")
    headers = {**_SANDBOX, "accept-ranges": "bytes"}
    size = content.seek(0, 2)
    is_text = _TEXT.fullmatch(media_type) is not None and size <= _MAX_TEXT_BYTES
    if not INLINE_TYPE.fullmatch(media_type):
        headers["content-disposition"] = _attachment(name)
        media_type = "application/octet-stream"
    if is_text:
        with content:
            content.seek(0)
            body = await asyncio.to_thread(content.read)
        return await body_response(request, body, media_type=media_type, headers=headers)
    return _part_of(request, content, size, media_type=media_type, headers=headers)


async def graph_svg(request: Request) -> Response:
    """The newest graph of the model."""

    def query(run: RunView) -> str | None:
        pictures = [e for e in run.entries("graph", rank=None) if e.record.get("svg")]
        return str(max(pictures, key=lambda e: e.t or 0.0).record["svg"]) if pictures else None

    svg = await server_state(request).reader.query_run(await run_or_current(request), query)
    if svg is None:
        return error_response(404, "this run has no graph of its model: watch(model) records one.")
    return await body_response(
        request, svg.encode(), media_type="image/svg+xml", headers=dict(_SANDBOX)
    )


def file_response(file: IO[bytes], name: str, media_type: str) -> Response:
    """A file that was written for this download, and is closed after it."""
    size = file.seek(0, 2)
    return StreamingResponse(
        _chunks(file, 0, size),
        media_type=media_type,
        headers={
            "content-disposition": _attachment(name),
            "cache-control": "no-store",
            "content-length": str(size),
        },
    )


async def run_or_current(request: Request) -> str:
    """The id in ``run=``; else the newest running run, else the newest run."""
    run_id, reader = RUN(request), server_state(request).reader
    return await reader.query(reader.catalog.current) if run_id is None else run_id


def _find_blob(run: RunView, file: str) -> tuple[Path, str, str]:
    """A file, its media type, and its name as a download: what a user called it, if anything."""
    media_type = run.blob_types().get(file)
    if media_type is None:
        raise RunNotFoundError(f"this run has no file {file!r}.")
    named = (
        kept.name for kept in run.entries("file", rank=None) if kept.record.get("file") == file
    )
    return run.blob_path(file), media_type, next(named, None) or file


def _encoded(path: Path) -> BinaryIO:
    """A file that is still raw pixels; it is encoded for later requests, too."""
    folder = RunFolder(path.parent.parent)
    data = blob_bytes(folder, path.name)
    with contextlib.suppress(OSError):  # a folder that is read-only
        store_blob(folder, path.name, data)
    return io.BytesIO(data)


def _part_of(
    request: Request, content: BinaryIO, size: int, *, media_type: str, headers: dict[str, str]
) -> Response:
    """The range that a player or a continued download asks for, else everything, in pieces."""
    # The content of a name never changes, so parts of it may be put together.
    tag = etag_of(request.url.path.encode(), str(size).encode()).removeprefix("W/")
    headers |= {"etag": tag, "cache-control": "private, no-cache"}
    if matches_etag(request, tag):
        content.close()
        return Response(status_code=304, headers=headers)
    start, stop, status = 0, size, 200
    asked = _RANGE.fullmatch(request.headers.get("range", "").strip())
    is_same = request.headers.get("if-range", tag) == tag
    if is_same and asked is not None and any(asked.groups()):
        first, last = asked.groups()
        start = int(first) if first else max(size - int(last), 0)
        stop = min(int(last) + 1, size) if first and last else size
        status = 206
        if start >= stop:
            content.close()
            headers = {"content-range": f"bytes */{size}"}
            return error_response(416, f"the file has {size} bytes.", headers=headers)
        headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
    headers["content-length"] = str(stop - start)
    return StreamingResponse(
        _chunks(content, start, stop), status, media_type=media_type, headers=headers
    )


async def _chunks(file: IO[bytes], start: int, stop: int) -> AsyncIterator[bytes]:
    with file:
        file.seek(start)
        while start < stop and (
            chunk := await asyncio.to_thread(file.read, min(stop - start, _CHUNK_BYTES))
        ):
            start += len(chunk)
            yield chunk


def _attachment(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "download"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


_FRAME = Path(__file__).with_name("plotly.html")
# Plotly compiles what it draws with WebGL.
_PLOTLY_POLICY = (
    "default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'self'; sandbox allow-scripts"
)
_NOT_INSTALLED = (
    "This figure needs Plotly on the machine that serves the page: run `pip install plotly` there,"
    " and load the page again."
)


async def plotly(request: Request) -> Response:
    """A frame that draws figures with the installed Plotly."""
    library = _installed()
    if library is None:
        return error_response(404, _NOT_INSTALLED)
    page = _frame(library)
    scripts = " ".join(f"'{one}'" for one in page.script_hashes)
    return await body_response(
        request,
        page.html,
        media_type="text/html; charset=utf-8",
        tag=page.tag,
        headers={"content-security-policy": _PLOTLY_POLICY.format(scripts=scripts)},
        compress=lambda: page.compressed,
    )


@cache
def _frame(library: Path) -> Page:
    page = _FRAME.read_bytes().replace(b"$library", library.read_bytes(), 1)
    return Page(page, is_built=True)


def _installed() -> Path | None:
    spec = find_spec("plotly")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [Path(folder) / "package_data" / "plotly.min.js" for folder in folders]
    return next(filter(Path.is_file, files), None)
