"""Requests that are never sent whole, and clients that hang up."""

from __future__ import annotations

import http.client
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from epochal.server.process import MAX_HEADER_BYTES, BoundedProtocol
from tests.server.live import WAIT_S, Server, serving, until
from tests.store.journals import Journal

PATCH = (
    b"PATCH /api/runs/id-x/labels HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


def bounded(*, timeout_s: float, most: int = 256) -> type[BoundedProtocol]:
    """The connections of a server with other limits."""
    limits = {"timeout_s": timeout_s, "most": most, "unfinished": {}}
    return type("Bounded", (BoundedProtocol,), limits)


CHUNKED = b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Server]:
    """A server that waits a moment only for the rest of a request, and for few of them."""
    Journal(tmp_path).metrics(1, loss=1.0)
    with serving(
        tmp_path, token="a-long-secret", protocol=bounded(timeout_s=1.0, most=20)
    ) as running:
        yield running


def connect(server: Server, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)
    client.sendall(sent)
    return client


def is_closed(client: socket.socket) -> bool:
    """Whether the server closes the connection, whatever it said before."""
    with suppress(ConnectionResetError):
        while client.recv(4096):
            pass
    return True  # a time-out raises


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api/runs HT",
        b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n",
        PATCH % 100 + b"{",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /heal",
        CHUNKED + b"5\r\nab",
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n",
    ],
)
def test_a_request_that_is_not_sent_whole_is_closed(hasty: Server, sent: bytes) -> None:
    with connect(hasty, sent) as client:
        assert is_closed(client)
    assert hasty.ask("/healthz").json["faults"] == 0


def test_a_slow_drip_is_closed_too(hasty: Server) -> None:
    with connect(hasty) as client:
        for _ in range(12_000):
            if select.select([client], [], [], 0.01)[0]:
                break
            client.sendall(b"X")
        assert is_closed(client)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"x" * 1000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 1000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: x\r\n" * 100),
    ],
)
def test_a_head_without_end_is_refused(tmp_path: Path, begin: bytes, more: bytes) -> None:
    protocol = bounded(timeout_s=WAIT_S * 10)
    with serving(tmp_path, protocol=protocol) as server, connect(server, begin) as client:
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < 10 * MAX_HEADER_BYTES:
                client.sendall(more)
                sent += len(more)
        assert is_closed(client)
        assert server.ask("/healthz").json["faults"] == 0


def test_a_body_in_large_chunks_is_taken(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    note = b'{"notes": "%s"}' % (b"x" * 20_000)
    head = PATCH.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked\r\nConnection: close")
    chunks = [note[at : at + 1000] for at in range(0, len(note), 1000)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in chunks)
    with connect(server, head + body + b"0\r\n\r\n") as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 200")


def test_many_half_sent_requests_leave_room_for_others(tmp_path: Path) -> None:
    protocol = bounded(timeout_s=WAIT_S * 10, most=20)
    with serving(tmp_path, protocol=protocol) as server, ExitStack() as stack:
        clients = [
            stack.enter_context(closing(connect(server, b"GET / HTTP/1.1\r\n"))) for _ in range(200)
        ]
        assert server.ask("/healthz").status == 200
        assert all(is_closed(client) for client in clients[:150])
        assert len(protocol.unfinished) <= 20


def test_a_stream_and_a_kept_connection_are_not_half_sent(hasty: Server) -> None:
    bearer = {"Authorization": "Bearer a-long-secret"}
    kept = http.client.HTTPConnection("127.0.0.1", hasty.port, timeout=WAIT_S)
    with hasty.listen(run="id-x", headers=bearer) as events, closing(kept):
        until(events, "ready")
        ports = set()
        for _ in range(3):
            kept.request("GET", "/healthz")
            assert kept.sock is not None
            ports.add(kept.sock.getsockname())
            assert kept.getresponse().read()
            with connect(hasty) as other:
                assert is_closed(other)  # as long as a request may take has passed
        assert len(ports) == 1
        assert hasty.ask("/healthz").json["streams"] == 1


def test_a_body_that_says_it_is_huge_is_refused_at_once(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with connect(server, PATCH % 10**12) as client:
        answer = client.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert is_closed(client)


@pytest.mark.parametrize("abruptly", [False, True])
def test_a_client_that_hangs_up_in_a_change_is_no_fault(
    tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str], abruptly: bool
) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    client = connect(server, PATCH % 100 + b'{"name": ')
    if abruptly:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert server.ask("/api/runs/id-x").json["labels"]["name"] is None
    assert server.ask("/healthz").json["faults"] == 0
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
def test_an_answer_without_a_body_comes_whole(server: Server, method: bytes) -> None:
    asks = method + b" /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(server, asks) as client:
        head, _, body = b"".join(iter(lambda: client.recv(4096), b"")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert bool(body) == (method == b"GET")
