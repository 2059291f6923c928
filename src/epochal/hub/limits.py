"""Limits how often a client may ask: requests of each sender, and failed tokens of each address."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.server.access import TrustedProxy, address_of
from epochal.server.responses import error_response

# A page with sixty charts asks some dozen times at once.
REQUESTS_PER_S = 100.0
BURST = 500
# A run sends about two requests a second, and a cluster may have one token and one address.
SHIPPING_PER_S = 5000.0
SHIPPING_BURST = 20_000
_SHIPPING_PATHS = "/api/hub/"
FAILURES_PER_S = 0.2
FAILURES_BURST = 20
_MOST_KEPT = 10_000


class TokenBuckets:
    """Counts events by key; a key may spend ``burst`` at once and regains ``per_s`` each second."""

    def __init__(
        self, per_s: float, burst: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: Hashable) -> float:
        """How long a key must wait before its next event; 0 when it may go on."""
        with self._lock:
            return max(0.0, (1.0 - self._now(key)) / self._per_s)

    def spend(self, key: Hashable) -> None:
        """Count an event."""
        with self._lock:
            left = self._now(key)
            self._left[key] = (left - 1.0, self._clock())
            self._left.move_to_end(key)
            while len(self._left) > _MOST_KEPT:
                self._left.popitem(last=False)

    def _now(self, key: Hashable) -> float:
        left, at_s = self._left.get(key, (self._burst, self._clock()))
        return min(self._burst, left + (self._clock() - at_s) * self._per_s)


class RequestLimitMiddleware:
    """Answers 429 to a sender that asks too often.

    A sender is the principal of a valid token at an address, so nobody uses up the requests of
    others. It runs behind the access control, which knows the principal.
    """

    def __init__(self, app: ASGIApp, *, proxy: TrustedProxy | None = None) -> None:
        self._app = app
        self._proxy = proxy
        self._shipping = TokenBuckets(SHIPPING_PER_S, SHIPPING_BURST)
        self._requests = TokenBuckets(REQUESTS_PER_S, BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request or forward it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sender = (address_of(scope, self._proxy), scope["state"]["principal"])
        is_shipping = scope["path"].startswith(_SHIPPING_PATHS)
        requests = self._shipping if is_shipping else self._requests
        wait_s = requests.wait_s(sender)
        if wait_s > 0:
            await _too_many_requests(wait_s)(scope, receive, send)
            return
        requests.spend(sender)
        await self._app(scope, receive, send)


class GuessLimitMiddleware:
    """Answers 429 instead of 401 to an address that has sent too many wrong tokens.

    It runs in front of the access control and changes refusals only: a valid token is accepted,
    whoever else sends wrong ones from the same address.
    """

    def __init__(self, app: ASGIApp, *, proxy: TrustedProxy | None = None) -> None:
        self._app = app
        self._proxy = proxy
        self._failures = TokenBuckets(FAILURES_PER_S, FAILURES_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, and replace the refusal where there were too many."""
        wait_s = 0.0

        async def send_unless_limited(message: Message) -> None:
            nonlocal wait_s
            if message["type"] == "http.response.start" and message["status"] == 401:
                address = address_of(scope, self._proxy)
                wait_s = self._failures.wait_s(address)
                if wait_s == 0:
                    self._failures.spend(address)
            if wait_s == 0:
                await send(message)

        await self._app(scope, receive, send_unless_limited)
        if wait_s > 0:
            await _too_many_requests(wait_s)(scope, receive, send)


def _too_many_requests(wait_s: float) -> Response:
    seconds = math.ceil(wait_s)
    sentence = f"too many requests: try again in {seconds} s."
    return error_response(429, sentence, headers={"retry-after": str(seconds)})
