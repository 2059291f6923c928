"""Access control: checks Host, token and origin, and adds the security headers.

A page of another site must not reach a server on this machine. A name of its own could resolve to
this machine (DNS rebinding), so the Host header is checked. It could send a change without reading
the response, so changes must come from this origin. It could cause load with requests whose
responses the browser withholds, so cross-origin requests are refused too, also from other ports of
this machine. Navigations (links) are allowed. Programs that are not browsers send
no origin headers and are allowed.

A person without a valid token gets a page that asks for one, programs the same sentence as JSON.
The token goes into the address, as that of a link, from which the server takes it into a cookie.
"""

from __future__ import annotations

import hmac
import html
import ipaddress
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from string import Template
from typing import Literal, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.server.page import Page
from epochal.server.responses import error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_USER = 100
# Of a hub: whether it can store anything now.
READY_PATH = "/readyz"
_PUBLIC_PATHS = frozenset({"/healthz", READY_PATH})
# A browser sends about twenty headers, of 2 kB together.
_MOST_HEADERS = 100
_MOST_HEADER_BYTES = 32 * 1024
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ASK_FOR_TOKEN = (
    "this server needs its token: open the address that 'epochal serve' printed, or send"
    " 'Authorization: Bearer <token>'."
)
_ASK_FOR_HUB_TOKEN = (
    "this hub needs a token: ask who runs it. They make one with 'epochal hub token add'; programs"
    " send it as 'Authorization: Bearer <token>'."
)
_UNKNOWN_TOKEN = "this token is not known here, or was revoked."
# Loads the same URL again: a link on another site sends no SameSite=Strict cookie.
_RELOAD_PAGE = b'<!doctype html><meta http-equiv="refresh" content="0"><title>Epochal</title>'


Role = Literal["read", "write", "admin"]
# Each may do what the ones before it may.
ROLES: tuple[Role, ...] = ("read", "write", "admin")


class Principal(msgspec.Struct, frozen=True):
    """Who sends a request and what they may do.

    ``projects`` are those they may see, by the names of their folders; None for all. ``runs`` are
    the ids of single runs of a shared link; None for all runs of these projects.
    """

    name: str
    role: Role = "admin"
    projects: frozenset[str] | None = None
    runs: frozenset[str] | None = None

    def may(self, role: Role, project: str | None = None) -> bool:
        """Whether this role is theirs, in this project where one is given."""
        has_role = ROLES.index(self.role) >= ROLES.index(role)
        return has_role and (project is None or self.projects is None or project in self.projects)


# Someone on this machine, or someone with the one token of a server.
OWNER = Principal("owner")


class TrustedProxy(msgspec.Struct, frozen=True):
    """A proxy that says who sends a request: the address, and with ``header`` the person.

    Headers count only in requests from ``networks``: from anywhere else they are anybody's claim.
    """

    header: str | None
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    role: Role = "read"

    def user(self, scope: Scope, headers: Headers) -> Principal | None:
        """Who the proxy says it is; None without the header, or from another address."""
        if self.header is None or len(headers.getlist(self.header)) != 1:
            return None
        name = headers[self.header].strip()
        if not name or not self._is_trusted(address_of(scope)):
            return None
        return Principal(name[:_MAX_USER], self.role)

    def client(self, scope: Scope) -> str:
        """The address that a request comes from, behind this proxy or not."""
        address = address_of(scope)
        said = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        # Each proxy appends whom it heard: what stands left of the first stranger is its claim.
        while self._is_trusted(address) and said:
            address = said.pop().strip() or address
        return address

    def is_over_tls(self, scope: Scope) -> bool:
        """Whether the proxy says that the client speaks TLS to it."""
        said = Headers(scope=scope).getlist("x-forwarded-proto")
        return said == ["https"] and self._is_trusted(address_of(scope))

    def _is_trusted(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self.networks)


def address_of(scope: Scope, proxy: TrustedProxy | None = None) -> str:
    """The address of who is connected, or of the client that a trusted proxy forwards."""
    if proxy is not None:
        return proxy.client(scope)
    return str(scope["client"][0]) if scope.get("client") else ""


