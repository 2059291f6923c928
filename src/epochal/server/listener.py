"""The queue of one client's event stream, and the encoding of its events."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from epochal.server.wire import ResetEvent

# A client with more bytes waiting reads too slowly: it is told to fetch everything again.
MAX_WAITING_BYTES = 4 * 1024 * 1024


class Listener:
    """One client's queue of encoded events; its size is bounded."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self.closed = False

    def put(self, batch: bytes, position: str) -> None:
        """Queue a batch; a client that reads too slowly gets a reset event instead."""
        if self._size + len(batch) > MAX_WAITING_BYTES:
            self._waiting.clear()
            self._size = 0
            batch = encode_event("reset", ResetEvent(None, "behind"), position=position)
        self._waiting.append(batch)
        self._size += len(batch)
        self._wake.set()

    def close(self) -> None:
        """End the stream after the batches already taken."""
        self.closed = True
        self._wake.set()

    async def next_batch(self) -> bytes:
        """Wait for batches and return them joined; empty when the stream ends."""
        await self._wake.wait()
        self._wake.clear()
        taken = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return b"" if self.closed else taken


def encode_event(
    name: str, data: msgspec.Struct, *, position: str | None = None, retry_ms: int | None = None
) -> bytes:
    """Encode one event; JSON has no raw newlines, so its data is one line."""
    head = "" if retry_ms is None else f"retry: {retry_ms}\n"
    if position is not None:
        head += f"id: {position}\n"
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
