"""Folders of another machine through a real sshd on loopback; skipped where none can be started."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main
from epochal.shipping.ssh import SshServer
from tests.hub.test_shipping import record

pytestmark = pytest.mark.slow

_WAIT_S = 120.0
_SERVER = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv PATH={folder}/there:/usr/bin:/bin
"""
_CLIENT = """
Host there
  IdentityFile {folder}/key
Host stranger
  IdentityFile {folder}/other_key
Host unknown
  IdentityFile {folder}/key
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking yes
Host *
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile {folder}/known_hosts
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the keys and files of an sshd and its client."""
    where = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"))
    program = os.environ.get("SSHD") or shutil.which("sshd", path=where)
    if program is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd or ssh on this machine: install openssh-server, or set SSHD")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host_key", "key", "other_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(_SERVER.format(folder=folder, port=port))
    user = getpass.getuser()
    (folder / "config").write_text(_CLIENT.format(folder=folder, port=port, user=user))
    (folder / "there").mkdir()
    command = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
    log = folder / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stderr=said, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _WAIT_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                reason = log.read_text(errors="replace").strip().splitlines() or ["no reason"]
                pytest.skip(f"sshd does not start here: {reason[-1]}")
            time.sleep(0.05)
        yield folder
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def programs(sshd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs of the other machine, where ``epochal`` is; ``ssh`` here leads there."""
    here, there = tmp_path / "bin", sshd / "there"
    here.mkdir()
    _script(here / "ssh", f'exec {shutil.which("ssh")} -F {sshd}/config "$@"')
    _script(there / "epochal", f'exec {sys.executable} -m epochal "$@"')
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))
    return there


def test_a_folder_behind_a_real_sshd_is_listed_and_read(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "my runs", "a", steps=4)
    address = f"ssh://there{tmp_path}/my%20runs"
    assert main(["ls", address]) == 0
    assert "finished" in capsys.readouterr().out
    with epochal.open(address) as runs:
        assert len(runs.run("a").series("loss")) == 4


def test_a_folder_that_is_not_there_is_named(programs: Path) -> None:
    with pytest.raises(epochal.EpochalError, match="there is no folder '/no/such/folder'"):
        epochal.open("ssh://there/no/such/folder")


def test_a_machine_without_epochal_is_named(programs: Path) -> None:
    (programs / "epochal").unlink()
    words = "echo '/usr/bin/python3: No module named epochal' >&2; exit 1"
    _script(programs / "python3", words)
    with pytest.raises(epochal.EpochalError, match=r"there is no epochal on there: .*SSH_COMMAND"):
        epochal.open("ssh://there/runs")
    (programs / "python3").unlink()


def test_an_epochal_elsewhere_is_named_by_a_setting(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "runs", "a", steps=2)
    (programs / "epochal").rename(programs / "another")
    monkeypatch.setenv("EPOCHAL_SSH_COMMAND", str(programs / "another"))
    with epochal.open(f"ssh://there{tmp_path}/runs") as runs:
        assert len(runs.runs()) == 1


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("stranger", "ssh cannot connect to stranger: .*Permission denied.*: add a key"),
        ("unknown", "ssh cannot connect to unknown: Host key .* connect once"),
    ],
)
def test_a_refusal_says_what_to_do(
    programs: Path, capsys: pytest.CaptureFixture[str], host: str, sentence: str
) -> None:
    with pytest.raises(epochal.EpochalError, match=sentence):
        epochal.open(f"ssh://{host}/runs")
    assert main(["ls", f"ssh://{host}/runs"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_server_there_ends_when_the_connection_is_cut(programs: Path, tmp_path: Path) -> None:
    record(tmp_path / "runs", "a", steps=2)
    server = SshServer(f"ssh://there{tmp_path}/runs")
    with epochal.open(server.url, token=server.token) as runs:
        assert len(runs.runs()) == 1
        os.kill(server._process.pid, signal.SIGKILL)
        server.close()
        with pytest.raises(epochal.EpochalError, match="cannot reach"):
            runs.runs()
    deadline = time.monotonic() + _WAIT_S
    while _is_served(tmp_path / "runs"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_serve_says_that_the_connection_was_cut(programs: Path, tmp_path: Path) -> None:
    record(tmp_path / "runs", "a", steps=2)
    command = [sys.executable, "-m", "epochal", "serve", f"ssh://there{tmp_path}/runs"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            url = next(line for line in process.stdout if line.startswith("http")).strip()
            with epochal.open(url) as runs:
                assert [run.name for run in runs] == ["a"]
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            os.kill(int(children.split()[0]), signal.SIGTERM)
            assert process.wait(_WAIT_S) == 1
            assert "the connection to there ended" in process.stderr.read()
        finally:
            process.kill()


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def _is_served(folder: Path) -> bool:
    """Whether a process serves this folder for someone behind ssh."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--stdin-token" in words and str(folder).encode() in words:
            return True
    return False
