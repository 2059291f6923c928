"""Faults at every operation of a hub, counted: requests to its bucket, commits to its database.

The bucket is wrapped. The database is asked through a proxy that knows where a round trip ends, so
the connection, the client and the server are real.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from epochal.store.bucket import Bucket, BucketError, StoredObject

# ``refused``: it was not done. ``lost``: it was done, and its answer was lost. ``twice``: it was
# done twice. ``late``: others did their work before it was done. ``killed before`` and ``killed
# after``: like the first two, and this hub does nothing any more.
Kind = Literal["refused", "lost", "twice", "late", "killed before", "killed after"]
KINDS: Sequence[Kind] = ("refused", "lost", "twice", "late", "killed before", "killed after")
_SSL, _GSS = 80877103, 80877104


@dataclass
class Faults:
    """One fault, at the operation with this number; ``meanwhile`` is what others do before it."""

    number: int = -1
    kind: Kind = "refused"
    meanwhile: Callable[[], object] = lambda: None
    # What was asked, in its order.
    operations: list[str] = field(default_factory=list)
    is_dead: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the fault has happened."""
        return len(self.operations) > self.number

    def kind_of(self, operation: str) -> Kind | None:
        """Count an operation; the fault that happens to it."""
        self.operations.append(operation)
        if len(self.operations) - 1 != self.number:
            return None
        self.is_dead = self.kind.startswith("killed")
        if self.kind == "late":
            self.meanwhile()
        return self.kind


class FaultyBucket:
    """A bucket one of whose requests fails."""

    def __init__(self, bucket: Bucket, faults: Faults) -> None:
        self._bucket = bucket
        self._faults = faults

    @property
    def address(self) -> str:
        return self._bucket.address

    def put(self, key: str, data: bytes | Path, *, replace: bool = False) -> bool:
        with self._operation(f"put {key}") as times:
            return [self._bucket.put(key, data, replace=replace) for _ in times][-1]

    def get(self, key: str) -> bytes:
        with self._operation(f"get {key}") as times:
            return [self._bucket.get(key) for _ in times][-1]

    def get_ranges(self, key: str, ranges: Sequence[range]) -> list[bytes]:
        with self._operation(f"get {key}") as times:
            return [self._bucket.get_ranges(key, ranges) for _ in times][-1]

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        with self._operation(f"list {prefix}") as times:
            yield from [tuple(self._bucket.list(prefix)) for _ in times][-1]

    def delete(self, keys: Iterable[str]) -> None:
        names = tuple(keys)
        with self._operation(f"delete {' '.join(names)}") as times:
            for _ in times:
                self._bucket.delete(names)

    @contextlib.contextmanager
    def _operation(self, name: str) -> Iterator[range]:
        if self._faults.is_dead:
            raise BucketError("the bucket cannot be used: this hub was killed.")
        kind = self._faults.kind_of(name)
        if kind in ("refused", "killed before"):
            raise BucketError(f"the bucket cannot be used: {name} was refused.")
        yield range(2 if kind == "twice" else 1)
        if kind in ("lost", "killed after"):
            raise BucketError(f"the bucket cannot be used: the answer to {name} was lost.")


class PostgresWire:
    """A proxy to a PostgreSQL server that counts commits, and ends connections at a fault.

    ``address`` leads through it to the same database.
    """

    def __init__(self, address: str, faults: Faults) -> None:
        self._faults = faults
        parts = urlsplit(address)
        (folder,) = parse_qs(parts.query)["host"]
        self._socket = f"{folder}/.s.PGSQL.5432"
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.address = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far, contextlib.suppress(OSError, EOFError):
            if self._faults.is_dead:
                return
            far.connect(self._socket)
            far.sendall(_startup(near))
            near.sendall(_answer(far))
            messages = b""
            while True:
                messages = _request(near, messages)
                self._round_trip(messages, near, far)

    def _round_trip(self, messages: bytes, near: socket.socket, far: socket.socket) -> None:
        if self._faults.is_dead:
            raise EOFError
        # Whichever statement of a transaction fails, the database undoes all of them.
        is_commit = b"COMMIT" in messages[:16]
        kind = self._faults.kind_of("commit") if is_commit else None
        if kind in ("refused", "killed before"):
            raise EOFError
        far.sendall(messages)
        answer = _answer(far)
        # A statement that is sent once is done once: twice means that the client does it again.
        if kind in ("lost", "twice", "killed after"):
            raise EOFError
        near.sendall(answer)


def _startup(near: socket.socket) -> bytes:
    """The first message of a client, which is offered no encryption."""
    while True:
        size = _exactly(near, 4)
        body = _exactly(near, int.from_bytes(size) - 4)
        if int.from_bytes(body[:4]) not in (_SSL, _GSS):
            return size + body
        near.sendall(b"N")


def _request(near: socket.socket, before: bytes) -> bytes:
    """The messages of a client up to the one after which it waits for an answer."""
    # Query, Sync; after a query that copies, the end of what is copied.
    ends = (b"Q", b"S", b"c", b"f") if before.startswith(b"Q") else (b"Q", b"S")
    messages = b""
    while True:
        kind, message = _message(near)
        messages += message
        if kind == b"X":  # the client leaves
            raise EOFError
        if kind in ends:
            return messages


def _answer(far: socket.socket) -> bytes:
    """The messages of a server up to the one after which it waits."""
    messages = b""
    while True:
        kind, message = _message(far)
        messages += message
        if kind in (b"Z", b"G"):  # ReadyForQuery, CopyInResponse
            return messages


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    return head[:1], head + _exactly(source, int.from_bytes(head[1:]) - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
