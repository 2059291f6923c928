"""Gives each request to an application over just the folders that its sender may see.

A sender with some projects, or with a link to some runs, is served by an application of its own
whose store was opened on these folders. No endpoint can return what its store does not hold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from epochal.server.access import Principal
from epochal.server.app import App
from epochal.server.responses import error_response

# Sets of folders that are served at once; the one that was used least recently is closed.
_MOST_APPS = 64
# Where the hub's own endpoints are: they check the sender themselves.
_HUB_PATHS = "/api/hub/"


class ByPrincipal:
    """An ASGI application: the whole hub for those who may see all of it, else a part."""

    def __init__(
        self,
        whole: App,
        *,
        folders_of: Callable[[Principal], Sequence[Path]],
        create: Callable[[Sequence[Path]], App],
        most: int = _MOST_APPS,
    ) -> None:
        self._whole = whole
        self._folders_of = folders_of
        self._create = create
        self._most = most
        self._lock = asyncio.Lock()
        self._apps: OrderedDict[tuple[Path, ...], tuple[App, contextlib.AsyncExitStack]] = (
            OrderedDict()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request over; end the other applications with this one."""
        if scope["type"] != "http":
            try:
                await self._whole.asgi(scope, receive, send)
            finally:
                await self._close_all()
            return
        app = await self._app(scope["state"]["principal"], scope["path"])
        if app is None:
            answer = error_response(404, "this link leads to no run that is still here.")
            await answer(scope, receive, send)
        else:
            await app(scope, receive, send)

    def close_streams(self) -> None:
        """End the event streams of every application."""
        self._whole.close_streams()
        for app, _ in self._apps.values():
            app.close_streams()

    async def _app(self, principal: Principal, path: str) -> ASGIApp | None:
        if path.startswith(_HUB_PATHS) or (principal.projects is None and principal.runs is None):
            return self._whole.asgi
        # The runs of a link may have to be looked for.
        folders = tuple(await asyncio.to_thread(self._folders_of, principal))
        if not folders:
            return None
        async with self._lock:
            found = self._apps.get(folders)
            if found is None:
                app = await asyncio.to_thread(self._create, folders)
                stack = contextlib.AsyncExitStack()
                await stack.enter_async_context(app.running())
                found = self._apps[folders] = (app, stack)
            self._apps.move_to_end(folders)
            while len(self._apps) > self._most:
                _, (old, old_stack) = self._apps.popitem(last=False)
                old.close_streams()
                await old_stack.aclose()
        return found[0].asgi

    async def _close_all(self) -> None:
        while self._apps:
            _, (app, stack) = self._apps.popitem()
            app.close_streams()
            await stack.aclose()
