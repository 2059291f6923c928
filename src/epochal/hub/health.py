"""What programs that watch a hub ask it: whether it can store anything, and what it does.

``/healthz`` of every server says that the process answers. ``/readyz`` says whether a sender would
be acknowledged now; it needs no token, so it names no address. ``/api/hub/metrics`` has counters.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from epochal.hub.counters import MEDIA_TYPE, HubCounters
from epochal.hub.inbox import Inbox, Readiness
from epochal.server.access import READY_PATH, principal_of
from epochal.server.reader import ThreadPool
from epochal.server.responses import error_response

# Many may ask; the disk, the database and the bucket are asked no more often than this.
KEPT_S = 2.0
# A probe of Kubernetes waits for a second unless it was told otherwise.
_TIMEOUT_S = 0.8
_CLOSE_TIMEOUT_S = 1.0
_NO_ANSWER = Readiness(("what the hub stores in does not answer.",))


class ReadyAnswer(msgspec.Struct, frozen=True):
    """The answer of ``/readyz``: sentences about what is missing, and about what to know."""

    ready: bool
    missing: tuple[str, ...]
    notes: tuple[str, ...]


class HealthProbes:
    """The endpoints for those who watch a hub."""

    def __init__(
        self,
        inbox: Inbox,
        counters: HubCounters,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._inbox = inbox
        self._counters = counters
        self._clock = clock
        self._timeout_s = timeout_s
        self._pool = ThreadPool("epochal-ready", 1)
        self._last, self._asked_s = _NO_ANSWER, -math.inf
        self._asking: asyncio.Future[Readiness] | None = None

    def close(self) -> None:
        """End the thread: no request follows."""
        self._pool.close(timeout_s=_CLOSE_TIMEOUT_S)

    def routes(self) -> list[Route]:
        """The routes of the server that receives."""
        return [Route(READY_PATH, self.ready), Route("/api/hub/metrics", self.metrics)]

    async def ready(self, request: Request) -> Response:
        """``GET /readyz``: 200 if lines would be acknowledged now, else 503."""
        found = await self._readiness()
        answer = ReadyAnswer(not found.missing, found.missing, found.notes)
        return Response(
            msgspec.json.encode(answer),
            status_code=200 if answer.ready else 503,
            media_type="application/json",
            headers={"cache-control": "no-store"},
        )

    async def metrics(self, request: Request) -> Response:
        """``GET /api/hub/metrics``: the counters of this hub, for every token but not for links."""
        if principal_of(request).runs is not None:
            return error_response(403, "a shared link leads to its runs only.")
        return Response(self._counters.text(), media_type=MEDIA_TYPE)

    async def _readiness(self) -> Readiness:
        """How things stood at most two seconds ago; what does not answer soon is missing."""
        if self._asking is None and self._clock() - self._asked_s >= KEPT_S:
            self._asking = asyncio.ensure_future(self._pool.call(self._inbox.readiness))
            self._asking.add_done_callback(self._note)
        if self._asking is not None:
            done, _ = await asyncio.wait([self._asking], timeout=self._timeout_s)
            if not done:
                return _NO_ANSWER
        return self._last

    def _note(self, asked: asyncio.Future[Readiness]) -> None:
        self._asking, self._asked_s = None, self._clock()
        self._last = _NO_ANSWER if asked.cancelled() or asked.exception() else asked.result()
