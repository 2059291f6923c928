"""The page that a person sees who opens a server without a valid token: it asks for one.

Programs get the same sentence as JSON. The token goes where that of a link goes: into the address,
from which the server takes it into a cookie.
"""

from __future__ import annotations

import html

from starlette.datastructures import Headers
from starlette.responses import Response

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'self'"
)
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Epochal: token needed</title>
<style>
  :root {{ color-scheme: light dark; }}
  body {{ margin: 0; min-height: 100vh; display: grid; place-items: center;
    font: 16px/1.5 system-ui, sans-serif; color: light-dark(#1c1e21, #e6e8eb);
    background: light-dark(#f6f7f8, #14161a); }}
  main {{ box-sizing: border-box; width: min(26rem, 100vw); padding: 1.5rem; }}
  h1 {{ margin: 0 0 .5rem; font-size: 1.25rem; }}
  label {{ display: block; margin: 1rem 0 .25rem; font-weight: 600; }}
  form {{ display: flex; flex-wrap: wrap; gap: .5rem; }}
  label {{ flex-basis: 100%; margin-bottom: 0; }}
  input {{ flex: 1; min-width: 12rem; }}
  input, button {{ font: inherit; padding: .5rem .75rem; border-radius: .375rem;
    border: 1px solid light-dark(#8a9099, #6b727c); background: light-dark(#fff, #1d2026);
    color: inherit; }}
  button {{ background: light-dark(#1d5fbf, #8ab4f8); border-color: transparent;
    color: light-dark(#fff, #14161a); cursor: pointer; }}
</style>
<main>
  <h1>Epochal</h1>
  <p role="alert">{sentence}</p>
  <form method="get">
    <label for="token">Token</label>
    <input id="token" name="token" type="password" autocomplete="current-password" required
      autofocus>
    <button>Open</button>
  </form>
</main>
</html>
"""


def is_shown_to_a_person(headers: Headers) -> bool:
    """Whether a browser shows the answer as a page."""
    mode = headers.get("sec-fetch-mode")
    return "text/html" in headers.get("accept", "") if mode is None else mode == "navigate"


def token_page(sentence: str) -> Response:
    """Ask for a token; ``sentence`` says why."""
    words = sentence[:1].upper() + sentence[1:]
    return Response(
        _PAGE.format(sentence=html.escape(words)),
        status_code=401,
        media_type="text/html",
        headers={
            "cache-control": "no-store",
            "content-security-policy": _POLICY,
            "www-authenticate": "Bearer",
        },
    )
