"""The identity of a process, with which a reader can check whether it still exists.

A pid alone is not enough: pids are reused, differ between containers and mean nothing on another
machine. Host, boot, pid namespace and the process's start time together are.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

# Files are read through ``Path``: while Python shuts down, runs may end, and ``open`` is gone.
Liveness = Literal["alive", "dead", "unknown"]
PROCESS_FIELDS = ("host", "boot_id", "pid_namespace", "pid", "pid_start")


def process_identity(pid: int | None = None) -> dict[str, Any]:
    """Host, boot, namespace, pid and start time of a process of this machine."""
    number = os.getpid() if pid is None else pid
    return {
        "host": socket.gethostname(),
        "boot_id": _boot_id(),
        "pid_namespace": _pid_namespace(),
        "pid": number,
        "pid_start": _start_time(number),
    }


def liveness(identity: Mapping[str, Any]) -> Liveness:
    """Whether the process of an identity exists, has ended, or is not visible from here."""
    pid = identity.get("pid")
    if not isinstance(pid, int) or identity.get("host") != socket.gethostname():
        return "unknown"
    boot = identity.get("boot_id")
    if boot is not None and boot != _boot_id():
        return "dead"  # the machine has been restarted since
    if identity.get("pid_namespace") != _pid_namespace():
        return "unknown"
    started = _start_time(pid)
    if started is None:
        return "dead"
    return "alive" if started == identity.get("pid_start") else "dead"


def is_suspended(identity: Mapping[str, Any]) -> bool:
    """Whether a process of this machine is suspended (SIGSTOP, Ctrl-Z); Linux only."""
    fields = _stat(identity.get("pid"))
    return fields is not None and fields[0] == "T" and liveness(identity) == "alive"


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _start_time(pid: int) -> float | None:
    """When a process started, in the kernel's own units; None when there is no such process."""
    fields = _stat(pid)
    if fields is None:
        return _start_time_without_proc(pid) if not os.path.isdir("/proc/self") else None
    # State Z: it has ended and only waits to be collected by its parent.
    return None if fields[0] in "ZX" else float(fields[19])


def _stat(pid: object) -> list[str] | None:
    """The kernel's fields of a process, from its state on; None if there are none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rfind(")") + 2 :].split()


def _start_time_without_proc(pid: int) -> float | None:
    import psutil  # heavy, and only needed where there is no /proc

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
