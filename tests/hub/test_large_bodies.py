"""Large bodies wait for each other, so that they do not take all memory together."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from epochal.hub import endpoints
from epochal.hub.control import HubControls
from epochal.hub.endpoints import Receiving
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.server.access import Principal
from epochal.shipping.protocol import MAX_BODY_BYTES, SIZE_HEADER

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
def test_large_bodies_are_read_one_after_another_and_small_ones_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_length: bool
) -> None:
    monkeypatch.setattr(endpoints, "_MOST_LARGE", 1)

    async def send(receiving: Receiving) -> None:
        first, second = (Sending(f"loop.000{n}.0000", LARGE, has_length=has_length) for n in (1, 2))
        small = Sending("loop.0003.0000", SMALL)
        tasks = [
            asyncio.ensure_future(receiving.append(one.request)) for one in (first, second, small)
        ]
        await first.is_read.wait()
        small.may_end.set()
        assert (await tasks[2]).body == b'{"have":1}'
        assert not second.is_read.is_set()
        first.may_end.set()
        assert (await tasks[0]).body == b'{"have":1}'
        second.may_end.set()
        assert (await tasks[1]).body == b'{"have":1}'

    with contextlib.closing(Ledger(tmp_path)) as ledger:
        inbox = Inbox(tmp_path)
        inbox.register("one", {"v": 1, "id": "one", "name": "a", "project": "p"})
        receiving = Receiving(inbox, ledger, HubControls(ledger, is_allowed=False))
        with contextlib.closing(receiving):
            asyncio.run(send(receiving))
