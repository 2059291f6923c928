"""The first look at a large run takes long: it delays whoever asks for it, and nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.series_body import decode_series
from epochal.server.reader import RUN_THREADS
from tests.server.live import WAIT_S, Answer, Server, serving, until, until_added
from tests.server.slow_store import SlowStore
from tests.store.journals import Journal


@dataclass
class Slow:
    """A server that reads the run ``large`` for as long as ``store.go_on`` is not set."""

    server: Server
    store: SlowStore
    small: Journal
    clients: ThreadPoolExecutor

    def ask(self, path: str, **query: Any) -> Future[Answer]:
        return self.clients.submit(lambda: self.server.ask(path, **query))


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    Journal(tmp_path, "large").metrics(1, loss=1.0)
    small = Journal(tmp_path, "small").metrics(1, loss=2.0)
    store = SlowStore(tmp_path, slow="id-large")
    with (
        ThreadPoolExecutor(4 * RUN_THREADS) as clients,
        serving(tmp_path, open_store=lambda: store) as server,
    ):
        try:
            yield Slow(server, store, small, clients)
        finally:
            store.go_on.set()


def test_everything_else_is_answered_while_one_run_is_read(slow: Slow) -> None:
    waiting = slow.ask("/api/runs/id-large")
    assert slow.store.reading.wait(WAIT_S)
    assert slow.server.ask("/healthz").status == 200
    assert slow.server.ask("/api/runs/id-small").json["row"]["name"] == "small"
    assert slow.server.ask("/api/series", run="id-small", name="loss").status == 200
    assert slow.server.ask("/api/runs/id-small/log").status == 200
    assert slow.server.patch("/api/runs/id-small/labels", {"name": "new"}).status == 200
    assert not waiting.done()
    slow.store.go_on.set()
    assert waiting.result(WAIT_S).json["row"]["name"] == "large"


def test_many_who_wait_for_one_run_do_not_use_up_the_threads(slow: Slow) -> None:
    waiting = [slow.ask("/api/runs/id-large/log") for _ in range(2 * RUN_THREADS)]
    assert slow.store.reading.wait(WAIT_S)
    assert slow.server.ask("/api/runs/id-small").status == 200
    assert not any(one.done() for one in waiting)
    slow.store.go_on.set()
    assert {one.result(WAIT_S).status for one in waiting} == {200}


def test_one_answer_about_two_runs_holds_neither_of_them_for_others(slow: Slow) -> None:
    waiting = slow.ask("/api/series", run=["id-small", "id-large"], name="loss")
    assert slow.store.reading.wait(WAIT_S)
    assert slow.server.ask("/api/series", run="id-small", name="loss").status == 200
    slow.store.go_on.set()
    _, series = decode_series(waiting.result(WAIT_S).body)
    assert [one.head["run"] for one in series] == ["id-small", "id-large"]


def test_streams_of_other_runs_go_on(slow: Slow, tmp_path: Path) -> None:
    with slow.server.listen(run="id-small") as events:
        until(events, "ready")
        waiting = slow.ask("/api/runs/id-large")
        assert slow.store.reading.wait(WAIT_S)
        slow.small.metrics(2, loss=3.0)
        assert until(events, "records").data["points"][0]["x"] == [2]
        Journal(tmp_path, "new").metrics(1, loss=1.0)
        assert until_added(events) == ["id-new"]
        slow.store.go_on.set()
        assert waiting.result(WAIT_S).status == 200


def test_a_stream_of_the_run_itself_joins_when_it_has_been_read(slow: Slow) -> None:
    def first() -> str | None:
        with slow.server.listen(run="id-large") as events:
            return until(events, "ready").id

    waiting = slow.clients.submit(first)
    assert slow.store.reading.wait(WAIT_S)
    with slow.server.listen(run="id-small") as events:
        until(events, "ready")
        slow.small.metrics(2, loss=3.0)
        until(events, "records")
    slow.store.go_on.set()
    assert waiting.result(WAIT_S) == "id-large:loop.1.0.1"


SERVED_SLOWLY = """
import sys
import threading
from pathlib import Path
from epochal.server.address import listen
from epochal.server.app import create_app
from epochal.server.process import run_server
from epochal.api.serving import write_archive
from tests.server.slow_store import SlowStore

store = SlowStore(Path(sys.argv[1]), slow="id-large")
threading.Thread(target=lambda: store.reading.wait() and print("reading", flush=True)).start()
listening = listen("127.0.0.1", 0)
print(listening.getsockname()[1], flush=True)
app = create_app(lambda: store, write_archive=write_archive)
run_server(app, listening, on_ready=lambda: print("ready", flush=True))
"""


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_read_in_progress_does_not_keep_the_server_from_ending(
    tmp_path: Path, stop: signal.Signals
) -> None:
    Journal(tmp_path, "large").metrics(1, loss=1.0)
    command = [sys.executable, "-c", SERVED_SLOWLY, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=os.getcwd()) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
        server = Server(port)

        def ask() -> None:
            with contextlib.suppress(OSError):  # the server ends
                server.ask("/api/runs/id-large")

        asking = threading.Thread(target=ask)
        asking.start()
        assert process.stdout.readline() == "reading\n"
        process.send_signal(stop)
        process.wait(WAIT_S)
        asking.join(WAIT_S)
