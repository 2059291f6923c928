"""Reads event streams of a hub as pages do, in a process of its own: how old are values that come?

``python -m benchmarks.hub.watch URL TOKEN RUN …`` reads until its input ends, then prints the ages
in seconds as JSON. Records must say when they were written, by the clock of this machine.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit


class Watcher(threading.Thread):
    """Reads the event stream of a run, and notes how old each of its values is when it comes."""

    def __init__(self, url: str, token: str, run_id: str) -> None:
        super().__init__(daemon=True)
        self.ages_s: list[float] = []
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        query = urlencode({"run": run_id, "name": "train/metric_0"})
        headers = {"authorization": f"Bearer {token}"}
        self._connection.request("GET", f"/api/events?{query}", headers=headers)
        self._response = self._connection.getresponse()

    def run(self) -> None:
        """Read until it is closed."""
        event = b""
        with contextlib.suppress(OSError, AttributeError, ValueError, http.client.HTTPException):
            while line := self._response.readline():
                name, _, value = line.strip().partition(b": ")
                if name == b"event":
                    event = value
                elif name == b"data" and event == b"records":
                    now_s = time.time()
                    for points in json.loads(value)["points"]:
                        self.ages_s += [now_s - time_s for time_s in points["t"]]

    def close(self) -> None:
        """Read no more."""
        with contextlib.suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(5.0)
        self._connection.close()


class Watchers:
    """The process that reads the event streams of some runs."""

    def __init__(self, url: str, token: str, run_ids: Sequence[str]) -> None:
        self._num = len(run_ids)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hub.watch", url, token, *run_ids],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # every stream is open

    def close(self) -> str:
        """Read no more; how old the values were that came."""
        found = sorted(json.loads(self._process.communicate()[0]))
        return (
            f"{len(found):,} values on {self._num} event streams: median"
            f" {_quantile(found, 0.5):.2f} s old, 99 % {_quantile(found, 0.99):.2f}, oldest"
            f" {_quantile(found, 1.0):.2f}"
        )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


def main() -> int:
    """Read until the input ends."""
    url, token, *run_ids = sys.argv[1:]
    watchers = [Watcher(url, token, run_id) for run_id in run_ids]
    for watcher in watchers:
        watcher.start()
    print("ready", flush=True)
    sys.stdin.read()
    for watcher in watchers:
        watcher.close()
    print(json.dumps([age_s for watcher in watchers for age_s in watcher.ages_s]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
