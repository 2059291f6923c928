"""Writes every change that a person or a program makes on a hub into its audit log."""

from __future__ import annotations

import asyncio
import functools
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.hub.ledger import Ledger
from epochal.server.state import server_guard

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# What machines send all the time is in the runs themselves.
_SHIPPED = re.compile(r"/api/hub/runs/[^/]+(/(parts|segments|blobs|live|control)/.*|/labels)?")
_RUN = re.compile(r"/api/(?:hub/)?runs/([^/]+)")


class AuditMiddleware:
    """Notes who changed what, and how it was answered."""

    def __init__(self, app: ASGIApp, ledger: Ledger) -> None:
        self._app = app
        self._ledger = ledger
        self._guard = server_guard()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand over, and note a change before it is answered."""
        is_change = scope["type"] == "http" and scope["method"] not in _SAFE_METHODS
        if not is_change or _SHIPPED.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        found = _RUN.match(scope["path"])
        is_noted = False

        async def note(status: int) -> None:
            nonlocal is_noted
            is_noted = True
            who, what = scope["state"]["principal"].name, f"{scope['method']} {scope['path']}"
            run, details = found[1] if found else None, f"answered {status}"
            line = functools.partial(self._ledger.note, who, what, run=run, details=details)
            # The change is made: a ledger that cannot be written does not turn it into an error.
            await asyncio.to_thread(self._guard.run, "audit log", line)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                await note(message["status"])  # whoever has the answer finds the line
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            if not is_noted:
                await note(500)
