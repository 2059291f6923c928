"""The files for proxies in the guide and in ``deploy/``, run by real proxies in front of a hub.

They need nginx, Caddy and openssl on PATH; a test whose program is missing is skipped.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import epochal
from benchmarks.hub.faults import await_port, free_port
from epochal.hub.ledger import Ledger
from epochal.shipping.client import HubClient
from epochal.shipping.protocol import compress
from epochal.shipping.worker import ship_now
from tests.hub.hub_process import HubProcess
from tests.hub.test_deploy import DEPLOY
from tests.hub.test_inbox import IDENTITY, STEM
from tests.hub.test_shipping import record, wait_until
from tests.server.live import WAIT_S, Event, events_of, until

pytestmark = pytest.mark.slow
HOST = "localhost"
# What a test needs instead of certificates from outside and the ports 80 and 443.
CADDY_GLOBAL = """{
	admin off
	auto_https disable_redirects
	skip_install_trust
	local_certs
	https_port %d
}
"""
# Everything that a system's own nginx.conf says around the server of the guide.
MAIN = """daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
%s
}
"""
PASSWORD = "hunter2"


@dataclass
class Deployed:
    """A hub behind a proxy, and how to reach it there."""

    hub: HubProcess
    url: str

    @property
    def token(self) -> str:
        return self.hub.token

    def client(self) -> HubClient:
        return HubClient(self.url, self.token, timeout_s=30)


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on PATH")
    return found


def blocks() -> list[str]:
    guide = (DEPLOY.parent / "docs/how-to/hub.md").read_text()
    return re.findall(r"```nginx\n(.*?)```", guide, re.DOTALL)


@contextlib.contextmanager
def in_front(hub: HubProcess, place: Path, *, signs_in: bool = False) -> Iterator[Deployed]:
    """nginx with the lines of the guide, and how to reach the hub through it."""
    server, people, machines = blocks()
    if signs_in:
        removes = '    proxy_set_header X-Forwarded-User "";\n'
        assert removes in server
        server = machines + server.replace(removes, people)
    port = free_port()
    for there, here in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "hub.example.org": HOST,
        "/etc/ssl/": f"{place}/",
        "/etc/nginx/": f"{place}/",
        "127.0.0.1:6060": f"127.0.0.1:{hub.port}",
    }.items():
        assert there in server or not signs_in
        server = server.replace(there, here)
    make_certificate(place)
    (place / "hub.htpasswd").write_text(f"alice:{{PLAIN}}{PASSWORD}\n")
    (place / "nginx.conf").write_text(MAIN % server)
    command = [program("nginx"), "-p", str(place), "-c", "nginx.conf", "-e", "error.log"]
    process = subprocess.Popen(command, cwd=place)
    try:
        await_port(port)
        yield Deployed(hub, f"https://{HOST}:{port}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def make_certificate(place: Path) -> None:
    subprocess.run(
        [
            *(program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
            *("-keyout", str(place / "hub.key"), "-out", str(place / "hub.crt")),
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program("nginx")
    folder = tmp_path / "nginx"
    folder.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "hub.crt"))
    return folder


@contextlib.contextmanager
def started(root: Path, *options: str) -> Iterator[HubProcess]:
    hub = HubProcess(root, "--allow-host", HOST, "--trust", "127.0.0.1", *options)
    try:
        yield hub
    finally:
        hub.stop()


@pytest.fixture
def deployed(tmp_path: Path, place: Path) -> Iterator[Deployed]:
    with started(tmp_path / "hub") as hub, in_front(hub, place) as deployed:
        yield deployed


@pytest.fixture
def client(deployed: Deployed) -> Iterator[HubClient]:
    with contextlib.closing(deployed.client()) as client:
        yield client


def asked(
    deployed: Deployed,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    sent: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer through nginx."""
    port = int(deployed.url.rpartition(":")[2])
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection(HOST, port, timeout=WAIT_S, context=context)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=dict(sent or {}))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return response.status, found, response.read()


def test_a_browser_gets_the_page_and_changes_labels(
    deployed: Deployed, client: HubClient, tmp_path: Path
) -> None:
    ship_now(record(tmp_path / "runs"), client)
    status, headers, _ = asked(deployed, f"/?token={deployed.token}")
    assert status == 303
    cookie = headers["set-cookie"]
    assert "; secure" in cookie.lower()  # a page without TLS never sends it
    seen = {"cookie": cookie.partition(";")[0]}
    status, headers, page = asked(deployed, "/", sent=seen)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"</html>" in page
    run = client.get_json("/api/runs")["rows"][0]["id"]
    change = {**seen, "content-type": "application/json", "sec-fetch-site": "same-origin"}
    labels = f"/api/runs/{run}/labels"
    for origin, expected in ((deployed.url, 200), ("https://elsewhere.example", 403)):
        sent = {**change, "origin": origin}
        status, _, _ = asked(deployed, labels, method="PATCH", body=b'{"notes":"x"}', sent=sent)
        assert status == expected