class Access(msgspec.Struct, frozen=True):
    """The rules of one server: allowed host names without ports, and the token if any.

    ``find`` says whose token one is, for servers with several; None there is nobody's.
    ``refused`` says why a token is refused, of one that was valid before.
    """

    hosts: frozenset[str] = LOOPBACK
    token: str | None = None
    port: int = 0
    find: Callable[[str], Principal | None] | None = None
    proxy: TrustedProxy | None = None
    refused: Callable[[str], str | None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests need no token."""
        return self.token is None and self.find is None

    def principal(self, token: str) -> Principal | None:
        """Whose token this is; None for nobody's."""
        if self.token is not None and _equal(token, self.token):
            return OWNER
        return None if self.find is None else self.find(token)

    def why_refused(self, token: str | None) -> str:
        """A sentence on why a request is refused that has this token, or none."""
        if not token:
            return _ASK_FOR_TOKEN if self.find is None else _ASK_FOR_HUB_TOKEN
        return (self.refused(token) if self.refused else None) or _UNKNOWN_TOKEN

    @property
    def cookie(self) -> str:
        """The cookie's name; it has the port because cookies are shared between ports."""
        return f"epochal-{self.port}"


class AccessMiddleware:
    """Checks every request before the application sees it."""

    def __init__(self, app: ASGIApp, *, access: Access, page: Page) -> None:
        self._app = app
        self._access = access
        self._headers = {
            "content-security-policy": content_security_policy(page),
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, redirect or forward the request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = malformed(scope) or self._refusal(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if host_name(headers.get("host", "")) not in self._access.hosts:
            sentence = "this Host is not allowed: start the server with --allow-host NAME."
            return error_response(421, sentence)
        if scope["method"] not in _SAFE_METHODS and not is_same_origin(headers):
            return error_response(403, "changes are accepted from this server's own page only.")
        if is_embedded_elsewhere(headers):
            return error_response(403, "requests from a page of another origin are refused.")
        if self._access.is_open or scope["path"] in _PUBLIC_PATHS:
            scope.setdefault("state", {})["principal"] = OWNER
            return None
        return self._token_refusal(scope, headers)

    def _token_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        find = self._access.principal
        given: list[str] = []
        if scope["method"] in ("GET", "HEAD"):
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            given = [value for name, value in query if name == "token"]
            if given and find(given[-1]) is not None:
                return self._redirect_with_cookie(scope, query, given[-1])
        bearer = headers.get("authorization", "")
        sent = bearer[7:].strip() if bearer.lower().startswith("bearer ") else None
        proxy = self._access.proxy
        user = None if proxy is None else proxy.user(scope, headers)
        kept = Request(scope).cookies.get(self._access.cookie)
        for token in (sent, kept, None):
            principal = user if token is None else find(token)
            if principal is not None:
                state = scope.setdefault("state", {})
                state["principal"] = principal
                if token is not None:  # without one, a proxy named the person
                    state["find_again"] = partial(find, token)
                if scope["method"] not in _SAFE_METHODS and not principal.may("write"):
                    return error_response(403, f"the token {principal.name!r} may only read.")
                return None
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode") == "navigate"
        ):
            return Response(
                _RELOAD_PAGE, media_type="text/html", headers={"cache-control": "no-store"}
            )
        sentence = self._access.why_refused(given[-1] if given else sent or kept)
        if is_shown_to_a_person(headers):
            return token_page(sentence)
        return error_response(401, sentence, headers={"www-authenticate": "Bearer"})

    def _redirect_with_cookie(
        self, scope: Scope, query: list[tuple[str, str]], token: str
    ) -> Response:
        """Redirect to the same URL without the token, which becomes a cookie."""
        left = urlencode([(name, value) for name, value in query if name != "token"])
        # Relative, so that it works behind a proxy that serves us under a path prefix.
        target = "./" + quote(scope["path"].rpartition("/")[2]) + (f"?{left}" if left else "")
        response = Response(
            status_code=303, headers={"location": target, "cache-control": "no-store"}
        )
        proxy = self._access.proxy
        is_tls = scope["scheme"] == "https" or (proxy is not None and proxy.is_over_tls(scope))
        response.set_cookie(
            self._access.cookie, token, httponly=True, samesite="strict", secure=is_tls, path="/"
        )
        return response


def malformed(scope: Scope) -> Response | None:
    """Refuse what no client sends: several Host headers, of which a proxy may read another one."""
    headers = scope["headers"]
    if sum(name == b"host" for name, _ in headers) > 1:
        return error_response(400, "a request has one Host header.")
    num_bytes = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > _MOST_HEADERS or num_bytes > _MOST_HEADER_BYTES:
        sentence = f"a request has at most {_MOST_HEADERS} headers of {_MOST_HEADER_BYTES:,} bytes."
        return error_response(431, sentence)
    return None


def principal_of(request: Request) -> Principal:
    """Who sends this request."""
    return cast(Principal, request.scope["state"]["principal"])


def has_access(scope: Scope) -> bool:
    """Whether the token or link that an accepted request came with is still valid."""
    find_again: Callable[[], Principal | None] | None = scope["state"].get("find_again")
    return find_again is None or find_again() is not None


def content_security_policy(page: Page) -> str:
    """The page may run its own scripts and styles and send requests to this server."""
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
            "media-src 'self' data: blob:",
            "font-src data:",
            "frame-src 'self'",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'self'",
        )
    )


@lru_cache(256)  # every request names one of a few
def host_name(host: str) -> str:
    """The normalised name in a Host header, without its port; empty when it is invalid."""
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
    """Whether a change comes from this server's page or from a program other than a browser."""
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
    """Whether a browser sends this for another origin's page, and it is not a navigation."""
    site = headers.get("sec-fetch-site", "none")
    return site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate"


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


_TOKEN_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'self'"
)
_TOKEN_PAGE = Path(__file__).with_name("token.html")


def is_shown_to_a_person(headers: Headers) -> bool:
    """Whether a browser shows the answer as a page."""
    mode = headers.get("sec-fetch-mode")
    return "text/html" in headers.get("accept", "") if mode is None else mode == "navigate"


def token_page(sentence: str) -> Response:
    """Ask for a token; ``sentence`` says why."""
    words = sentence[:1].upper() + sentence[1:]
    return Response(
        Template(_TOKEN_PAGE.read_text(encoding="utf-8")).substitute(sentence=html.escape(words)),
        status_code=401,
        media_type="text/html",
        headers={
            "cache-control": "no-store",
            "content-security-policy": _TOKEN_PAGE_POLICY,
            "www-authenticate": "Bearer",
        },
    )
