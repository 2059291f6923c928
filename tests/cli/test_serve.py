from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.store.journals import Journal


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@contextmanager
def served(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "epochal", "serve", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def url_said(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    assert process.stdout is not None
    before: list[str] = []
    for line in process.stdout:
        if line.startswith("http://"):
            return line.strip(), before
        before.append(line)
    raise AssertionError(f"no address was said: {before}")


def ask(url: str, path: str = "/", **headers: str) -> tuple[int, bytes]:
    match = re.match(r"http://([^/]+)(/.*)", url)
    assert match is not None
    with closing(http.client.HTTPConnection(match[1], timeout=120)) as connection:
        connection.request("GET", match[2] if path == "/" else path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()


def test_it_says_where_it_serves_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with served(str(tmp_path), "--port", "0") as process:
        url, before = url_said(process)
        assert str(tmp_path) in "".join(before)
        assert b'"id-x"' in ask(url, "/api/runs")[1]
        assert process.stdout is not None
        assert "ssh -N -L" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0
    assert errors == ""


def test_several_folders_are_one_list(tmp_path: Path) -> None:
    Journal(tmp_path / "one", "a").metrics(1, loss=1.0)
    Journal(tmp_path / "two", "b").metrics(1, loss=1.0)
    with served(str(tmp_path / "one"), str(tmp_path / "two"), "--port", "0") as process:
        listed = ask(url_said(process)[0], "/api/runs")[1]
    assert b'"id-a"' in listed
    assert b'"id-b"' in listed


def test_a_run_can_be_downloaded(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.5)
    with served(str(tmp_path), "--port", "0") as process:
        status, body = ask(url_said(process)[0], "/api/export?run=id-x")
    assert status == 200
    assert b"<title>x " in body


def test_the_default_folder_may_not_exist_yet(tmp_path: Path) -> None:
    with served("--dir", str(tmp_path / "runs"), "--port", "0") as process:
        url, before = url_said(process)
        assert "appear when it exists" in "".join(before)
        Journal(tmp_path / "runs").metrics(1, loss=1.0)
        while b'"id-x"' not in ask(url, "/api/runs")[1]:
            pass


def test_a_folder_that_was_named_must_exist(tmp_path: Path) -> None:
    with served(str(tmp_path / "nowhere")) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "there is no folder" in errors


def test_a_port_that_was_named_and_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with served(str(tmp_path), "--port", str(port)) as process:
            _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"port {port} is in use" in errors


def test_serving_the_same_folder_again_points_to_the_first(tmp_path: Path) -> None:
    with served(str(tmp_path), "--port", "0") as first:
        url, _ = url_said(first)
        port = url.rstrip("/").rpartition(":")[2]
        with served(str(tmp_path), "--port", port) as second:
            output, _ = second.communicate(timeout=120)
            assert second.returncode == 0
    assert url in output


def test_other_machines_need_the_token_that_is_said(tmp_path: Path) -> None:
    arguments = (str(tmp_path), "--port", "0", "--host", "0.0.0.0", "--token", "long-enough")
    with served(*arguments) as process:
        url, _ = url_said(process)
        port = re.search(r":(\d+)/", url)
        assert port is not None
        here = f"http://127.0.0.1:{port[1]}/"
        assert url.endswith("/?token=long-enough")
        assert ask(here)[0] == 401
        assert ask(here + "?token=long-enough")[0] == 303
        assert ask(here, Host="evil.example")[0] == 421


def test_a_token_is_said_once_and_never_again(tmp_path: Path) -> None:
    arguments = (str(tmp_path), "--port", "0", "--host", "127.0.0.2", "--token", "long-enough")
    with served(*arguments, "--allow-host", "lab.example") as process:
        url, _ = url_said(process)
        assert url.endswith("/?token=long-enough")
        here = url.partition("?")[0]
        assert ask(here, "/?token=long-enough")[0] == 303
        assert ask(here, "/nowhere?token=long-enough")[0] == 303
        assert ask(here, "/api/runs", Authorization="Bearer long-enough")[0] == 200
        assert ask(here, "/api/series", Authorization="Bearer long-enough")[0] == 400
        assert ask(here, "/api/runs", Host="lab.example")[0] == 401
        process.send_signal(signal.SIGINT)
        said = "".join(process.communicate(timeout=120))
    assert "long-enough" not in said


def test_a_token_from_a_file_is_on_no_command_line(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("from-a-file\nanything else\n")
    arguments = (str(tmp_path), "--port", "0", "--token-file", str(secret))
    with served(*arguments) as process:
        url, _ = url_said(process)
        assert url.endswith("/?token=from-a-file")
        assert ask(url.partition("?")[0])[0] == 401
        assert "from-a-file" not in Path(f"/proc/{process.pid}/cmdline").read_text()


@pytest.mark.parametrize("content", [None, "", "\nsecond line\n"])
def test_a_token_file_without_a_token_is_a_sentence(tmp_path: Path, content: str | None) -> None:
    secret = tmp_path / "token"
    if content is not None:
        secret.write_text(content)
    with served(str(tmp_path), "--token-file", str(secret)) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert said.startswith("epochal: --token-file: ")
