"""Limits how often a client may ask: requests of each sender, and failed tokens of each address."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

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


class LimitMiddleware:
    """Answers 429 to a sender that asks too often, and to an address that guesses tokens.

    A sender is who its token says, so machines behind one address do not share a limit; requests
    without a token count by address. A trusted proxy says whose address it forwards.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests: TokenBuckets | None = None,
        failures: TokenBuckets | None = None,
        proxy: TrustedProxy | None = None,
    ) -> None:
        self._app = app
        self._proxy = proxy
        self._shipping = TokenBuckets(SHIPPING_PER_S, SHIPPING_BURST)
        self._requests = requests or TokenBuckets(REQUESTS_PER_S, BURST)
        self._failures = failures or TokenBuckets(FAILURES_PER_S, FAILURES_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or hand over."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = address_of(scope) if self._proxy is None else self._proxy.client(scope)
        sender = (address, _token_of(scope))
        is_shipping = scope["path"].startswith(_SHIPPING_PATHS)
        requests = self._shipping if is_shipping else self._requests
        wait_s = max(requests.wait_s(sender), self._failures.wait_s(address))
        if wait_s > 0:
            headers = {"retry-after": str(math.ceil(wait_s))}
            sentence = f"too many requests: try again in {math.ceil(wait_s)} s."
            await error_response(429, sentence, headers=headers)(scope, receive, send)
            return
        requests.spend(sender)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._failures.spend(address)
            await send(message)

        await self._app(scope, receive, watched)


def _token_of(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return bytes(value)
    return b""
