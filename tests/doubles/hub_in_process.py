"""A hub that receives in this process: a client of it needs no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette

from epochal.hub.endpoints import HubControls, Receiving
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.server.access import OWNER
from epochal.shipping.client import HubClient, HubError


class HubInProcess(HubClient):
    """A client of the endpoints by which a hub receives runs, over a folder or into an ``inbox``.

    ``on_lines`` is called with the number of lines of a part that the hub says it has, ``on_file``
    with the kind of a file of which it says that it has all.
    """

    def __init__(
        self,
        root: Path,
        *,
        inbox: Inbox | None = None,
        ledger: Ledger | None = None,
        on_lines: Callable[[int], object] = lambda _: None,
        on_file: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__("http://localhost")
        self.ledger = Ledger(root) if ledger is None else ledger
        controls = HubControls(self.ledger, is_allowed=False)
        inbox = FolderInbox(root) if inbox is None else inbox
        self._receiving = Receiving(inbox, self.ledger, controls)
        self._app = Starlette(routes=self._receiving.routes())
        self._on_lines, self._on_file = on_lines, on_file

    def append(self, *args: Any, **named: Any) -> int:
        have = super().append(*args, **named)
        self._on_lines(have)
        return have

    def put_file(self, run_id: str, kind: Any, *args: Any, size: int, **named: Any) -> int:
        have = super().put_file(run_id, kind, *args, size=size, **named)
        if have == size:
            self._on_file(kind)
        return have

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of an answer; raises ``HubError`` for every answer but a success."""
        status, answer = asyncio.run(self._answer(method, path, body or b"", headers or {}))
        if status >= 300:
            sentence = msgspec.json.decode(answer)["error"]
            raise HubError(f"the hub answered {status}: {sentence}", status=status)
        return answer

    def close(self) -> None:
        """End the threads of the hub and close its files."""
        self._receiving.close()
        self.ledger.close()

    async def _answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        address, _, query = path.partition("?")
        messages: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            messages.append(message)

        sent = {"content-length": str(len(body)), **headers}
        scope = {
            "type": "http",
            "method": method,
            "path": address,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "state": {"principal": OWNER},
        }
        await self._app(scope, receive, send)
        return messages[0]["status"], b"".join(message.get("body", b"") for message in messages)
