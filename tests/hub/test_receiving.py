"""What hubs receive, and the threads in which they do."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import pytest

from epochal.hub.ledger import Ledger
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.worker import ship_now
from tests.doubles.hub_in_process import HubInProcess
from tests.hub.hub_process import serving_hub
from tests.hub.test_shipping import record

WAIT_S = 60.0


def receiving_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("epochal-receive")}


def test_a_hub_that_stops_ends_the_threads_that_receive(tmp_path: Path) -> None:
    before = receiving_threads()
    with contextlib.closing(Ledger(tmp_path / "hub")) as ledger:
        token = ledger.add_token("machine", "write")
        with serving_hub(tmp_path / "hub", ledger) as server:
            client = HubClient(f"http://127.0.0.1:{server.port}", token)
            with contextlib.closing(client):
                ship_now(record(tmp_path / "runs"), client)
            threads = receiving_threads() - before
            assert threads
        for thread in threads:
            thread.join(WAIT_S)
        assert not any(thread.is_alive() for thread in threads)


def test_an_id_stays_in_its_project_also_when_its_run_was_erased(tmp_path: Path) -> None:
    identity = {"id": "one", "name": "a", "project": "p"}
    with contextlib.closing(HubInProcess(tmp_path)) as client:
        client.register("one", identity)
        client.ledger.note_removed("one", "p")
    shutil.rmtree(tmp_path / "p")
    with contextlib.closing(HubInProcess(tmp_path)) as client:
        with pytest.raises(HubError, match="belongs to the project 'p'"):
            client.register("one", {**identity, "project": "q"})
        client.register("one", identity)
