"""Shipping when the way between machine and hub, or one of both, is not as it was."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

import epochal
from epochal.errors import MetricNotFoundError
from epochal.journal.layout import RunFolder
from epochal.shipping.client import HubClient
from epochal.shipping.fetching import fetch_run
from epochal.shipping.shipper import BandwidthLimit, Shipper
from epochal.shipping.worker import ShippingWorker, ship_now
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import journal, record, wait_until

# Real processes of a hub; `tests/hub/test_inbox.py` and `test_access.py` are quick.
pytestmark = pytest.mark.slow


def test_a_hub_restored_from_a_backup_gets_what_a_live_companion_has(
    hub: HubProcess, tmp_path: Path
) -> None:
    run = epochal.init("p", "a", dir=tmp_path / "runs", companion=False, console=False)
    run.log({"loss": 0.0}, step=0)
    folder, there = RunFolder(run.dir), hub.root / "p" / "a"
    worker = ShippingWorker(folder, hub.client())
    worker.start()
    wait_until(lambda: worker.num_lines > 0)
    shutil.copytree(there, tmp_path / "backup")
    for step in range(1, 50):
        run.log({"loss": float(step)}, step=step)
    wait_until(lambda: worker.num_lines > 40)
    shutil.rmtree(there)  # under the running hub
    shutil.copytree(tmp_path / "backup", there)
    for step in range(50, 60):
        run.log({"loss": float(step)}, step=step)
    run.finish()
    worker.finish()
    assert worker.join(120)
    assert worker.is_complete
    assert journal(RunFolder(there)) == journal(folder)


def test_a_companion_asks_at_the_end_whether_the_hub_still_has_everything(
    hub: HubProcess, tmp_path: Path
) -> None:
    folder, there = record(tmp_path / "runs"), hub.root / "p" / "a"
    worker = ShippingWorker(folder, hub.client())
    worker.start()
    wait_until(lambda: worker.is_complete)
    (part,) = (there / "journal").iterdir()
    lines = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:20]))  # an older copy, and nothing new is written
    worker.finish()
    assert worker.join(120)
    assert worker.is_complete
    assert journal(RunFolder(there)) == journal(folder)


def test_a_laptop_that_slept_for_a_week_goes_on_where_it_was(
    hub: HubProcess, tmp_path: Path
) -> None:
    run = epochal.init("p", "a", dir=tmp_path / "runs", companion=False, console=False)
    run.log({"loss": 0.0}, step=0)
    now = [1000.0]
    folder = RunFolder(run.dir)
    shipper = Shipper(folder, hub.client(), clock=lambda: now[0])
    shipper.ship()
    sent = shipper.num_lines
    hub.kill()  # the connection is dead when the lid is opened, and the clock has jumped
    hub.start()
    now[0] += 7 * 86_400
    run.log({"loss": 1.0}, step=1)
    while not shipper.ship():
        pass
    assert shipper.num_lines == sent + 1
    now[0] -= 30 * 86_400  # the clock was set right
    run.finish()
    while not shipper.ship():
        pass
    assert journal(RunFolder(hub.root / "p" / "a")) == journal(folder)


TRAINING = """
import sys
import epochal
run = epochal.init("p", "asleep", dir=sys.argv[1], console=False, companion=True)
for step in range(20):
    run.log({"loss": float(step)}, step=step)
sys.stdin.readline()  # here it is suspended
for step in range(20, 40):
    run.log({"loss": float(step)}, step=step)
run.finish()
"""


def test_a_training_and_its_companion_that_were_asleep_go_on(
    hub: HubProcess, tmp_path: Path
) -> None:
    environ = {**os.environ, "EPOCHAL_HUB": hub.url, "EPOCHAL_HUB_TOKEN": hub.token}
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(tmp_path / "runs")],
        env={**environ, "EPOCHAL_GRACE": "60"},
        stdin=subprocess.PIPE,
        text=True,
    )
    there = hub.root / "p" / "asleep" / "journal"
    wait_until(lambda: there.is_dir() and any(there.iterdir()))
    asleep = [psutil.Process(training.pid), *psutil.Process(training.pid).children(recursive=True)]
    assert len(asleep) > 1  # the companion too
    for one in asleep:
        one.suspend()
    hub.kill()  # what they were connected to is gone when they wake
    hub.start()
    for one in asleep:
        one.resume()
    training.communicate("\n", timeout=120)
    assert training.returncode == 0

    def steps() -> int:
        try:
            return len(epochal.open(hub.root).run("asleep").series("loss"))
        except MetricNotFoundError:
            return 0

    wait_until(lambda: steps() == 40)


def test_a_rate_is_kept_on_average(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs", steps=400)
    num_bytes = sum(map(len, journal(folder).values()))
    slept: list[float] = []
    limit = BandwidthLimit(1000.0, clock=lambda: sum(slept), sleep=slept.append)
    shipper = Shipper(folder, hub.client(), limit=limit)
    while not shipper.ship():
        pass
    limit.wait(0)
    assert sum(slept) >= num_bytes / 1000.0


def test_the_rate_of_the_settings_slows_the_companion_down(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB", hub.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    monkeypatch.setenv("EPOCHAL_GRACE", "1")
    monkeypatch.setenv("EPOCHAL_HUB_RATE", "1")  # a byte a second: the second batch never comes
    run = epochal.init("p", "slow", dir=tmp_path / "runs", console=False, companion=True)
    run.log({"loss": 0.0}, step=0)
    there = hub.root / "p" / "slow" / "journal"
    wait_until(lambda: there.is_dir() and any(there.iterdir()))
    first = sum(path.stat().st_size for path in there.iterdir())
    for step in range(1, 100):
        run.log({"loss": 1.0}, step=step)
    run.finish()
    assert sum(path.stat().st_size for path in there.iterdir()) == first


class NewerHub(http.server.BaseHTTPRequestHandler):
    """Forwards to a hub; adds unknown keys to each JSON object, as another version would."""

    port = 0
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {k: v for k, v in self.headers.items() if k.lower() != "content-length"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(self.command, self.path, body=_newer(body), headers=headers)
        response = connection.getresponse()
        answer = _newer(response.read())
        connection.close()
        self.send_response(response.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST = _forward  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        pass


def _newer(body: bytes) -> bytes:
    try:
        value = json.loads(body)
    except ValueError:
        return body
    if not isinstance(value, dict):
        return body
    for part in value.get("parts", {}).values():
        part["newer"] = 1
    # What an older side does not send, and what a newer side adds.
    value.pop("live", None)
    return json.dumps({**value, "newer": {"a": [1]}}).encode()


def test_either_side_may_be_of_another_version(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    handler = type("Handler", (NewerHub,), {"port": hub.port})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = HubClient(f"http://127.0.0.1:{server.server_port}", hub.token)
    try:
        ship_now(folder, client)
        run_id = epochal.load(folder.path).info.id
        back = fetch_run(client, run_id, tmp_path / "back")
    finally:
        client.close()
        server.shutdown()
        server.server_close()
    assert journal(RunFolder(hub.root / "p" / "a")) == journal(folder) == journal(back)
