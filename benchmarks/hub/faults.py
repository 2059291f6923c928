"""What goes wrong in a drill: a hub that is killed, a network that is cut, a disk that is full.

The faults are real ones of real processes, except the clock: the hub's ``time.time`` is shifted.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from epochal.shipping.client import HubClient

# Starts a hub whose clock is wrong, and which has no reserve of free space: only the disk ends it.
HUB = """
import sys, time
from epochal.hub.limits import Budget
from epochal.cli.main import main
skew_s, real = float(sys.argv[1]), time.time
time.time = lambda: real() + skew_s
Budget.__init__.__kwdefaults__["reserve"] = 0
sys.exit(main(["hub", "serve", *sys.argv[2:]]))
"""


class Hub:
    """A hub on a fixed port that can be killed and started again.

    It is a hub over a folder, which may lie on a small ``disk``.
    """

    def __init__(self, place: Path, port: int, *, disk: SmallDisk | None = None) -> None:
        self._place, self.port = str(place), port
        self._within = () if disk is None else disk.within
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self, *, skew_s: float = 0.0) -> None:
        """Start it; requests are refused until it listens."""
        options = [self._place, "--port", str(self.port)]
        command = [sys.executable, "-c", HUB, str(skew_s), *options]
        self.process = subprocess.Popen([*self._within, *command], stdout=subprocess.DEVNULL)

    def add_token(self, name: str) -> str:
        """Make a token for a machine."""
        words = ["hub", "token", "add", name, "--hub", self._place]
        command = [sys.executable, "-m", "epochal", *words]
        made = subprocess.run([*self._within, *command], stdout=subprocess.PIPE, check=True)
        return made.stdout.decode().split()[-1]

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Wire:
    """A TCP proxy to a port or a socket of this machine.

    A cut ends every connection within what it was sending. Each connection is also cut after as
    many bytes, in both directions, as ``limit`` says when it begins.
    """

    def __init__(self, to: int | str, *, limit: Callable[[], float] = lambda: math.inf) -> None:
        self._to = to
        self._limit = limit
        self._open: list[socket.socket] = []
        self.is_cut = False
        self.num_cut = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Drop everything until ``is_cut`` is False again."""
        self.is_cut = True
        opened, self._open = self._open, []
        for one in opened:
            _close(one)

    def close(self) -> None:
        """End it."""
        self.cut()
        _close(self._listening)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                if self.is_cut:
                    raise ConnectionResetError
                far = self._connect()
            except OSError:
                _close(near)
                continue
            self._open += [near, far]
            left = [self._limit()]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(*pair, left), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._to, int):
            return socket.create_connection(("127.0.0.1", self._to))
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._to)
        return far

    def _copy(self, source: socket.socket, target: socket.socket, left: list[float]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data[: int(min(max(left[0], 0), len(data)))])
                left[0] -= len(data)
                if left[0] <= 0:
                    self.num_cut += 1
                    break
        _close(source)
        _close(target)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class RepeatingClient(HubClient):
    """Sends lines twice, sends old lines again, and sends later lines before earlier ones."""

    def __init__(self, url: str, token: str, *, chance: random.Random) -> None:
        super().__init__(url, token, timeout_s=10)
        self._chance = chance
        self._before: tuple[int, bytes] | None = None

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        """Send lines, and what nobody asked for."""
        if self._chance.random() < 0.2:
            half = lines.find(b"\n", len(lines) // 2) + 1
            super().append(
                run_id, stem, first=first + lines[:half].count(b"\n"), lines=lines[half:]
            )
        have = super().append(run_id, stem, first=first, lines=lines)
        if self._chance.random() < 0.2:
            super().append(run_id, stem, first=first, lines=lines)
        if self._before is not None and self._chance.random() < 0.2:
            super().append(run_id, stem, first=self._before[0], lines=self._before[1])
        self._before = (first, lines)
        return have


class SmallDisk:
    """A tmpfs of some size in a mount namespace of its own: its ENOSPC is the kernel's.

    A process holds the namespace; ``within`` is the command that enters it, ``path`` is where this
    process sees it.
    """

    def __init__(self, place: Path, *, size: int) -> None:
        place.mkdir(parents=True)
        script = f'mount -t tmpfs -o size={size} tmpfs "$1" && echo ok && exec sleep 100000'
        self._holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", script, "sh", str(place)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ok\n":
            _, said = self._holder.communicate()
            raise OSError(f"no tmpfs can be mounted here: {said.decode().strip()}")
        pid = str(self._holder.pid)
        self.within = ("nsenter", "-t", pid, "-U", "-m", "--preserve-credentials")
        self.path = Path(f"/proc/{pid}/root{place}")
        self._filler = self.path / "filler"

    def fill(self) -> None:
        """Use every byte that is free."""
        with open(self._filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(max(shutil.disk_usage(self.path).free, 4096)))

    def free(self) -> None:
        """Give back what was filled."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """End the namespace, and the disk with it."""
        self._holder.kill()
        self._holder.communicate()


def replace_runs(root: Path, copy: Path) -> None:
    """Put the copy of a hub's folder in the place of the folder's contents."""
    for one in root.iterdir():
        if one.name != "filler":
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    shutil.copytree(copy, root, dirs_exist_ok=True)


def copy_runs(root: Path, copy: Path) -> None:
    """Copy a hub's folder, as a backup would."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("filler"))


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int, *, timeout_s: float = 60.0) -> None:
    """Return when something listens there."""
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port}")


def kill(pid: int) -> None:
    """End a process as the kernel does that is out of memory."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
