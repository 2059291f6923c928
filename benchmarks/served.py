"""A server in a process of its own, and clients that read its streams as browsers do."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.tree import UTIME

_STEPS = re.compile(rb'"name":"loss","axis":"step","rank":0,"x":\[([^\]]*)\]')
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Server:
    """One that is ready to answer."""

    pid: int
    port: int

    def ask(
        self, path: str, query: Mapping[str, Any] | None = None, *, encoding: str = "identity"
    ) -> bytes:
        """The body of an answer as it was sent; ``encoding`` is what the client accepts."""
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request("GET", target, headers={"Accept-Encoding": encoding})
            response = connection.getresponse()
            body = response.read()
        assert response.status == 200, body[:200]
        return body

    @property
    def cpu_s(self) -> float:
        """User and system time that it has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[UTIME : UTIME + 2])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_mb(self) -> float:
        """Memory that is its own alone or shared, in MB."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert match is not None
        return int(match[1]) / 1000


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server over a folder of runs, from the start of its process until the end of the block."""
    command = [sys.executable, "-m", "epochal.api.serving", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Server(process.pid, urlsplit(said["url"]).port or 0)
        finally:
            process.terminate()
            process.wait()


class Listeners:
    """Many streams of one run, all read by one thread and kept as bytes until they are counted."""

    def __init__(self, server: Server, *, run: str, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._heard: list[bytearray] = []
        target = f"/api/events?{urlencode({'run': run, 'name': 'loss'})}"
        request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(request)
            client.setblocking(False)
            heard = bytearray()
            self._heard.append(heard)
            self._selector.register(client, selectors.EVENT_READ, heard)

    def __enter__(self) -> Listeners:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def listen(self, *, until: float) -> None:
        """Read what comes up to a time of ``time.perf_counter``."""
        while (left := until - time.perf_counter()) > 0:
            self._read(left)

    def wait_for(self, word: bytes, *, limit_s: float) -> float:
        """Read until every stream has said a word; the time when the last one had."""
        end = time.perf_counter() + limit_s
        while not all(word in heard for heard in self._heard):
            left = end - time.perf_counter()
            assert left > 0, f"{word!r} did not come within {limit_s} s"
            self._read(left)
        return time.perf_counter()

    def steps(self) -> list[list[int]]:
        """The steps that each stream has heard, in order."""
        return [
            [int(step) for found in _STEPS.findall(heard) for step in found.split(b",") if step]
            for heard in self._heard
        ]

    def _read(self, wait_s: float) -> None:
        for key, _ in self._selector.select(wait_s):
            assert isinstance(key.fileobj, socket.socket)
            chunk = key.fileobj.recv(_CHUNK)
            assert chunk, "the server ended a stream"
            key.data.extend(chunk)
