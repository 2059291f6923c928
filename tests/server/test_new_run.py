"""A run that was created a moment ago, while its folder is listed and read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from epochal.journal.layout import RunFolder, write_json
from epochal.store.local.catalog import folder_store
from tests.server.live import WAIT_S, serving
from tests.store.journals import Journal

IDENTITY = {"v": 1, "id": "id-x", "name": "x", "project": "p", "created": 1000.0}


def test_a_run_created_right_after_a_search_is_found(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for name in "abcdef":
            assert server.ask(f"/api/runs/id-{name}").status == 404
            Journal(tmp_path, name)
            assert server.ask(f"/api/runs/id-{name}").json["row"]["id"] == f"id-{name}"


def test_a_run_that_is_read_before_it_has_an_id_is_found_by_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "p" / "x")
    folder.journal.mkdir(parents=True)
    store = folder_store(tmp_path)
    with serving(tmp_path, open_store=lambda: store) as server, ThreadPoolExecutor(1) as client:
        assert server.ask("/api/runs/x").status == 200
        run = store.find("x")
        assert run is not None
        with run.lock:  # as by a thread that reads the run
            write_json(folder.identity, IDENTITY)
            waiting = client.submit(lambda: server.ask("/api/runs/id-x"))
            time.sleep(0.05)
        assert waiting.result(WAIT_S).status == 200
