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
_WORTH_COMPRESSING = 1024
_LARGE = 256 * 1024


async def json_answer(request: Request, value: Any, *, status: int = 200) -> Response:
    """A JSON body; nan and infinities in it are null."""
    body = msgspec.json.encode(value)
    if len(body) > MAX_JSON_BYTES:
        sentence = f"the answer would have more than {MAX_JSON_BYTES} bytes: ask for less at once."
        return problem(413, sentence)
    return await answer(request, body, media_type="application/json", status=status)


async def answer(
    request: Request,
    body: bytes,
    *,
    media_type: str,
    tag: str | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """A body that the browser may keep as long as its tag stands; ``tag`` defaults to its hash."""
    tag = entity_tag(body) if tag is None else tag
    kept = {"etag": tag, "cache-control": "private, no-cache", "vary": "accept-encoding"}
    kept.update(headers or {})
    if is_known(request, tag):
        return Response(status_code=304, headers=kept)
    if len(body) >= _WORTH_COMPRESSING and _accepts_gzip(request):
        if len(body) < _LARGE:
            packed = _packed(body)
        else:
            packed = await asyncio.to_thread(_packed, body)
        if len(packed) < 0.9 * len(body):
            body = packed
            kept["content-encoding"] = "gzip"
    return Response(body, status_code=status, media_type=media_type, headers=kept)


def entity_tag(*parts: bytes) -> str:
    """A tag that changes with any of the parts."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return f'W/"{digest.hexdigest()}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether the browser holds the body of this tag already."""
    asked = request.headers.get("if-none-match", "")
    return request.method in ("GET", "HEAD") and tag in (one.strip() for one in asked.split(","))


def problem(status: int, sentence: str, *, headers: dict[str, str] | None = None) -> Response:
    """An error as the client sees it."""
    return Response(
        msgspec.json.encode(Problem(sentence)),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store", **(headers or {})},
    )


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=1, mtime=0)


def _accepts_gzip(request: Request) -> bool:
    for one in request.headers.get("accept-encoding", "").split(","):
        name, _, weight = one.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False