@contextlib.contextmanager
def behind_caddy(hub: HubProcess, place: Path) -> Iterator[Deployed]:
    """Caddy with the file of ``deploy/``, and how to reach the hub through it."""
    port, text = free_port(), (DEPLOY / "Caddyfile").read_text()
    text = text.replace("hub:6060", f"127.0.0.1:{hub.port}")
    (place / "Caddyfile").write_text(CADDY_GLOBAL % port + text)
    environ = {**os.environ, "HUB_HOST": HOST, "HOME": str(place), "XDG_DATA_HOME": str(place)}
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", "Caddyfile"]
    process = subprocess.Popen(command, cwd=place, env=environ)
    try:
        await_port(port)
        wait_until((place / "caddy/pki/authorities/local/root.crt").is_file)
        yield Deployed(hub, f"https://{HOST}:{port}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


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


def test_values_arrive_through_nginx_while_they_are_logged(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_live(deployed, tmp_path, monkeypatch)


def test_values_arrive_through_caddy_while_they_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("caddy")
    with started(tmp_path / "hub") as hub, behind_caddy(hub, tmp_path) as deployed:
        certificate = tmp_path / "caddy/pki/authorities/local/root.crt"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        check_live(deployed, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "place",
    [
        *("deploy/Caddyfile", "deploy/Caddyfile.company"),
        *("docs/how-to/hub.md", "docs/how-to/hub-company.md"),
    ],
)
def test_caddy_accepts_the_files(tmp_path: Path, place: str) -> None:
    text = (DEPLOY.parent / place).read_text()
    if place.endswith(".md"):
        (text,) = re.findall(r"```\n(hub\.example\.org \{.*?)```", text, re.DOTALL)
    (tmp_path / "Caddyfile").write_text(text)
    command = [program("caddy"), "validate", "--adapter", "caddyfile", "--config", "Caddyfile"]
    environ = {**os.environ, "HUB_HOST": "hub.example.org", "HOME": str(tmp_path)}
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def check_live(deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_HUB", deployed.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", deployed.token)
    run = epochal.init("p", "x", dir=tmp_path / "runs", console=False, companion=True)
    run.log({"loss": 0.0}, step=0)
    with contextlib.closing(deployed.client()) as client:
        wait_until(lambda: client.get_json("/api/runs")["total"] == 1)
        with listening(deployed, run.id) as events:  # one event, and none that pushes it out
            until(events, "ready")
            run.log({"loss": 1.0}, step=1)
            seen: list[float] = []
            while 1.0 not in seen:
                for series in until(events, "records").data["points"]:
                    seen += series["value"]
        deployed.hub.kill()  # the proxy answers 502 meanwhile
        run.log({"loss": 2.0}, step=2)
        run.finish()
        deployed.hub.start()
        wait_until(lambda: client.get_json("/api/runs")["rows"][0]["status"]["state"] == "finished")
    with epochal.open(deployed.url, token=deployed.token) as runs:
        assert runs.run("x").series("loss").values.tolist() == [0.0, 1.0, 2.0]


def test_a_large_batch_passes(client: HubClient) -> None:
    noise = base64.b64encode(os.urandom(3 << 20))
    lines = b'{"log":"text","t":1.5,"text":"%s"}\n' % noise
    client.register("one", IDENTITY)
    assert client.append("one", STEM, first=0, lines=lines * 3) == 3  # about 13 MB
    assert len(compress(lines * 3)) > 3 << 20


def test_nobody_names_a_person_but_the_proxy(tmp_path: Path, place: Path) -> None:
    options = ("--user-header", "X-Forwarded-User")
    claim = {"x-forwarded-user": "mallory"}
    with started(tmp_path / "hub", *options) as hub, in_front(hub, place) as deployed:
        assert asked(deployed, "/api/runs", sent=claim)[0] == 401


def test_people_sign_in_with_passwords_and_machines_with_tokens(
    tmp_path: Path, place: Path
) -> None:
    options = ("--user-header", "X-Forwarded-User", "--user-role", "write")
    with (
        started(tmp_path / "hub", *options) as hub,
        in_front(hub, place, signs_in=True) as deployed,
        contextlib.closing(deployed.client()) as client,
    ):
        ship_now(record(tmp_path / "runs"), client)
        run = client.get_json("/api/runs")["rows"][0]["id"]
        account = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
        wrong = base64.b64encode(b"alice:guess").decode()
        claim = {"x-forwarded-user": "mallory"}
        assert asked(deployed, "/api/runs", sent=claim)[0] == 401
        for guess in (f"Basic {wrong}", "Bearer ep_guess"):
            assert asked(deployed, "/api/runs", sent={**claim, "authorization": guess})[0] == 401
        sent = {"authorization": f"Basic {account}", "content-type": "application/json", **claim}
        labels = f"/api/runs/{run}/labels"
        status, _, _ = asked(deployed, labels, method="PATCH", body=b'{"notes":"x"}', sent=sent)
        assert status == 200
        with contextlib.closing(Ledger(hub.root)) as ledger:
            assert {row["who"] for row in ledger.audit()} == {"machine", "alice"}


def test_guesses_count_for_the_address_that_nginx_saw(deployed: Deployed) -> None:
    statuses = set()
    for guess in range(40):
        sent = {"authorization": f"Bearer ep_{guess}", "x-forwarded-for": f"10.0.0.{guess}"}
        statuses.add(asked(deployed, "/api/runs", sent=sent)[0])
    assert statuses == {401, 429}
