from __future__ import annotations

import json
import math
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from epochal.journal.entries import Cursor
from epochal.server import streams, updates
from epochal.store.run import RunView
from tests.server.live import Event, Server, serving, until, until_added
from tests.store.journals import Journal


def points(event: Event, name: str = "loss") -> dict[float, float | None]:
    return {
        x: value
        for series in event.data["points"]
        if series["name"] == name
        for x, value in zip(series["x"], series["value"], strict=True)
    }


def collect(events: Iterator[Event], *, last: float) -> list[float]:
    """The steps of ``loss`` in the order they came, until one of them comes."""
    steps: list[float] = []
    while last not in steps:
        steps += points(until(events, "records"))
    return steps


def test_new_points_reach_a_stream(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x") as events:
        assert until(events, "ready").id == "id-x:loop.1.0.1"
        journal.metrics(2, loss=0.5, acc=0.1)
        event = until(events, "records")
    assert points(event) == {2: 0.5}
    assert points(event, "acc") == {2: 0.1}
    assert event.id == "id-x:loop.1.0.2"


def test_only_the_series_subscribed_to_come(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x", name=["loss", "gpu/*"]) as events:
        until(events, "ready")
        metrics = {"log": "metrics", "step": 2, "m": {"loss": 0.5, "acc": 0.1}}
        journal.add(metrics, {"log": "gpu", "id": 0, "power": 5})  # one write, one event
        found = [series["name"] for series in until(events, "records").data["points"]]
    assert found == ["loss", "gpu/0/power"]


def wide(step: int, count: int) -> dict[str, Any]:
    values = {f"layer.{number}/norm": step + 0.5 for number in range(count)}
    return {"log": "metrics", "step": step, "m": {"loss": 0.5, **values}}


def sent_of(server: Server, journal: Journal, record: dict[str, Any], **listen: Any) -> Event:
    """What a stream is sent of one record."""
    with server.listen(run=journal.id, **listen) as events:
        until(events, "ready")
        journal.add(record)
        return until(events, "records")


@pytest.mark.slow
def test_a_step_of_a_wide_run_costs_a_stream_no_more_than_that_of_another(
    tmp_path: Path, server: Server
) -> None:
    sizes = []
    for name, count in (("a", 10_000), ("b", 50_000)):
        journal = Journal(tmp_path, name).add(wide(1, count))
        event = sent_of(server, journal, wide(2, count))
        assert event.data["partial"]
        assert [series["name"] for series in event.data["points"]] == ["loss"]
        sizes.append(len(json.dumps(event.data)))
    assert max(sizes) < 500


def test_of_a_wide_run_the_series_that_are_named_are_sent(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add(wide(1, 5000))
    names = ["layer.7/norm", "nothing"]
    event = sent_of(server, journal, wide(2, 5000), name=names)
    assert points(event, "layer.7/norm") == {2: 2.5}
    assert len(event.data["points"]) == 1
    assert not event.data["partial"]
    event = sent_of(server, journal, wide(3, 5000), name=["layer.49*", "loss"])
    assert len(event.data["points"]) == 1 + 111
    assert not event.data["partial"]
    event = sent_of(server, journal, wide(4, 5000), name=["layer.*", "layer.7/norm"])
    assert points(event, "layer.7/norm") == {4: 4.5}
    assert event.data["partial"]


def test_many_small_records_of_many_series_are_wide_too(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MAX_SERIES", 3)
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x") as events:
        until(events, "ready")
        values = {"a": 1.0, "b": 2.0, "loss": 3.0}
        journal.add(*({"log": "metrics", "step": step, "m": values} for step in (2, 3)))
        few = until(events, "records")
        journal.add(*({"log": "metrics", "step": 4, "m": {name: 1.0}} for name in "abcdef"))
        many = until(events, "records")
    assert not few.data["partial"]
    assert many.data["partial"]


def test_a_client_that_missed_very_many_numbers_is_reset(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MAX_NUMBERS", 100)
    journal = Journal(tmp_path).metrics(1, loss=1.0).add(wide(2, 60), wide(3, 60))
    with server.listen(run=journal.id, since="id-x:loop.1.0.1") as events:
        assert until(events, "reset").data["reason"] == "behind"


def test_a_stream_resumes_without_a_duplicate_or_a_hole(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(0, loss=0.0)
    seen: list[float] = []
    position = "id-x:loop.1.0.1"
    for step in range(1, 6):
        journal.metrics(10 * step, loss=1.0).metrics(10 * step + 1, loss=1.0)
        with server.listen(run="id-x", headers={"Last-Event-ID": position}) as events:
            event = until(events, "records")
        assert event.id is not None
        seen += points(event)
        position = event.id
    assert seen == [x for step in range(1, 6) for x in (10 * step, 10 * step + 1)]


def test_a_position_outlives_the_server(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with serving(tmp_path) as first, first.listen(run="id-x") as events:
        position = until(events, "ready").id
    journal.metrics(2, loss=2.0)
    with serving(tmp_path) as second, second.listen(run="id-x", since=position) as events:
        assert points(until(events, "records")) == {2: 2.0}


def test_a_series_answer_and_a_stream_from_its_position_are_the_whole(
    tmp_path: Path, server: Server
) -> None:
    journal = Journal(tmp_path, "a").metrics(1, loss=1.0)
    other = Journal(tmp_path, "b").metrics(1, loss=1.0)
    detail = [server.ask(f"/api/runs/{one}").json["position"] for one in ("id-a", "id-b")]
    journal.metrics(2, loss=2.0)
    other.metrics(3, loss=3.0)
    with server.listen(run=["id-a", "id-b"], since=detail) as events:
        both = [until(events, "records") for _ in range(2)]
    assert [(event.data["run"], points(event)) for event in both] == [
        ("id-a", {2: 2.0}),
        ("id-b", {3: 3.0}),
    ]
    assert both[0].id == "id-a:loop.1.0.2;id-b:loop.1.0.1"


def test_two_streams_of_one_subscription_hear_the_same(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(0, loss=0.0)
    with server.listen(run="id-x") as one:
        until(one, "ready")
        journal.metrics(1, loss=1.0)
        with server.listen(run="id-x", since="id-x:loop.1.0.1") as two:
            journal.metrics(2, loss=2.0)
            assert collect(one, last=2) == [1, 2]
            assert collect(two, last=2) == [1, 2]


def test_nonfinite_points_are_named(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x") as events:
        until(events, "ready")
        journal.metrics(2, loss=math.inf)
        (series,) = until(events, "records").data["points"]
    assert series["value"] == [None]
    assert series["nonfinite"] == {"0": "inf"}


def test_entries_come_with_their_records(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x", kind="text") as events:
        until(events, "ready")
        journal.add({"log": "text", "step": 3, "name": "sample", "text": "once"})
        journal.add({"log": "message", "level": "msg", "text": "not asked for"})
        (entry,) = until(events, "records").data["entries"]
    assert (entry["kind"], entry["step"], entry["name"]) == ("text", 3, "sample")
    assert entry["record"]["text"] == "once"
    assert entry["position"] == "loop.1.0.2"


def test_a_huge_entry_is_announced_without_its_record(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x") as events:
        until(events, "ready")
        text = "x" * (updates.MAX_ENTRY_BYTES + 1)
        journal.add({"log": "text", "step": 3, "name": "sample", "text": text})
        (entry,) = until(events, "records").data["entries"]
    assert entry["record"] is None


def test_ranks_are_told_apart(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    journal.add({"log": "system", "cpu_pct": 1.0}, writer="telemetry-b")
    with server.listen(run="id-x", rank="all", since="id-x:loop.1.0.1") as events:
        journal.metrics(2, writer="rank-0003", loss=3.0)
        ranks: set[int] = set()
        while len(ranks) < 2:  # in one event, or in two
            ranks |= {series["rank"] for series in until(events, "records").data["points"]}
    assert ranks == {0, 3}


@pytest.mark.parametrize("since", ["id-x:loop.1.0.99", "id-x:loop.9.0.0", "id-x:nobody.1.0.0"])
def test_a_position_that_was_never_written_means_starting_anew(
    tmp_path: Path, server: Server, since: str
) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x", since=since) as events:
        event = until(events, "reset")
    assert event.data == {"run": "id-x", "reason": "unknown"}
    assert event.id == "id-x:loop.1.0.1"


def test_nonsense_for_a_position_means_starting_anew(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x", headers={"Last-Event-ID": "%%%;::"}) as events:
        assert until(events, "reset").data == {"run": None, "reason": "unknown"}


def test_being_far_behind_means_starting_anew(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MAX_RECORDS", 3)
    journal = Journal(tmp_path)
    for step in range(10):
        journal.metrics(step, loss=1.0)
    with server.listen(run="id-x", since="id-x:loop.1.0.1") as events:
        assert until(events, "reset").data == {"run": "id-x", "reason": "behind"}
        journal.metrics(11, loss=11.0)
        assert points(until(events, "records")) == {11: 11.0}


def test_a_resumed_run_means_starting_anew(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).metrics(2, loss=2.0)
    with server.listen(run="id-x") as events:
        until(events, "ready")
        journal.add({"log": "resume", "attempt": 2, "step": 2}, attempt=2)
        assert until(events, "reset").data == {"run": "id-x", "reason": "resumed"}
        journal.metrics(2, attempt=2, loss=5.0)
        assert points(until(events, "records")) == {2: 5.0}


@pytest.mark.slow
def test_the_list_tells_what_was_added_changed_and_removed(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path, "a").metrics(1, loss=1.0)
    with server.listen() as events:
        until(events, "ready")
        added = Journal(tmp_path, "b").metrics(1, loss=1.0)
        assert until_added(events) == ["id-b"]
        journal.finish()
        until(events, "runs", lambda data: ("id-a", "finished") in states(data["changed"]))
        shutil.rmtree(added.folder.path)
        assert until(events, "runs", lambda data: data["removed"]).data["removed"] == ["id-b"]


def states(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["id"], row["status"]["state"]) for row in rows]


def test_a_stream_joined_after_the_end_hears_that_it_ended(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish()
    with server.listen(run="id-x", since="id-x:") as events:
        assert points(next(events)) == {1: 1.0}
        assert until(events, "status").data["row"]["status"]["state"] == "finished"


def test_a_heartbeat_carries_the_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.1)
    Journal(tmp_path).metrics(1, loss=1.0)
    with serving(tmp_path) as server, server.listen(run="id-x") as events:
        assert until(events, "heartbeat").id == "id-x:loop.1.0.1"


def test_streams_that_left_are_forgotten(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x") as events:
        until(events, "ready")
        assert server.ask("/healthz").json["streams"] == 1
    while server.ask("/healthz").json["streams"]:
        pass


def test_a_stream_begins_with_how_soon_to_come_back(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while b"event: ready" not in received:
            received += client.recv(4096)
    assert b"retry: 1000\n" in received
    assert b"content-type: text/event-stream" in received


def test_a_run_that_is_not_there_is_said_to_be_gone(server: Server) -> None:
    with server.listen(run="nobody", since="nobody:loop.1.0.1") as events:
        assert until(events, "reset").data == {"run": "nobody", "reason": "gone"}


def test_a_run_that_cannot_be_read_does_not_silence_the_others(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Journal(tmp_path, "bad").metrics(1, loss=1.0)
    good = Journal(tmp_path, "good").metrics(1, loss=1.0)
    with server.listen(run=["id-bad", "id-good"]) as events:
        until(events, "ready")
        intact = updates.read_updates

        def fail_for_bad(
            run: RunView, run_id: str, since: Cursor, ranks: updates.WriterRanks
        ) -> updates.RunUpdates:
            if run_id == "id-bad":
                raise OSError("stale file handle")
            return intact(run, run_id, since, ranks)

        monkeypatch.setattr(streams, "read_updates", fail_for_bad)
        bad.metrics(2, loss=2.0)
        good.metrics(2, loss=2.0)
        assert until(events, "records").data["run"] == "id-good"
        monkeypatch.setattr(streams, "read_updates", intact)
        event = until(events, "records")
    assert (event.data["run"], points(event)) == ("id-bad", {2: 2.0})
    assert server.ask("/healthz").json["faults"] > 0


def test_streams_are_whole_while_others_read_the_same_runs(tmp_path: Path, server: Server) -> None:
    """Whoever asks reads on in a run too; no stream misses it or hears it twice."""
    journals = [Journal(tmp_path, name).metrics(0, loss=0.0) for name in ("a", "b")]
    last, stop = 300, threading.Event()

    def listen(names: Sequence[str]) -> list[tuple[str, float]]:
        heard: list[tuple[str, float]] = []
        begin = [f"{name}:loop.1.0.1" for name in names]
        with server.listen(run=names, since=begin) as events:
            while sum(step == last for _, step in heard) < len(names):
                event = until(events, "records")
                heard += [(event.data["run"], step) for step in points(event)]
        return heard

    def ask() -> None:
        while not stop.is_set():
            server.ask("/api/series", run=["id-a", "id-b"], name="loss")
            server.ask("/api/runs", query="step > 10")
            server.ask("/metrics")

    subscriptions = [["id-a"], ["id-b"], ["id-a", "id-b"], ["id-b", "id-a"]]
    with ThreadPoolExecutor(16) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        listening = []
        for step in range(1, last + 1):
            for journal in journals:
                journal.metrics(step, loss=float(step))
            if step % 50 == 1:  # some join while the runs grow
                listening += [(one, pool.submit(listen, one)) for one in subscriptions[:2]]
                subscriptions.append(subscriptions.pop(0))
        try:
            for names, heard in listening:
                steps = heard.result(120)
                for name in names:
                    assert [step for run, step in steps if run == name] == list(range(1, last + 1))
        finally:
            stop.set()
        for one in asking:
            one.result(60)
    assert server.ask("/healthz").json["faults"] == 0
