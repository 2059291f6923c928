"""Responses with entity tags, gzip where it helps, and errors as one sentence.

Starlette's ``GZipMiddleware`` is sufficient from version 1.4 on. Older versions compress in the
event loop (0.7 s for a series of 20 MB) and delay event streams. We accept older versions because
other packages of training environments pin them. So large bodies are compressed in a thread here.
A body that does not shrink is sent uncompressed. Starlette has entity tags for files only.
``docs/explanation/dependencies.md`` has the measurements.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.server.wire import Problem

MAX_JSON_BYTES = 64 * 1024 * 1024
_MIN_GZIP_BYTES = 1024
_LARGE = 256 * 1024


async def json_response(request: Request, value: Any) -> Response:
    """A JSON body; nan and infinities become null."""
    body = msgspec.json.encode(value)
    if len(body) > MAX_JSON_BYTES:
        sentence = (
            f"the response would have more than {MAX_JSON_BYTES} bytes: request less at once."
        )
        return error_response(413, sentence)
    return await body_response(request, body, media_type="application/json")


def run_id_of(request: Request) -> str:
    """The run id in a request's path."""
    return str(request.path_params["run_id"])


async def body_response(
    request: Request,
    body: bytes,
    *,
    media_type: str,
    tag: str | None = None,
    headers: dict[str, str] | None = None,
    compress: Callable[[], bytes] | None = None,
) -> Response:
    """A body with an entity tag, by default its hash; 304 where the client has this version.

    ``compress`` has the body as gzip already.
    """
    tag = etag_of(body) if tag is None else tag
    sent_headers = {"etag": tag, "cache-control": "private, no-cache", "vary": "accept-encoding"}
    sent_headers.update(headers or {})
    if matches_etag(request, tag):
        return Response(status_code=304, headers=sent_headers)
    is_accepted = "gzip" in request.headers.get("accept-encoding", "")
    if is_accepted and len(body) >= _MIN_GZIP_BYTES:
        compress = compress or partial(gzip.compress, body, compresslevel=1, mtime=0)
        compressed = compress() if len(body) < _LARGE else await asyncio.to_thread(compress)
        if len(compressed) < 0.9 * len(body):
            body = compressed
            sent_headers["content-encoding"] = "gzip"
    return Response(body, media_type=media_type, headers=sent_headers)


def etag_of(*parts: bytes) -> str:
    """A tag that changes with any of the parts."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return f'W/"{digest.hexdigest()}"'


def matches_etag(request: Request, tag: str) -> bool:
    """Whether the client already has the body with this tag."""
    given = request.headers.get("if-none-match", "")
    return request.method in ("GET", "HEAD") and tag in (one.strip() for one in given.split(","))


def error_response(
    status: int, sentence: str, *, headers: dict[str, str] | None = None
) -> Response:
    """An error as a ``Problem`` body."""
    return Response(
        msgspec.json.encode(Problem(sentence)),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store", **(headers or {})},
    )
