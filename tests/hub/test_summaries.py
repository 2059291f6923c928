"""A run carries its answers to the hub: after its lines, checked there, and for that run alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epochal.errors import FormatError, UsageError
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.ledger import Ledger
from epochal.hub.summaries import checked_metrics, checked_summary
from epochal.journal.fold import RunMetrics
from epochal.journal.layout import PartName, RunFolder, write_json
from epochal.journal.row import Mark, RunRow
from epochal.journal.summaries import (
    fold_and_write,
    is_summarised,
    metrics_bytes,
    read_summary,
    summary_bytes,
)
from epochal.shipping.client import HubClient
from epochal.shipping.shipper import Shipper
from epochal.shipping.summaries import SummaryShipping
from epochal.shipping.worker import ship_now
from tests.hub.hub_process import serving_hub
from tests.hub.test_inbox import IDENTITY, STEM, lines
from tests.hub.test_shipping import record

SECRET = "hf_" + "a1" * 12


def row(**fields: Any) -> RunRow:
    return RunRow(**{"id": "one", "name": "mine", "project": "mine", **fields})


def mark(num_lines: int, *, part: int = 0) -> Mark:
    return Mark(part, num_lines, len(lines(0, num_lines)))


def body(**fields: Any) -> bytes:
    return summary_bytes(row(**fields))


def raw(**fields: Any) -> bytes:
    return msgspec.json.encode({"id": "one", "name": "a", "project": "p", "v": 2, **fields})


def test_a_folder_says_no_more_than_its_records(tmp_path: Path) -> None:
    inbox = FolderInbox(tmp_path)
    inbox.register("one", IDENTITY)
    inbox.append("one", STEM, first=0, lines=lines(0, 3))
    assert not inbox.put_summary("one", body(positions={STEM: mark(4)}))
    marks = {"loop.0001.0001": mark(1, part=1)}
    assert not inbox.put_metrics("one", metrics_bytes(RunMetrics(marks=marks)))
    assert not (tmp_path / "p" / "a" / "summary.json").exists()
    assert inbox.put_summary("one", body(positions={STEM: mark(3)}, step=2))
    stored = msgspec.json.decode((tmp_path / "p" / "a" / "summary.json").read_bytes())
    assert (stored["name"], stored["project"], stored["step"]) == ("a", "p", 2)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"{", "cannot be read"),
        (b"[" * 30_000, "cannot be read"),
        (raw(config=[]), "cannot be read"),
        (raw(v=3), "the version 3"),
        (raw(config={"text": "x" * 40_000}), "at most 32,768 bytes"),
        (raw(positions={"../../x": [0, 1, 1]}), "is no position"),
        (raw(positions={STEM: [0, 1, -1]}), "is no position"),
        (raw(positions={STEM: [1, 1, 1]}), "is no position"),
        (raw(headline=[{"name": "loss", "last_is": "much"}]), "neither a number nor infinite"),
    ],
)
def test_a_summary_that_no_reader_expects_is_refused(sent: bytes, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        checked_summary("one", sent)


def test_a_summary_never_speaks_for_another_run() -> None:
    with pytest.raises(UsageError, match="of the run 'one', not of 'two'"):
        checked_summary("two", raw())


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"null", "cannot be read"),
        (b'{"marks":{"x":[0,1,1]}}', "is no position"),
        (b'{"writers":[{"name":["../x",1,0]}]}', "which is no part"),
        (b'{"metrics":[{"name":"loss","first_is":"1"}]}', "neither a number nor infinite"),
        (b" " * ((8 << 20) + 1), "at most 8,388,608 bytes"),
    ],
)
def test_metrics_that_no_reader_expects_are_refused(sent: bytes, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        checked_metrics(sent)


def test_what_a_sender_says_is_redacted_again() -> None:
    checked = checked_summary(
        "one",
        raw(
            config={"password": "correct horse", "lr": 1},
            summary={"note": SECRET},
            diagnosis={
                "state": "broken",
                "causes": [{"rule": "r", "severity": "error", "sentence": f"not finite {SECRET}"}],
            },
            notes=SECRET,
            ending={"status": "failed", "reason": f"failed with {SECRET}"},
        ),
    )
    assert checked.config == {"password": "[redacted]", "lr": 1}
    assert SECRET not in summary_bytes(checked).decode()
    writer = {
        "name": ["loop", 1, 0],
        "config": {"api_key": "correct horse"},
        "header": {"log": "run", "notes": SECRET},
        "findings": {"a": {"log": "finding", "sentence": SECRET}},
        "finish": {"log": "finish", "reason": SECRET},
    }
    text = metrics_bytes(checked_metrics(msgspec.json.encode({"writers": [writer]}))).decode()
    assert SECRET not in text
    assert "correct horse" not in text


def test_what_only_a_reader_knows_is_dropped() -> None:
    sent = raw(hidden=True, tracker="x", folder="/etc", host="h", labels={"name": "x"})
    stored = msgspec.json.decode(summary_bytes(checked_summary("one", sent)))
    who = {"v": 2, "id": "one", "name": "a", "project": "p"}
    assert stored == {**who, "identity": None, "config": {}, "summary": {}, "positions": {}}


def written(folder: Path) -> RunFolder:
    run = RunFolder(folder)
    run.journal.mkdir(parents=True)
    write_json(run.identity, IDENTITY)
    run.part_path(PartName("loop", 1, 0)).write_bytes(lines(0, 3))
    return run


def append(folder: RunFolder, first: int, last: int) -> None:
    with open(folder.part_path(PartName("loop", 1, 0)), "ab") as file:
        file.write(lines(first, last))


def test_a_finished_run_is_summarised_on_the_hub(tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    fold_and_write(folder, most_bytes=1 << 20)
    assert is_summarised(folder)
    with contextlib.closing(Ledger(tmp_path / "hub")) as ledger:
        token = ledger.add_token("machine", "write")
        with serving_hub(tmp_path / "hub", ledger) as server:
            client = HubClient(f"http://127.0.0.1:{server.port}", token)
            with contextlib.closing(client):
                ship_now(folder, client)
    there = RunFolder(tmp_path / "hub" / "p" / "a")
    assert is_summarised(there)
    assert read_summary(str(there.path)) == read_summary(str(folder.path))
    assert there.metrics.read_bytes() == folder.metrics.read_bytes()


def test_a_live_run_sends_its_summary_now_and_then(tmp_path: Path) -> None:
    folder, now_s = written(tmp_path / "run"), [0.0]
    summary = tmp_path / "hub" / "p" / "a" / "summary.json"

    def step() -> int:
        return int(msgspec.json.decode(summary.read_bytes())["step"])

    with contextlib.closing(Ledger(tmp_path / "hub")) as ledger:
        token = ledger.add_token("machine", "write")
        with serving_hub(tmp_path / "hub", ledger) as server:
            client = HubClient(f"http://127.0.0.1:{server.port}", token)
            shipper = Shipper(folder, client, clock=lambda: now_s[0])
            with contextlib.closing(client):
                fold_and_write(folder, most_bytes=1 << 20)
                shipper.ship()
                assert step() == 2
                append(folder, 3, 5)
                fold_and_write(folder, most_bytes=1 << 20)
                shipper.ship()
                assert step() == 2
                now_s[0] += 16.0
                shipper.ship()
                assert step() == 4
                assert not summary.with_name("metrics.json").exists()


@contextlib.contextmanager
def older_hub() -> Iterator[tuple[str, list[str]]]:
    """A server that knows no path; its address, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            asked.append(self.path)
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_a_hub_that_takes_no_summaries_is_not_asked_again(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    fold_and_write(folder, most_bytes=1 << 20)
    with older_hub() as (url, asked):
        client = HubClient(url)
        with contextlib.closing(client):
            shipping = SummaryShipping(folder, client)
            for _ in range(3):
                shipping.forget()
                shipping.ship("one", lambda _marks: True)
    assert asked == ["/api/hub/runs/one/summary"]
