"""Starts a server on another machine through the user's own ssh, and ends it with this process.

One ssh process runs ``epochal serve`` there and forwards a port of this machine to it. A token that
nobody else knows travels over its standard input, so other users of both machines see nothing. The
server ends when its standard input does, which is when the ssh process ends.
"""

from __future__ import annotations

import contextlib
import random
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import threading
import time
from urllib.parse import unquote, urlsplit

from epochal.errors import EpochalError, UsageError
from epochal.settings import read_settings

CONNECT_S = 15
_START_S = 90.0
_LOOK_EVERY_S = 0.05
_TRIES = 5
_PORTS = (20_000, 60_000)
_LINES_KEPT = 20
# What the remote shell says of a program that it does not have.
_NO_COMMAND = 127
# What ssh says of itself beside what the other machine says.
_OF_SSH = re.compile(r"channel \d+: |Connection to .* closed|client_loop: ")
# What ssh says when it needs a person, and what that person can do.
_ADVICE = {
    "Permission denied": "no password is asked for here: add a key, or start the agent",
    "Host key verification failed": "connect once with 'ssh {host}' and check its key",
}


class SshError(EpochalError):
    """A machine cannot be reached with ssh, or there is no Epochal on it."""


class SshServer:
    """``epochal serve`` on another machine; ``url`` leads there until this is closed."""

    def __init__(self, address: str) -> None:
        host, options, self._folder = _parsed(address)
        self.host = host
        self.token = secrets.token_urlsafe(32)
        program = shutil.which("ssh")
        if program is None:
            raise SshError(f"cannot open {address}: there is no program 'ssh' on this machine.")
        self._command = [program, *options]
        for left in reversed(range(_TRIES)):
            try:
                self._start()
            except _PortTakenError:
                if not left:
                    raise SshError(f"cannot open {address}: no port was free there.") from None
            else:
                return

    def close(self) -> None:
        """End the server and the connection."""
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(5)

    @property
    def is_alive(self) -> bool:
        """Whether the connection is still there."""
        return self._process.poll() is None

    def wait(self) -> str:
        """Wait until the connection ends; what ssh said last."""
        self._process.wait()
        self._reader.join(5)
        return self._reason()

    def _start(self) -> None:
        here, there = _free_port(), random.randint(*_PORTS)
        self._said: list[str] = []
        self._process = subprocess.Popen(
            [
                *self._command,
                *("-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"),
                *("-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15"),
                *("-L", f"127.0.0.1:{here}:127.0.0.1:{there}"),
                *("--", self.host, _remote_command(self._folder, there)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # A server prints its address when it listens: a port is not tried before, as another
        # user's server could answer there, and each failure is a line in a log of that machine.
        self._is_ready = threading.Event()
        readers = (
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_address, args=[f":{there}/".encode()], daemon=True),
        )
        self._reader = readers[0]
        for reader in readers:
            reader.start()
        self.url = f"http://127.0.0.1:{here}"
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended: its own words say why
            self._process.stdin.write(f"{self.token}\n".encode())
            self._process.stdin.flush()
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + _START_S
        while not self._is_ready.wait(_LOOK_EVERY_S):
            if self._process.poll() is not None:
                self._reader.join(5)
                raise self._failure()
            if time.monotonic() > deadline_s:
                raise SshError(
                    f"epochal on {self.host} did not answer within {_START_S:.0f} s"
                    f"{self._reason(': ')}."
                )

    def _failure(self) -> EpochalError:
        said, code, everything = self._reason(), self._process.returncode, "".join(self._said)
        if "is in use" in everything or "already in use" in everything:
            return _PortTakenError(said)
        if code == _NO_COMMAND or "No module named epochal" in everything:
            return SshError(
                f"there is no epochal on {self.host}: install it there (pip install epochal), so"
                " that 'epochal' or 'python3 -m epochal' runs without a login shell, or name it"
                " with EPOCHAL_SSH_COMMAND=~/venv/bin/epochal."
            )
        if code == 255:
            advice = [words for mark, words in _ADVICE.items() if mark in said]
            after = f"; {advice[0].format(host=self.host)}" if advice else ""
            return SshError(
                f"ssh cannot connect to {self.host}: {said or 'it does not say why'}{after}."
            )
        return SshError(f"epochal on {self.host} ended with {code}: {said or 'without a word'}.")

    def _reason(self, before: str = "") -> str:
        """The last line that was said; what ssh says of itself where there is nothing else."""
        words = [line.removeprefix("epochal: ").strip() for line in self._said]
        words = sorted(filter(None, words), key=lambda line: not _OF_SSH.match(line))
        return f"{before}{words[-1].rstrip('.')}" if words else ""

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._said = [*self._said, line.decode(errors="replace")][-_LINES_KEPT:]

    def _read_address(self, address: bytes) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith(b"http") and address in line:
                    self._is_ready.set()


class _PortTakenError(SshError):
    """The port that was chosen is in use there."""


def _remote_command(folder: str, port: int) -> str:
    """A line for any POSIX shell: the command ``epochal``, else the module of ``python3``."""
    words = ["serve", *([folder] if folder else []), "--port", str(port), "--stdin-token"]
    arguments = shlex.join(words)
    given = read_settings().ssh_command
    if given:
        return f"exec {given} {arguments}"
    return (
        f"if command -v epochal >/dev/null 2>&1; then exec epochal {arguments};"
        f" else exec python3 -m epochal {arguments}; fi"
    )


def _parsed(address: str) -> tuple[str, list[str], str]:
    """Host with user, ssh options, and folder: ``/~/runs`` is below the home folder."""
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{address!r} is not an address: {error}.") from error
    host = parts.hostname or ""
    if parts.password:
        raise UsageError("an ssh:// address holds no password: use a key or an agent.")
    if not host or host.startswith("-") or (parts.username or "").startswith("-"):
        raise UsageError(f"{address!r} is not an address; it is like ssh://user@host/folder.")
    user = f"{parts.username}@" if parts.username else ""
    path = unquote(parts.path)
    folder = path[3:] if path.startswith("/~/") else "" if path in ("", "/~") else path
    return f"{user}{host}", [] if port is None else ["-p", str(port)], folder


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
