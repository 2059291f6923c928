"""Sends HTTP requests to one server, over one connection that is kept open.

Proxies come from ``https_proxy``, ``http_proxy`` and ``no_proxy``, a certificate authority of one's
own from ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``. No redirect is followed: another server would get
the credentials.
"""

from __future__ import annotations

import base64
import contextlib
import email.message
import http.client
import json
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from epochal.errors import EpochalError
from epochal.version import __version__

TIMEOUT_S = 30.0
_MOST_BYTES = 256 << 20


class HttpError(EpochalError):
    """A server could not be reached, or its answer is an error or no answer of its kind.

    ``status`` is the HTTP status, 0 without an answer.
    """

    def __init__(self, sentence: str, *, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class Response(NamedTuple):
    """The answer to a request, whatever its status."""

    status: int
    reason: str
    headers: email.message.Message
    body: bytes

    def text(self, field: str) -> str:
        """A text of the JSON object in the body; empty without one."""
        try:
            value = json.loads(self.body)[field]
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""
        return value if isinstance(value, str) else ""


class HttpClient:
    """A connection to one server; one thread uses it.

    ``context`` verifies the server's certificate. With ``is_direct``, there is no proxy.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        most_bytes: int = _MOST_BYTES,
        context: ssl.SSLContext | None = None,
        is_direct: bool = False,
    ) -> None:
        self.url = url
        self._headers = {"user-agent": f"epochal/{__version__}", **(headers or {})}
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._context = context
        self._is_direct = is_direct
        self._connection: http.client.HTTPConnection | None = None
        # Headers for a proxy that is asked for whole addresses; None without one.
        self._by_proxy: Mapping[str, str] | None = None
        self._way = ""

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The answer of the server; an ``HttpError`` without one begins with the address."""
        while True:
            is_new = self._connection is None or self._connection.sock is None
            try:
                return self._exchange(method, path, body, {**self._headers, **(headers or {})})
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.close()
                # A connection that was kept open may have been closed by the server meanwhile.
                if is_new:
                    raise HttpError(f"{self.url}{self._way}: {_reason(error)}.") from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Response:
        if self._connection is None:
            self._connection = self._connect()
        parts = urlsplit(self.url)
        target, sent = parts.path.rstrip("/") + path, dict(headers)
        if self._by_proxy is not None:
            target, sent = f"http://{parts.netloc}{target}", {**sent, **self._by_proxy}
        self._connection.request(method, target, body=body, headers=sent)
        response = self._connection.getresponse()
        answer = response.read(self._most_bytes + 1)
        if len(answer) > self._most_bytes:
            self.close()
            raise HttpError(f"{self.url}: it sends more than {self._most_bytes} bytes at once.")
        if response.length:  # the connection ended within it
            raise http.client.IncompleteRead(answer, response.length)
        return Response(response.status, response.reason, response.headers, answer)

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        is_tls = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if is_tls else 80)
        there, tunnel = (host, port), None
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy and not self._is_direct and not urllib.request.proxy_bypass(f"{host}:{port}"):
            via = urlsplit(proxy if "://" in proxy else f"//{proxy}")
            there, tunnel = (via.hostname or "", via.port or 3128), _credentials(via)
            self._way = f" through the proxy {there[0]}:{there[1]}"
        if not is_tls:
            # Without TLS a proxy is asked for the whole address: many tunnel to no port but 443.
            self._by_proxy = tunnel
            return http.client.HTTPConnection(*there, timeout=self._timeout_s)
        context = self._context or ssl.create_default_context()
        connection = http.client.HTTPSConnection(*there, timeout=self._timeout_s, context=context)
        if tunnel is not None:
            connection.set_tunnel(host, port, headers=tunnel)
        return connection


def basic(username: str, password: str) -> str:
    """The value of an authorization header for a name and a password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _credentials(proxy: Any) -> dict[str, str]:
    if not proxy.username:
        return {}
    return {"proxy-authorization": basic(unquote(proxy.username), unquote(proxy.password or ""))}


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); set SSL_CERT_FILE"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).rstrip(".")
