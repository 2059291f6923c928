"""The page that a person sees who opens a server without a valid token: it asks for one.

Programs get the same sentence as JSON. The token goes where that of a link goes: into the address,
from which the server takes it into a cookie.
"""

from __future__ import annotations

import html
from pathlib import Path
from string import Template

from starlette.datastructures import Headers
from starlette.responses import Response

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'self'"
)
_PAGE = Path(__file__).with_name("token.html")


def is_shown_to_a_person(headers: Headers) -> bool:
    """Whether a browser shows the answer as a page."""
    mode = headers.get("sec-fetch-mode")
    return "text/html" in headers.get("accept", "") if mode is None else mode == "navigate"


def token_page(sentence: str) -> Response:
    """Ask for a token; ``sentence`` says why."""
    words = sentence[:1].upper() + sentence[1:]
    return Response(
        Template(_PAGE.read_text(encoding="utf-8")).substitute(sentence=html.escape(words)),
        status_code=401,
        media_type="text/html",
        headers={
            "cache-control": "no-store",
            "content-security-policy": _POLICY,
            "www-authenticate": "Bearer",
        },
    )
