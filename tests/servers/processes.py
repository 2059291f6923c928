"""Servers of several processes, which run as an ordinary user and can be killed by name."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

Answer = TypeVar("Answer")
# Connections that programs open get ports above: a server that was killed finds its own one free.
_PORTS = range(20_000, 30_000)


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def missing_programs(*names: str) -> list[str]:
    """Which of these programs are not installed."""
    return [name for name in names if shutil.which(name) is None]


def user_name() -> str:
    """Who runs the servers: some of them refuse to run as root."""
    return "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def server_folder(prefix: str) -> Path:
    """A new folder for the files of servers."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))  # the path of a socket is short
    folder.chmod(0o755)
    give_away(folder)
    return folder


def give_away(folder: Path) -> None:
    """Have everything in a folder belong to who runs the servers."""
    if os.geteuid() == 0:
        user = pwd.getpwnam(user_name())
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid)


def as_user(command: list[str]) -> list[str]:
    """A command of who runs the servers."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]


def wait_for(
    question: Callable[[], Answer | None], *, what: str, timeout_s: float = 300.0
) -> Answer:
    """Ask again until there is an answer; a connection that fails is none."""
    deadline = time.monotonic() + timeout_s
    while True:
        problem = ""
        try:
            if answer := question():
                return answer
        except (OSError, ValueError, LookupError) as error:
            problem = f": {error!r}"
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come about within {timeout_s:g} s{problem}")
        time.sleep(0.1)


@dataclass
class Daemons:
    """Processes by name; each writes what it prints to a file in the folder."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: list[str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                as_user(command),
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.environment},
            )

    def kill(self, name: str, *others: int) -> None:
        """Kill a process, and further ones by their ids, at the same moment."""
        kill_all([self.processes[name].pid, *others])
        self.processes[name].wait()

    def stop(self) -> None:
        """End everything, and delete the files."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def kill_all(pids: Iterable[int]) -> None:
    """Kill processes by their ids, and wait until they are gone."""
    victims: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            victims.append(psutil.Process(pid))
    for process in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs([process for process in victims if process.pid not in _own_children()])


def _own_children() -> set[int]:
    """The processes that somebody here waits for."""
    return {child.pid for child in psutil.Process().children()}


def cpu_s(pid: int) -> float:
    """The seconds of CPU that a process, what it has waited for, and what runs below it used."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        times = process.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(child.cpu_times()[:2])
    return total
