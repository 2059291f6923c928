"""People stop, suspend and continue trainings through a hub; others cannot."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import Popen

import pytest

import epochal
from epochal.cli.main import main
from epochal.hub.documents import FolderDocuments
from epochal.hub.endpoints import HubControls
from epochal.hub.ledger import Ledger, Links
from epochal.journal.layout import RunFolder
from epochal.server.access import Principal
from epochal.shipping.client import HubError
from epochal.shipping.protocol import CONTROL_EXPIRES_S, ControlOutcome
from epochal.shipping.worker import ship_now
from epochal.store.local.catalog import folder_store
from tests.doubles.scripts import start_script
from tests.hub.hub_process import HubProcess
from tests.hub.test_access import id_of, refused, token
from tests.hub.test_shipping import record, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")
TRAINS = """
run = start(companion=True)
print(flush=True)
for step in range(10**9):
    run.log({"loss": 1.0}, step=step)
    time.sleep(0.05)
"""
SAVES = """
import torch
from epochal import Checkpoints, TrainingState
torch.set_num_threads(1)
run = start(companion=True)
with Checkpoints(run, TrainingState(torch.nn.Linear(1, 1))) as checkpoints:
    print(flush=True)
    for step in range(10**9):
        run.log({"loss": 1.0}, step=step)
        time.sleep(0.05)
        checkpoints.step(step)
"""
WRITER = Principal("someone", "write")


@contextmanager
def shipped_training(
    hub: HubProcess,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str = TRAINS,
    *,
    url: str | None = None,
) -> Iterator[Popen[str]]:
    monkeypatch.setenv("EPOCHAL_HUB", url or hub.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    with start_script(root, source) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            wait_until(lambda: hub.client().get_json("/api/runs")["total"] == 1)
            yield process
        finally:
            process.kill()


@pytest.fixture
def controlling(tmp_path: Path) -> Iterator[HubProcess]:
    process = HubProcess(tmp_path / "hub", "--allow-control")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub that allows control, with the projects p and q, a run in each."""
    folder = tmp_path_factory.mktemp("team")
    hub = HubProcess(folder / "hub", "--allow-control")
    client = hub.client()
    live = []
    for project, name in (("q", "secret"), ("p", "open")):
        run = epochal.init(project, name, dir=folder / "runs", companion=False, console=False)
        run.log({"loss": 1.0}, step=1)
        run.flush()
        ship_now(RunFolder(run.dir), client)
        live.append(run)
    ship_now(record(folder / "runs", "ended", project="p"), client)
    yield hub
    hub.stop()
    for run in live:
        run.finish()


def events(root: Path, name: str) -> list[dict[str, object]]:
    view = folder_store(root).run("run")
    return [dict(e.record) for e in view.entries("event", rank=None) if e.record["name"] == name]


