"""HTTP connections with a time limit for incomplete requests.

uvicorn waits without limit for the rest of a head or body, before our application sees the
request. Here a request must arrive whole within some seconds, and the number of connections with
an incomplete request is bounded: the oldest is closed.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# From the first byte to the last; requests have 128 kB at most.
REQUEST_TIMEOUT_S = 15.0
MAX_UNFINISHED = 256


class BoundedProtocol(H11Protocol):
    """uvicorn's connection, closed when its request does not arrive in time.

    ``bounded_protocol`` makes the class of one server.
    """

    timeout_s: ClassVar[float]
    most: ClassVar[int]
    # The server's connections whose request has not arrived whole, the oldest first.
    unfinished: ClassVar[dict[BoundedProtocol, asyncio.TimerHandle]]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit; it also holds for the first byte."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Receive a piece of a request."""
        super().data_received(data)
        self._check()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit."""
        self._forget()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Limit a request that has arrived meanwhile; else uvicorn's keep-alive limit holds."""
        super().on_response_complete()
        self._check()

    def _check(self) -> None:
        """Start or cancel the time limit, by whether a request is incomplete."""
        state = self.conn.their_state
        begun = state is h11.IDLE and self.conn.trailing_data[0]
        if state is h11.SEND_BODY or begun:
            self._await_request()
        else:
            self._forget()

    def _await_request(self) -> None:
        if self in self.unfinished or self.transport.is_closing():
            return
        while len(self.unfinished) >= self.most:
            next(iter(self.unfinished))._give_up()
        self.unfinished[self] = self.loop.call_later(self.timeout_s, self._give_up)

    def _forget(self) -> None:
        timer = self.unfinished.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self) -> None:
        self._forget()
        self.transport.close()


def bounded_protocol(
    *, timeout_s: float = REQUEST_TIMEOUT_S, most: int = MAX_UNFINISHED
) -> type[BoundedProtocol]:
    """The connections of one server."""

    class Bounded(BoundedProtocol):
        pass

    Bounded.timeout_s, Bounded.most, Bounded.unfinished = timeout_s, most, {}
    return Bounded
