"""Writes the changes that people and programs make on a hub, and refused requests, into a log."""

from __future__ import annotations

import asyncio
import functools
import re
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.hub.ledger import Ledger
from epochal.hub.limits import TokenBuckets
from epochal.server.access import Principal, TrustedProxy, address_of
from epochal.server.state import server_guard

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# What machines send all the time is in the runs themselves.
_SHIPPED = re.compile(
    r"/api/hub/runs/[^/]+(/(parts|segments|blobs|live|control)/.*|/(labels|summary|metrics))?"
)
_RUN = re.compile(r"/api/(?:hub/)?runs/([^/]+)")
# Companions ask this every minute, whether the hub was started with --allow-control or not.
_POLLED = "/control/take"
_REFUSED = frozenset({401, 403, 421})
# Anybody can cause refusals: these limits keep them from filling the disk.
_REFUSED_PER_S, _REFUSED_BURST = 1 / 60, 10
_ALL_REFUSED_PER_S, _ALL_REFUSED_BURST = 1 / 10, 100
_MOST_CHARACTERS = 200


class AuditMiddleware:
    """Logs who changed what and how it was answered, and some of the refused requests.

    It runs in front of the access control, which refuses most of them.
    """

    def __init__(self, app: ASGIApp, ledger: Ledger, *, proxy: TrustedProxy | None = None) -> None:
        self._app = app
        self._ledger = ledger
        self._proxy = proxy
        self._guard = server_guard()
        self._refused = TokenBuckets(_REFUSED_PER_S, _REFUSED_BURST)
        self._all_refused = TokenBuckets(_ALL_REFUSED_PER_S, _ALL_REFUSED_BURST)
        self._num_unlisted = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, and log it before it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def send_when_logged(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                await self._log(scope, message["status"])  # whoever has the answer finds the line
            await send(message)

        try:
            await self._app(scope, receive, send_when_logged)
        finally:
            if not is_answered:
                await self._log(scope, 500)

    async def _log(self, scope: Scope, status: int) -> None:
        details = f"answered {status}"
        if status in _REFUSED and not scope["path"].endswith(_POLLED):
            address = address_of(scope, self._proxy)
            if not self._may_list(address):
                self._num_unlisted += 1
                return
            details += f" to {address[:_MOST_CHARACTERS]}"
            if self._num_unlisted:
                details += f", after {self._num_unlisted:,} refused requests that are not listed"
                self._num_unlisted = 0
        elif scope["method"] in _SAFE_METHODS or _SHIPPED.fullmatch(scope["path"]):
            return
        principal: Principal | None = scope.get("state", {}).get("principal")
        who = "unknown" if principal is None else principal.name
        path = quote(scope["path"])[:_MOST_CHARACTERS]
        run = _RUN.match(path)
        line = functools.partial(
            self._ledger.note,
            who,
            f"{scope['method']} {path}",
            run=run[1] if run else None,
            details=details,
        )
        # The change is made: a ledger that cannot be written does not turn it into an error.
        await asyncio.to_thread(self._guard.run, "audit log", line)

    def _may_list(self, address: str) -> bool:
        buckets = ((self._refused, address), (self._all_refused, None))
        if any(bucket.wait_s(key) > 0 for bucket, key in buckets):
            return False
        for bucket, key in buckets:
            bucket.spend(key)
        return True