def test_a_training_is_suspended_continued_and_stopped_from_elsewhere(
    controlling: HubProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EPOCHAL_CONTROL", "1")
    runs = tmp_path / "runs"
    stop = ["--dir", str(tmp_path / "elsewhere"), "stop", "run", "--hub", controlling.url]
    with shipped_training(controlling, runs, monkeypatch) as process:
        assert main([*stop, "--pause", "--wait", "60s"]) == 0
        wait_until(lambda: folder_store(runs).run("run").status.text == "suspended")
        assert main([*stop, "--continue", "--wait", "60s"]) == 0
        wait_until(lambda: folder_store(runs).run("run").status.text == "running")
        # Without Checkpoints the signal would end the training: it is not sent.
        assert main([*stop, "--checkpoint", "--wait", "60s"]) == 2
        assert "has no Checkpoints" in capsys.readouterr().out
        assert process.poll() is None
        assert main([*stop, "--wait", "60s"]) == 0
        assert process.wait(timeout=120) != 0
    assert f"SIGTERM to process {process.pid}" in capsys.readouterr().out
    asked = events(runs, "control-request")
    assert [one["action"] for one in asked] == ["suspend", "continue", "checkpoint", "stop"]
    assert {one["who"] for one in asked} == {"machine"}
    done = [one["is_done"] for one in events(runs, "control-outcome")]
    assert done == [True, True, False, True]
    there = controlling.root
    wait_until(lambda: len(events(there, "control-outcome")) == 4)  # and so on the hub
    ledger = Ledger(there)
    noted = [row["what"] for row in ledger.audit() if row["what"].startswith("control")]
    ledger.close()
    assert noted.count("control outcome") == 4
    assert "control stop" in noted


def test_a_training_with_checkpoints_saves_and_goes_on(
    controlling: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_CONTROL", "1")
    runs = tmp_path / "runs"
    with shipped_training(controlling, runs, monkeypatch, SAVES) as process:
        asked = ["stop", "run", "--checkpoint", "--wait", "60s", "--hub"]  # of EPOCHAL_HUB
        assert main(asked) == 0
        wait_until(lambda: bool(events(runs, "checkpoint")))
        assert process.poll() is None


def test_a_training_that_does_not_allow_it_is_left_alone(
    controlling: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shipped_training(controlling, tmp_path / "runs", monkeypatch) as process:
        assert main(["stop", "run", "--hub", controlling.url, "--wait", "4s"]) == 2
        assert process.poll() is None
    run_id = id_of(controlling, "run")
    found = controlling.client().get_json(f"/api/runs/{run_id}/control")
    assert (found["listens"], found["requests"][0]["state"]) == (False, "waiting")


def test_a_hub_without_the_option_refuses(hub: HubProcess, tmp_path: Path) -> None:
    client = hub.client()
    ship_now(record(tmp_path / "runs"), client)
    run_id = id_of(hub, "a")
    assert client.get_json(f"/api/runs/{run_id}/control")["allowed"] is False
    with pytest.raises(HubError, match="without --allow-control"):
        client.ask(run_id, "stop")
    assert refused(lambda: client.take_requests(run_id)) == 403


def test_a_run_that_has_ended_takes_no_request(team: HubProcess) -> None:
    with pytest.raises(HubError, match="has ended: it is finished"):
        team.client().ask(id_of(team, "ended"), "stop")


def test_a_link_does_not_show_who_asked(team: HubProcess) -> None:
    run_id = id_of(team, "open")
    team.client().ask(run_id, "continue")
    link = Links(FolderDocuments(team.root)).make([run_id], until=time.time() + 60)
    assert team.client(link).get_json(f"/api/runs/{run_id}/control")["requests"] == []
    assert [one.action for one in team.client().take_requests(run_id)] == ["continue"]


def test_a_reader_and_a_link_control_nothing(team: HubProcess) -> None:
    run_id = id_of(team, "open")
    link = Links(FolderDocuments(team.root)).make([run_id], until=time.time() + 60)
    for who in (token(team, "read"), token(team, "read", "p"), link):
        client = team.client(who)
        assert client.get_json(f"/api/runs/{run_id}/control")["allowed"] is False
        assert refused(lambda client=client: client.ask(run_id, "stop")) == 403
        assert refused(lambda client=client: client.take_requests(run_id)) == 403
    assert team.client().take_requests(run_id) == []


def test_a_writer_of_another_project_controls_nothing(team: HubProcess) -> None:
    client, secret = team.client(token(team, "write", "p")), id_of(team, "secret")
    asked = team.client().ask(secret, "stop")
    assert refused(lambda: client.ask(secret, "stop")) == 404
    assert refused(lambda: client.get_json(f"/api/runs/{secret}/control")) == 404
    assert refused(lambda: client.take_requests(secret)) == 404
    said = ControlOutcome("done", True)
    assert refused(lambda: client.report_outcome(secret, asked["id"], said)) == 404
    # Neither under the id of a run of one's own.
    mine = id_of(team, "open")
    assert client.take_requests(mine) == []
    with pytest.raises(HubError, match="no such request"):
        client.report_outcome(mine, asked["id"], said)
    state = team.client().asked(secret, asked["id"])
    assert state is not None
    assert state["state"] == "waiting"


@pytest.mark.parametrize("run_id", ["nobody", "../secret", "%2e%2e", "x' or 1=1 --"])
def test_an_invented_run_has_no_requests(team: HubProcess, run_id: str) -> None:
    client = team.client()
    assert refused(lambda: client.ask(run_id, "stop")) in (400, 404)
    assert refused(lambda: client.take_requests(run_id)) in (400, 404)


@pytest.mark.parametrize("action", ["kill", "", "rm -rf", None, 7])
def test_other_actions_are_refused(team: HubProcess, action: object) -> None:
    client, run_id = team.client(), id_of(team, "open")
    assert refused(lambda: client.ask(run_id, action)) == 400  # type: ignore[arg-type]


def test_a_page_of_another_site_controls_nothing(team: HubProcess) -> None:
    run_id, headers = id_of(team, "open"), {"origin": "https://other.example"}
    for sent in (headers, {"sec-fetch-site": "cross-site"}, {"content-type": "text/plain"}):
        with pytest.raises(HubError) as error:
            team.client().request(
                "POST", f"/api/runs/{run_id}/control", body=b'{"action":"stop"}', headers=sent
            )
        assert error.value.status in (403, 415)


def test_a_request_is_handed_out_once(team: HubProcess) -> None:
    client, run_id = team.client(), id_of(team, "open")
    asked = client.ask(run_id, "suspend")
    assert client.ask(run_id, "suspend")["id"] == asked["id"]  # it waits already
    assert [one.id for one in client.take_requests(run_id)] == [asked["id"]]
    assert client.take_requests(run_id) == []
    client.report_outcome(run_id, asked["id"], ControlOutcome("suspended", True))
    with pytest.raises(HubError, match="no such request"):
        client.report_outcome(run_id, asked["id"], ControlOutcome("not suspended", False))


def test_a_taker_gets_a_request_until_it_has_reported(team: HubProcess) -> None:
    client, run_id = team.client(), id_of(team, "open")
    asked = client.ask(run_id, "checkpoint")["id"]
    for _ in range(2):
        assert [one.id for one in client.take_requests(run_id, taker="one")] == [asked]
        assert client.take_requests(run_id, taker="two") == []  # the companion of a later attempt
    client.report_outcome(run_id, asked, ControlOutcome("saved", True))
    assert client.take_requests(run_id, taker="one") == []
    assert refused(lambda: client.take_requests(run_id, taker="' or 1=1 --")) == 400


class LosingProxy(threading.Thread):
    """Passes connections on to a port; the first answers with some bytes in them are lost."""

    def __init__(self, port: int, lost: bytes, num: int) -> None:
        super().__init__(daemon=True)
        self._to, self._lost, self.num_left = port, lost, num
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.num_left and self._lost in data:
                    self.num_left -= 1
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.mark.parametrize("lost", [b'"action":"suspend"', b'"outcome":"suspended'])
def test_a_request_survives_connections_that_end_within_it(
    controlling: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bytes
) -> None:
    monkeypatch.setenv("EPOCHAL_CONTROL", "1")
    runs = tmp_path / "runs"
    with (
        contextlib.closing(LosingProxy(controlling.port, lost, num=3)) as proxy,
        shipped_training(controlling, runs, monkeypatch, url=proxy.url) as process,
    ):
        client, run_id = controlling.client(), id_of(controlling, "run")
        asked = client.ask(run_id, "suspend")["id"]

        def is_done() -> bool:
            request = client.asked(run_id, asked)
            return request is not None and request["state"] == "done"

        wait_until(is_done)
        assert proxy.num_left == 0
        os.kill(process.pid, signal.SIGCONT)
    assert len(events(runs, "control-request")) == 1


def test_an_old_request_is_void(tmp_path: Path) -> None:
    ledger, now = Ledger(tmp_path), 1_000_000.0
    controls = HubControls(ledger, is_allowed=True, clock=lambda: now)
    controls.ask("run-1", "stop", WRITER)
    now += CONTROL_EXPIRES_S + 1
    assert controls.take("run-1") == []
    assert controls.of("run-1", WRITER).requests[0].state == "expired"
    controls.ask("run-1", "stop", WRITER)  # a new one is not mistaken for it
    assert [one.age_s for one in controls.take("run-1")] == [0.0]
    ledger.close()


class Replaying(BaseHTTPRequestHandler):
    """A hub that hands out the same requests again and again, one of them a week old."""

    num_asked = 0

    def do_POST(self) -> None:
        if "/control/take?by=" not in self.path:
            self.do_PUT()
            return
        Replaying.num_asked += 1
        asked = {"who": "x", "t": 1.0}
        old = {"id": "old", "action": "stop", "age_s": 7 * 86400.0, **asked}
        new = {"id": "new", "action": "suspend", "age_s": 1.0, **asked}
        odd = {"id": "odd", "action": "erase", "age_s": 1.0, **asked}
        self.answer(200, {"requests": [old, new, odd]})

    def do_PUT(self) -> None:
        self.answer(404, {"error": "not here."})

    def answer(self, status: int, value: object) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_a_companion_obeys_no_old_request_and_none_twice(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replaying)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with start_script(tmp_path, TRAINS, EPOCHAL_HUB=url, EPOCHAL_CONTROL="1") as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            wait_until(lambda: len(events(tmp_path, "control-outcome")) == 3)
            assert main(["--dir", str(tmp_path), "stop", "run", "--continue"]) == 0
            asked = Replaying.num_asked
            wait_until(lambda: Replaying.num_asked >= asked + 3)
            assert folder_store(tmp_path).run("run").status.text == "running"
            said = {one["request"]: one["is_done"] for one in events(tmp_path, "control-outcome")}
            assert said == {"old": False, "new": True, "odd": False}
            assert len(events(tmp_path, "control-request")) == 3
        finally:
            process.kill()
            server.shutdown()
            server.server_close()


def test_a_local_training_saves_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_script(tmp_path, SAVES) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            where = ["--dir", str(tmp_path)]
            assert main([*where, "stop", "run", "--checkpoint", "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["signal"] == "SIGUSR1"
            wait_until(lambda: bool(events(tmp_path, "checkpoint")))
            assert process.poll() is None
        finally:
            process.kill()


def test_kill_works_on_the_machine_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "run", "--kill", "-y", "--hub", "http://127.0.0.1:1"]) == 2
    assert "only on the run's machine" in capsys.readouterr().err
