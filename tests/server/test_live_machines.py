"""Readings of the moment: from a companion's file to a stream, and never into a journal."""

from __future__ import annotations

import time
from pathlib import Path

from epochal.companion.telemetry_journal import LiveFile
from epochal.store.local.by_path import load_run
from tests.server.live import serving, until
from tests.store.journals import Journal


def live_file(journal: Journal, node: str = "here", *, age_s: float = 0.0) -> LiveFile:
    return LiveFile(journal.folder, node=node, rank=0, wall=lambda: time.time() - age_s)


def test_readings_reach_a_stream_that_asks_for_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    live = live_file(journal)
    with serving(tmp_path) as server, server.listen(run="id-x", live=1) as events:
        until(events, "ready")
        for power in (250_000, 310_000):
            live.see_gpu(0, {"power": power, "throttle": "power cap"})
            live.see_host({"cpu_pct": 12.5})
            live.write()
            (machine,) = until(events, "live").data["machines"]
            ((gpu,), system) = machine["gpus"], machine["system"]
            assert gpu.pop("t") <= system.pop("t") <= machine["t"]
            assert gpu == {"id": 0, "power": power, "throttle": "power cap"}
            assert system == {"cpu_pct": 12.5}
        live.close()
        assert until(events, "live").data == {"run": "id-x", "machines": []}


def test_a_stream_that_does_not_ask_hears_nothing_of_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    live_file(journal).write()
    with serving(tmp_path) as server, server.listen(run="id-x") as events:
        until(events, "ready")
        assert next(events).name == "status"
        journal.metrics(2, loss=0.5)
        assert next(events).name == "records"


def test_several_machines_come_by_rank_and_old_readings_do_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    for node, age_s in (("b", 0.0), ("a", 0.0), ("killed", 60.0)):
        live_file(journal, node, age_s=age_s).write()
    (journal.folder.live / "torn.json").write_bytes(b'{"t": 1')
    (journal.folder.live / "other.json").write_bytes(b'{"t": "now"}')
    assert [one.node for one in load_run(journal.folder.path).machines()] == ["a", "b"]


def test_what_is_no_longer_read_is_not_shown_as_of_now(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    now = [time.time() - 20.0]
    live = LiveFile(journal.folder, node="here", rank=0, wall=lambda: now[0])
    live.see_gpu(0, {"power": 1})
    live.see_host({"cpu_pct": 1.0})
    now[0] += 20.0
    live.see_gpu(1, {"power": 2})
    live.write()
    (machine,) = load_run(journal.folder.path).machines()
    assert [gpu["id"] for gpu in machine.gpus] == [1]
    assert machine.system == {}


def test_readings_do_not_make_a_run_look_changed(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    live_file(journal).write()  # the first one makes the folder
    run = load_run(journal.folder.path)
    _ = run.info
    before = run.source.signature
    live_file(journal).write()
    assert not run.refresh()
    assert run.source.signature == before
