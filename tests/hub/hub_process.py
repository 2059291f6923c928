"""A real hub, in a process of its own or in this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from epochal.api.serving import ServerAddress
from epochal.hub.admission import Admission
from epochal.hub.ledger import Ledger
from epochal.hub.serving import FolderRuns, HubRuns, create_hub
from epochal.server.access import LOOPBACK
from epochal.server.app import App
from epochal.shipping.client import HubClient
from tests.server.live import Server, serving_app


@contextlib.contextmanager
def serving_hub(
    hub: Path | HubRuns,
    ledger: Ledger,
    *,
    admission: Admission | None = None,
    clock: Callable[[], float] | None = None,
) -> Iterator[Server]:
    """A hub over a folder, or over these runs, in a thread of this process."""
    runs = FolderRuns(hub) if isinstance(hub, Path) else hub

    def create(port: int) -> App:
        url = f"http://127.0.0.1:{port}"
        address = ServerAddress(url, "127.0.0.1", port, None, names=LOOPBACK)
        return create_hub(runs, ledger, address, admission=admission, clock=clock)

    with serving_app(create) as server:
        yield server


class HubProcess:
    """``epochal hub`` over a folder; it can be killed and started again on the same port."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        self._options = options
        root.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(Ledger(root)) as ledger:
            self.token = ledger.add_token("machine", "write")
        self.port = 0
        self.output: list[str] = []  # complete when it has ended
        self._clients: list[HubClient] = []
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        scheme = "https" if "--tls-cert" in self._options else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def client(self, token: str | None = None) -> HubClient:
        client = HubClient(self.url, self.token if token is None else token, timeout_s=120)
        self._clients.append(client)
        return client

    def start(self) -> None:
        self._began = len(self.output)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "epochal", "hub", "serve", str(self.root)),
                *("--port", str(self.port), *self._options),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            if line.startswith(("http://", "https://")):
                self.port = int(line.strip().rstrip("/").rpartition(":")[2])
                return
        raise AssertionError("the hub did not start")

    def read_until(self, text: str) -> None:
        """Read what it prints until a line that has this text; it may have come before the URL."""
        assert self._process is not None
        if any(text in line for line in self.output[self._began :]):
            return
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            if text in line:
                return
        raise AssertionError(f"the hub did not say {text!r}: {self.output}")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(120)
            assert self._process.stdout is not None
            self.output += self._process.stdout
            self._process.stdout.close()
            self._process = None
