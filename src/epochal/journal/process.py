"""The identity of a process, with which a reader can check whether it exists, in headers of parts.

A pid alone is not enough: pids are reused, differ between containers and mean nothing on another
machine. Host, boot, pid namespace and the process's start time together are.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from epochal.journal.layout import PartName, RunFolder, json_or_empty
from epochal.journal.line import decode, encode, now
from epochal.journal.regular_file import regular_only
from epochal.records import FORMAT_VERSION, Record

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


_OF_RUN = ("id", "name", "project")
_MAX_HEADER_BYTES = 1 << 20


def part_header(
    part: PartName,
    *,
    identity: Mapping[str, Any],
    rank: int,
    t: float | None = None,
    process: Mapping[str, Any] | None = None,
    **fields: Any,
) -> bytes:
    """Encode the header of a part; `identity` is what run.json says of the run.

    Time and process are those of the caller unless they are given; `fields` follow them.
    """
    return encode(
        {
            "log": "run",
            "t": now() if t is None else t,
            "v": FORMAT_VERSION,
            **{key: identity[key] for key in _OF_RUN if key in identity},
            "writer": part.writer,
            "attempt": part.attempt,
            "part": part.part,
            "rank": rank,
            **(process_identity() if process is None else process),
            **fields,
        }
    )


def read_header(path: Path) -> Record:
    """Read the first record of a journal part; empty where it cannot be read."""
    try:
        with open(path, "rb", opener=regular_only) as file:
            return decode(file.readline(_MAX_HEADER_BYTES)) or {}
    except OSError:
        return {}


def read_identity(folder: RunFolder) -> dict[str, Any]:
    """Read id, name and project of a run; empty where run.json cannot be read."""
    identity = json_or_empty(folder.identity)
    return {key: identity.get(key) for key in _OF_RUN} if identity else {}
