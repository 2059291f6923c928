"""Folders of another machine through ssh; an ``ssh`` of our own runs the command right here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main
from epochal.reading import Runs
from epochal.shipping.ssh import SshError, SshServer
from tests.hub.test_shipping import record

# Real processes of a hub; `tests/hub/test_inbox.py` and `test_access.py` are quick.
pytestmark = pytest.mark.slow

# What ssh does with these arguments, without a network: forward a port, run a shell command.
SSH = """#!{python}
import os, socket, subprocess, sys, threading
words = sys.argv[1:]
assert "BatchMode=yes" in words
here, there = words[words.index("-L") + 1].split(":")[1::2]
host, command = words[words.index("--") + 1 :]
if host == "refused":
    sys.stderr.write("ssh: connect to host refused port 22: Connection refused\\n")
    sys.exit(255)
if host == "bare":
    command = "PATH=/nowhere; " + command
open({log!r}, "a").write(command + "\\n")

def copy(one, two):
    while data := one.recv(65536):
        two.sendall(data)
    two.shutdown(socket.SHUT_WR)

def forward():
    with socket.create_server(("127.0.0.1", int(here))) as listening:
        while True:
            near, _ = listening.accept()
            try:
                far = socket.create_connection(("127.0.0.1", int(there)))
            except OSError:
                sys.stderr.write("channel 2: open failed: connect failed: Connection refused\\n")
                near.close()
                continue
            for pair in ((near, far), (far, near)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

threading.excepthook = lambda args: None
threading.Thread(target=forward, daemon=True).start()
sys.exit(subprocess.call(["/bin/sh", "-c", command]))
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs with ``ssh`` and ``epochal``, and the log of what was run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    log = tmp_path / "ssh.log"
    for name, text in (
        ("ssh", SSH.format(python=sys.executable, log=str(log))),
        ("epochal", f'#!/bin/sh\nexec {sys.executable} -m epochal "$@"\n'),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))
    return log


def test_a_folder_behind_ssh_is_read_like_one_here(
    ssh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "my runs", "a", steps=4)
    address = f"ssh://me@there{tmp_path}/my%20runs"
    for _ in range(2):  # the second time from the copy that the first one made
        with epochal.open(address) as runs:
            assert len(runs.run("a").series("loss")) == 4


def test_a_connection_that_was_cut_is_named_by_the_address_that_was_given(
    ssh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs", "a", steps=2)
    address = f"ssh://there{tmp_path}/runs"
    # A port of this machine is not a proxy's to connect to.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with epochal.open(address) as runs:
        assert len(runs.runs()) == 1
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        for pid in children:
            if str(tmp_path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
        with pytest.raises(epochal.EpochalError, match=f"cannot reach {address}: "):
            _list_until_it_fails(runs)


def test_it_is_listed_without_a_token_in_the_command(
    ssh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "my runs", "a", steps=4)
    address = f"ssh://me@there{tmp_path}/my%20runs"
    assert main(["ls", address]) == 0
    assert "finished" in capsys.readouterr().out
    assert "token" not in ssh.read_text().replace("--stdin-token", "")


def test_the_server_ends_with_the_connection(ssh: Path, tmp_path: Path) -> None:
    record(tmp_path / "runs", "a", steps=2)
    server = SshServer(f"ssh://there{tmp_path}/runs")
    port = ssh.read_text().split("--port ")[1].split()[0]
    assert _listens(int(port))
    os.kill(server._process.pid, signal.SIGKILL)  # as when the laptop is closed
    server.close()
    deadline = time.monotonic() + 120
    while _listens(int(port)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_others_on_either_machine_need_the_token(ssh: Path, tmp_path: Path) -> None:
    record(tmp_path / "runs", "a", steps=2)
    server = SshServer(f"ssh://there{tmp_path}/runs")
    try:
        with epochal.open(server.url) as runs, pytest.raises(epochal.EpochalError, match="401"):
            runs.runs()
        with epochal.open(server.url, token=server.token) as runs:
            assert len(runs.runs()) == 1
    finally:
        server.close()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("ssh://refused/runs", "ssh cannot connect to refused: .*Connection refused"),
        ("ssh://bare/runs", "there is no epochal on bare: install it there"),
        ("ssh://there/no/such/folder", "ended with 1: there is no folder '/no/such/folder'"),
        ("ssh://", "is not an address"),
        ("ssh://me:secret@there/runs", "holds no password"),
        ("ssh://-oProxyCommand=touch/runs", "is not an address"),
    ],
)
def test_each_failure_is_one_sentence(
    ssh: Path, capsys: pytest.CaptureFixture[str], address: str, sentence: str
) -> None:
    with pytest.raises(epochal.EpochalError, match=sentence):
        epochal.open(address)
    assert main(["ls", address]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_machine_without_ssh_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshError, match="there is no program 'ssh'"):
        epochal.open("ssh://there/runs")


def test_serve_shows_a_folder_behind_ssh(ssh: Path, tmp_path: Path) -> None:
    record(tmp_path / "runs", "a", steps=2)
    command = [sys.executable, "-m", "epochal", "serve", f"ssh://there{tmp_path}/runs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = next(line for line in process.stdout if line.startswith("http")).strip()
            with epochal.open(url) as runs:
                assert [run.name for run in runs] == ["a"]
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0
        finally:
            process.kill()


def _list_until_it_fails(runs: Runs) -> None:
    for _ in range(600):  # the port is closed a moment later
        runs.runs()
        time.sleep(0.1)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True
