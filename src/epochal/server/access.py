"""Who may ask: the host asked for, the token, the origin of a change; and what browsers are told.

A page elsewhere must not reach a server on this machine. It could, by a name of its own that leads
here (DNS rebinding): so the Host header is checked. It could send a change without reading the
answer: so changes must come from this origin. It could make work with questions whose answers the
browser keeps from it: so what a browser asks for another origin's page is refused too, also for
pages of this machine at another port. A navigation is a person's, or a notebook's frame, and
programs that are no browsers say nothing of where they come from.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.page.loader import Page
from epochal.server.answer import problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What a policy can name; it has no way to write an IPv6 address.
_FRAMING_HOST = re.compile(r"[a-z0-9_.-]+")
_OPEN_PATHS = frozenset({"/healthz"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ASK_FOR_TOKEN = (
    "this server needs its token: open the address that 'epochal serve' printed, or send"
    " 'Authorization: Bearer <token>'."
)
# Loads the same address again: a link on another site brings no SameSite=Strict cookie along.
_AGAIN = b'<!doctype html><meta http-equiv="refresh" content="0"><title>Epochal</title>'


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server: host names without ports, and the token, None for none."""

    hosts: frozenset[str] = LOOPBACK
    token: str | None = None
    port: int = 0

    @property
    def cookie(self) -> str:
        """The cookie's name: cookies know no ports, and each port is a server of its own."""
        return f"epochal-{self.port}"


class Guard:
    """Stands before the whole application."""

    def __init__(self, app: ASGIApp, *, access: Access, page: Page) -> None:
        self._app = app
        self._access = access
        self._headers = {
            "content-security-policy": content_security_policy(page, hosts=access.hosts),
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, redirect or pass on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, self._headers)
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, guarded_send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if host_name(headers.get("host", "")) not in self._access.hosts:
            sentence = "this server does not go by that name: start it with --allow-host to let it."
            return problem(421, sentence)
        if scope["method"] not in _READING and not is_same_origin(headers):
            return problem(403, "changes are accepted from this server's own page only.")
        if is_embedded_elsewhere(headers):
            return problem(403, "a page of another origin cannot ask this server.")
        if self._access.token is None or scope["path"] in _OPEN_PATHS:
            return None
        return self._token_refusal(scope, headers, self._access.token)

    def _token_refusal(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        if scope["method"] in ("GET", "HEAD"):
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            given = [value for name, value in query if name == "token"]
            if given and _equal(given[-1], token):
                return self._welcome(scope["path"], query, token)
        bearer = headers.get("authorization", "")
        if bearer.lower().startswith("bearer ") and _equal(bearer[7:].strip(), token):
            return None
        cookie = _cookie(headers, self._access.cookie)
        if cookie is not None and _equal(cookie, token):
            return None
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode") == "navigate"
        ):
            return Response(_AGAIN, media_type="text/html", headers={"cache-control": "no-store"})
        return problem(401, _ASK_FOR_TOKEN, headers={"www-authenticate": "Bearer"})

    def _welcome(self, path: str, query: list[tuple[str, str]], token: str) -> Response:
        """On to the same address without the token, which the browser now holds."""
        left = urlencode([(name, value) for name, value in query if name != "token"])
        # Relative, so that it holds behind a proxy that serves us under a path of its own.
        target = "./" + path.rpartition("/")[2] + (f"?{left}" if left else "")
        response = Response(
            status_code=303, headers={"location": target, "cache-control": "no-store"}
        )
        response.set_cookie(self._access.cookie, token, httponly=True, samesite="strict", path="/")
        return response


def content_security_policy(page: Page, *, hosts: Iterable[str] = LOOPBACK) -> str:
    """What the page may do: its own scripts and styles, and ask this server.

    Frames around it may be of this server's own hosts, at any port.
    """
    scripts = " ".join(f"'{one}'" for one in page.script_hashes) or "'none'"
    styles = " ".join(f"'{one}'" for one in page.style_hashes) or "'none'"
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            f"style-src {styles}",
            f"style-src-elem {styles}",
            "style-src-attr 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            f"frame-ancestors {' '.join(_frames(hosts))}",
        )
    )


def _frames(hosts: Iterable[str]) -> Iterator[str]:
    """Who may show the page in a frame: notebooks of these hosts, and those of a desktop editor."""
    yield "'self'"
    for host in sorted(hosts):
        if _FRAMING_HOST.fullmatch(host):
            yield f"http://{host}:*"
            yield f"https://{host}:*"
    # No site has these schemes: only the editor itself loads them, and it may do more than frame.
    yield from ("vscode-webview:", "vscode-file:")


def host_name(host: str) -> str:
    """The name in a Host header, without its port, as it is compared; empty for nonsense."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    if any(mark in host for mark in "/?#@\\ "):
        return ""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.rstrip(".")


def is_same_origin(headers: Headers) -> bool:
    """Whether a change comes from this server's page, or from a program that is no browser."""
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    except ValueError:
        return False


def is_embedded_elsewhere(headers: Headers) -> bool:
    """Whether a browser asks on behalf of another origin's page, other than to go to an address."""
    site = headers.get("sec-fetch-site", "none")
    return site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate"


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _cookie(headers: Headers, name: str) -> str | None:
    try:
        cookies: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    return cookies[name].value if name in cookies else None


def _add_headers(message: MutableMapping[str, Any], headers: dict[str, str]) -> None:
    present = {name.lower() for name, _ in message.get("headers", ())}
    message["headers"] = [
        *message.get("headers", ()),
        *(
            (name.encode(), value.encode())
            for name, value in headers.items()
            if name.encode() not in present
        ),
    ]
