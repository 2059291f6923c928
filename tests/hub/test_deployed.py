"""What ``deploy/docker-compose.cluster.yml`` starts, started without containers.

Two hubs with the options of the Compose file over two ClickHouse servers, behind Caddy with its own
file. Names and ports are those of this machine.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import epochal
from benchmarks.hub.faults import await_port, free_port
from epochal.shipping.client import HubClient
from tests.hub.clickhouse import new_database
from tests.hub.hub_process import HubProcess
from tests.hub.test_deploy import DEPLOY, compose
from tests.hub.test_shipping import wait_until
from tests.server.live import WAIT_S, Event, events_of, until
from tools.clickhouse_shards import caddy

pytestmark = pytest.mark.slow
HOST = "localhost"
# What a test needs instead of certificates from outside and the ports 80 and 443.
GLOBAL = """{
	admin off
	auto_https disable_redirects
	skip_install_trust
	local_certs
	https_port %d
}
"""


def program() -> str:
    found = caddy()
    if found is None:
        pytest.skip("there is no Caddy: 'make test-hub' fetches it")
    return found


@dataclass
class Deployed:
    hubs: list[HubProcess]
    url: str
    token: str

    def client(self) -> HubClient:
        return HubClient(self.url, self.token, timeout_s=30)


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    store = str(new_database("two shards"))
    told = compose("docker-compose.cluster.yml")["services"]["hub-1"]["command"]
    assert told[:2] == ["hub", "/data"]
    given = {"--store": store, "--host": "127.0.0.1", "--allow-host": HOST, "--trust": "127.0.0.1"}
    options = []
    for name in told[2::2]:
        if name != "--port":
            options += [name, given.pop(name)]
    assert not given  # every option of the file was used
    with contextlib.ExitStack() as stack:
        hubs = [HubProcess(tmp_path / "hub-1", *options)]
        stack.callback(hubs[0].stop)
        hubs.append(HubProcess(tmp_path / "hub-2", *options, token=hubs[0].token))
        stack.callback(hubs[1].stop)
        port = stack.enter_context(started_caddy(tmp_path, hubs))
        root = tmp_path / "caddy/pki/authorities/local/root.crt"
        wait_until(root.is_file)
        monkeypatch.setenv("SSL_CERT_FILE", str(root))
        yield Deployed(hubs, f"https://{HOST}:{port}", hubs[0].token)


@contextlib.contextmanager
def started_caddy(place: Path, hubs: list[HubProcess]) -> Iterator[int]:
    """Caddy with the file of the cluster; the port of the page."""
    port, text = free_port(), (DEPLOY / "Caddyfile.cluster").read_text()
    for number, hub in enumerate(hubs, 1):
        text = text.replace(f"hub-{number}:6060", f"127.0.0.1:{hub.port}")
    (place / "Caddyfile").write_text(GLOBAL % port + text)
    environ = {**os.environ, "HUB_HOST": HOST, "HOME": str(place), "XDG_DATA_HOME": str(place)}
    with open(place / "caddy.log", "wb") as log:
        process = subprocess.Popen(
            [program(), "run", "--adapter", "caddyfile", "--config", str(place / "Caddyfile")],
            env=environ,
            stdout=log,
            stderr=log,
        )
    try:
        await_port(port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.mark.parametrize("name", ["Caddyfile", "Caddyfile.cluster"])
def test_caddy_accepts_the_files(tmp_path: Path, name: str) -> None:
    environ = {**os.environ, "HUB_HOST": "hub.example.org", "HOME": str(tmp_path)}
    command = [program(), "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / name)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_caddy_accepts_the_file_of_the_guide(tmp_path: Path) -> None:
    guide = (DEPLOY.parent / "docs/guides/hub.md").read_text()
    (text,) = re.findall(r"```\n(hub\.example\.org \{.*?)```", guide, re.DOTALL)
    (tmp_path / "Caddyfile").write_text(text)
    command = [program(), "validate", "--adapter", "caddyfile", "--config", "Caddyfile"]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_run_goes_through_the_proxy_and_on_when_a_hub_ends(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB", deployed.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", deployed.token)
    run = epochal.init("p", "x", dir=tmp_path / "runs", console=False, companion=True)
    run.log({"loss": 0.0}, step=0)
    with contextlib.closing(deployed.client()) as client:
        wait_until(lambda: client.get_json("/api/runs")["total"] == 1)
        with listening(deployed, run.id) as events:  # the proxy holds no event back
            until(events, "ready")
            run.log({"loss": 1.0}, step=1)
            seen: list[float] = []
            while 1.0 not in seen:
                for series in until(events, "records").data["points"]:
                    seen += series["value"]
        deployed.hubs[0].kill()
        for step in range(2, 50):
            run.log({"loss": float(step)}, step=step)
        run.finish()

        def is_whole() -> bool:
            rows = client.get_json("/api/runs")["rows"]
            return bool(rows) and rows[0]["status"]["state"] == "finished"

        wait_until(is_whole)
    with epochal.open(deployed.url, token=deployed.token) as runs:
        assert runs.run("x").series("loss").values.tolist() == [float(n) for n in range(50)]


@contextlib.contextmanager
def listening(deployed: Deployed, run_id: str) -> Iterator[Iterator[Event]]:
    port = int(deployed.url.rpartition(":")[2])
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection(HOST, port, timeout=WAIT_S, context=context)
    with contextlib.closing(connection):
        headers = {"Authorization": f"Bearer {deployed.token}"}
        connection.request("GET", f"/api/events?run={run_id}&name=loss", headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        yield events_of(response)
