from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from epochal.api.serving import find_address
from epochal.errors import UsageError
from epochal.server.address import PortTakenError, folders_digest, names_of
from tests.conftest import StartRun
from tests.store.journals import Journal


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """The process beside a training, and what it said first."""
    command = [sys.executable, "-m", "epochal.api.serving", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def health(port: int) -> dict[str, object]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        assert response.getheader("server") is None
        found = json.loads(response.read())
        assert isinstance(found, dict)
        return found


def port_of(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


def test_it_says_its_address_when_it_is_ready(tmp_path: Path) -> None:
    with started(str(tmp_path), "--port", "0") as (process, said):
        assert said["url"].startswith("http://127.0.0.1:")
        found = health(port_of(said["url"]))
        assert found["folders"] == folders_digest([tmp_path])
        assert found["pid"] == process.pid


def test_a_second_one_for_the_same_folder_points_to_the_first(tmp_path: Path) -> None:
    with started(str(tmp_path), "--port", "0") as (_, first):
        port = str(port_of(first["url"]))
        with started(str(tmp_path), "--port", port) as (process, second):
            assert second["url"] == first["url"]
            assert process.wait(120) == 0


def test_another_folder_takes_the_next_port_and_says_so(tmp_path: Path) -> None:
    with started(str(tmp_path), "--port", "0") as (_, first):
        port = port_of(first["url"])
        (tmp_path / "other").mkdir()
        with started(str(tmp_path / "other"), "--port", str(port)) as (_, second):
            assert port_of(second["url"]) > port
            assert str(port) in second["note"]


def test_it_ends_a_while_after_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as parent:
        arguments = ("--port", "0", "--parent", str(parent.pid), "--linger", "0.1")
        with started(str(tmp_path), *arguments) as (process, said):
            assert health(port_of(said["url"]))
            parent.kill()
            parent.wait()
            assert process.wait(120) == 0


def test_open_streams_do_not_keep_it_from_stopping(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with started(str(tmp_path), "--port", "0") as (process, said):
        connection = http.client.HTTPConnection("127.0.0.1", port_of(said["url"]), timeout=120)
        with closing(connection):
            connection.request("GET", "/api/events?run=id-x")
            assert connection.getresponse().readline() == b"retry: 1000\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) in (0, -signal.SIGTERM)


def test_a_run_serves_an_address_that_opens_on_it(
    start_run: StartRun, capfd: pytest.CaptureFixture[str]
) -> None:
    with start_run("mine") as run:
        url = run.serve(0)
    assert url is not None
    assert url in capfd.readouterr().out
    page, _, view = url.partition("#")
    assert view == f"run={run.id}"
    pid = health(port_of(page))["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        ("EPOCHAL_GRACE", "soon", "EPOCHAL_GRACE"),
        ("PYTHONHOME", "/nowhere", "it ended, or was not ready within"),
    ],
)
def test_failing_to_start_is_a_sentence(
    start_run: StartRun,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    variable: str,
    text: str,
    why: str,
) -> None:
    run = start_run()
    monkeypatch.setenv(variable, text)
    assert run.serve() is None
    printed = capfd.readouterr().err
    assert printed.startswith(f"epochal: the live page could not be started: {why}")
    assert "Traceback" not in printed


def test_a_port_that_may_not_move_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=str(port)):
            find_address([tmp_path], port=port, may_move=False)


def test_another_host_gets_a_token(tmp_path: Path) -> None:
    server = find_address([tmp_path], port=0, host="0.0.0.0")
    assert server.listening is not None
    server.listening.close()
    assert server.token is not None
    assert len(server.token) >= 32
    assert server.token in server.url
    assert socket.gethostname().lower() in server.names


def test_this_machine_alone_needs_none(tmp_path: Path) -> None:
    server = find_address([tmp_path], port=0)
    assert server.listening is not None
    server.listening.close()
    assert server.token is None


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="token"):
        find_address([tmp_path], token="short")


def test_a_host_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="host="):
        find_address([tmp_path], host="192.0.2.1", port=0)


def test_an_address_goes_by_its_one_spelling() -> None:
    names = names_of("0:0:0:0:0:0:0:1", more=["Lab.Example", "[FE80::0001]"])
    assert {"::1", "lab.example", "fe80::1", "localhost"} <= names
