"""Bodies as responses: entity tags, compression where it helps, and errors as one sentence."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.server.wire import Problem

MAX_JSON_BYTES = 64 * 1024 * 1024
_MIN_GZIP_BYTES = 1024
_LARGE = 256 * 1024


async def json_response(request: Request, value: Any, *, status: int = 200) -> Response:
    """A JSON body; nan and infinities in it are null."""
    body = msgspec.json.encode(value)
    if len(body) > MAX_JSON_BYTES:
        sentence = f"the answer would have more than {MAX_JSON_BYTES} bytes: ask for less at once."
        return error_response(413, sentence)
    return await body_response(request, body, media_type="application/json", status=status)


async def body_response(
    request: Request,
    body: bytes,
    *,
    media_type: str,
    tag: str | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """A body that the browser may keep as long as its tag stands; ``tag`` defaults to its hash."""
    tag = etag_of(body) if tag is None else tag
    kept = {"etag": tag, "cache-control": "private, no-cache", "vary": "accept-encoding"}
    kept.update(headers or {})
    if is_known(request, tag):
        return Response(status_code=304, headers=kept)
    if len(body) >= _MIN_GZIP_BYTES and _accepts_gzip(request):
        if len(body) < _LARGE:
            compressed = _compress(body)
        else:
            compressed = await asyncio.to_thread(_compress, body)
        if len(compressed) < 0.9 * len(body):
            body = compressed
            kept["content-encoding"] = "gzip"
    return Response(body, status_code=status, media_type=media_type, headers=kept)


def etag_of(*parts: bytes) -> str:
    """A tag that changes with any of the parts."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return f'W/"{digest.hexdigest()}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether the browser holds the body of this tag already."""
    params = request.headers.get("if-none-match", "")
    return request.method in ("GET", "HEAD") and tag in (one.strip() for one in params.split(","))


def error_response(
    status: int, sentence: str, *, headers: dict[str, str] | None = None
) -> Response:
    """An error as the client sees it."""
    return Response(
        msgspec.json.encode(Problem(sentence)),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store", **(headers or {})},
    )


def _compress(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=1, mtime=0)


def _accepts_gzip(request: Request) -> bool:
    for one in request.headers.get("accept-encoding", "").split(","):
        name, _, weight = one.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False
