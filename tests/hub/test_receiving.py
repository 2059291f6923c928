"""How a hub receives: large bodies one after another in memory, in threads that end with it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from epochal.hub import endpoints
from epochal.hub.endpoints import HubControls, Receiving
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.server.access import Principal
from epochal.shipping.client import HubClient
from epochal.shipping.protocol import MAX_BODY_BYTES, SIZE_HEADER
from epochal.shipping.worker import ship_now
from tests.hub.hub_process import serving_hub
from tests.hub.test_shipping import record

WAIT_S = 60.0
LARGE = b'{"log":"text","text":"%s"}\n' % (b"x" * (MAX_BODY_BYTES + 1))
SMALL = b'{"log":"metrics","step":1,"m":{}}\n'


class Sending:
    """A request whose body comes when it is told to; ``is_read`` once somebody waits for it."""

    def __init__(self, stem: str, body: bytes, *, has_length: bool = True) -> None:
        self.is_read, self.may_end = asyncio.Event(), asyncio.Event()
        headers = {SIZE_HEADER: str(len(body))}
        if has_length:
            headers["content-length"] = str(len(body))

        async def receive() -> Message:
            self.is_read.set()
            await self.may_end.wait()
            return {"type": "http.request", "body": body, "more_body": False}

        self.request = Request(
            {
                "type": "http",
                "method": "POST",
                "path": "/",
                "query_string": b"first=0",
                "headers": [
                    (name.lower().encode(), said.encode()) for name, said in headers.items()
                ],
                "path_params": {"run_id": "one", "stem": stem},
                "state": {"principal": Principal("machine", "write")},
            },
            receive,
        )


@pytest.mark.parametrize("has_length", [True, False])
def test_a_slow_sender_of_a_large_body_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_length: bool
) -> None:
    monkeypatch.setattr(endpoints, "_MOST_LARGE", 1)

    async def send(receiving: Receiving) -> None:
        slow, large = (Sending(f"loop.000{n}.0000", LARGE, has_length=has_length) for n in (1, 2))
        small = Sending("loop.0003.0000", SMALL)
        tasks = [
            asyncio.ensure_future(receiving.append(one.request)) for one in (slow, large, small)
        ]
        await slow.is_read.wait()
        for sending, task in ((small, tasks[2]), (large, tasks[1]), (slow, tasks[0])):
            sending.may_end.set()
            assert (await task).body == b'{"have":1}'

    with receiving_in(tmp_path) as receiving:
        asyncio.run(send(receiving))
    assert (tmp_path / "p" / "a" / "journal" / "loop.0001.0000.jsonl").read_bytes() == LARGE


def test_large_bodies_are_in_memory_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "_MOST_LARGE", 1)
    in_memory, most, lock = 0, 0, threading.Lock()

    def append(inbox: Inbox, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        nonlocal in_memory, most
        with lock:
            in_memory += 1
            most = max(most, in_memory)
        have = take(inbox, run_id, stem, first=first, lines=lines)
        with lock:
            in_memory -= 1
        return have

    take = Inbox.append
    monkeypatch.setattr(Inbox, "append", append)

    async def send(receiving: Receiving) -> None:
        sendings = [Sending(f"loop.000{n}.0000", LARGE) for n in range(4)]
        tasks = [asyncio.ensure_future(receiving.append(one.request)) for one in sendings]
        for one in sendings:
            one.may_end.set()
        assert {(await task).body for task in tasks} == {b'{"have":1}'}

    with receiving_in(tmp_path) as receiving:
        asyncio.run(send(receiving))
    assert most == 1


@contextlib.contextmanager
def receiving_in(root: Path) -> Iterator[Receiving]:
    with contextlib.closing(Ledger(root)) as ledger:
        inbox = Inbox(root)
        inbox.register("one", {"v": 1, "id": "one", "name": "a", "project": "p"})
        receiving = Receiving(inbox, ledger, HubControls(ledger, is_allowed=False))
        with contextlib.closing(receiving):
            yield receiving


def receiving_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("epochal-receive")}


def test_a_hub_that_stops_ends_the_threads_that_receive(tmp_path: Path) -> None:
    before = receiving_threads()
    with contextlib.closing(Ledger(tmp_path / "hub")) as ledger:
        token = ledger.add_token("machine", "write")
        with serving_hub(tmp_path / "hub", ledger) as server:
            client = HubClient(f"http://127.0.0.1:{server.port}", token)
            with contextlib.closing(client):
                ship_now(record(tmp_path / "runs"), client)
            threads = receiving_threads() - before
            assert threads
        for thread in threads:
            thread.join(WAIT_S)
        assert not any(thread.is_alive() for thread in threads)
