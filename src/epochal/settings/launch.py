"""Variables between processes: ranks of a launch, parent and child runs.

Launchers' variables (RANK, WORLD_SIZE, SLURM_*, OMPI_*, TORCHELASTIC_*) are read here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_PARENT_RUN = "EPOCHAL_PARENT_RUN"
_LAUNCH_FILE = "EPOCHAL_LAUNCH_FILE"


class Launch(msgspec.Struct, frozen=True):
    """This process's place in a distributed launch; rank 0 of 1 when there is none."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    node_rank: int = 0
    launch_id: str | None = None


class ParentRun(msgspec.Struct, frozen=True):
    """The run of the process that started this one with ``multiprocessing``."""

    pid: int
    folder: str
    attempt: int


class Announcement(msgspec.Struct, frozen=True):
    """A run that has started; ``captures``: it records its own output."""

    folder: str
    attempt: int
    captures: bool


def read_launch(environ: Mapping[str, str] | None = None) -> Launch:
    """Find rank and launch id from torchrun, Slurm or MPI variables."""
    env = os.environ if environ is None else environ
    rank = _first_int(env, "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    world = _first_int(env, "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    if rank is None or world is None or world < 1 or not 0 <= rank < world:
        return Launch()
    local = _first_int(env, "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    node = _first_int(env, "GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
    return Launch(
        rank=rank,
        world_size=world,
        local_rank=local or 0,
        node_rank=node or 0,
        launch_id=_launch_id(env) if world > 1 else None,
    )


def read_parent_run(environ: Mapping[str, str] | None = None) -> ParentRun | None:
    """The run this process's parent announced, if any."""
    env = os.environ if environ is None else environ
    parts = env.get(_PARENT_RUN, "").split(":", 2)
    if len(parts) != 3 or not all(_WHOLE_NUMBER.fullmatch(part) for part in parts[:2]):
        return None
    return ParentRun(pid=int(parts[0]), attempt=int(parts[1]), folder=parts[2])


def announce_run(*, pid: int, folder: str, attempt: int) -> None:
    """Let processes started from here with ``multiprocessing`` find this run."""
    os.environ[_PARENT_RUN] = f"{pid}:{attempt}:{folder}"


def withdraw_run(*, pid: int) -> None:
    """Undo ``announce_run`` of this process."""
    announced = read_parent_run()
    if announced is not None and announced.pid == pid:
        del os.environ[_PARENT_RUN]


def launch_variable(path: Path) -> dict[str, str]:
    """The variables that make a command's runs announce themselves in this file."""
    return {_LAUNCH_FILE: str(path)}


def announce_launched(announcement: Announcement, environ: Mapping[str, str] | None = None) -> None:
    """Announce a new run in EPOCHAL_LAUNCH_FILE, if it is set; raises ``OSError``."""
    path = (os.environ if environ is None else environ).get(_LAUNCH_FILE)
    if path and os.path.isdir(os.path.dirname(path)):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(msgspec.structs.asdict(announcement)) + "\n")


def read_announcements(path: Path) -> list[Announcement]:
    """The runs that were announced in a file, in order."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    # A line without its end is still being written.
    return [Announcement(**json.loads(line)) for line in text.split("\n")[:-1]]


def _first_int(env: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = env.get(name, "").strip()
        if _WHOLE_NUMBER.fullmatch(text):
            return int(text)
    return None


def _launch_id(env: Mapping[str, str]) -> str | None:
    if elastic := env.get("TORCHELASTIC_RUN_ID"):
        restart = env.get("TORCHELASTIC_RESTART_COUNT", "0")
        # torchrun without --rdzv-id calls every launch "none": the address tells them apart.
        address = f"{env.get('MASTER_ADDR', '')}-{env.get('MASTER_PORT', '')}"
        return f"elastic-{elastic}-{address if elastic == 'none' else ''}-{restart}"
    if job := env.get("SLURM_JOB_ID"):
        return f"slurm-{job}-{env.get('SLURM_STEP_ID', '0')}-{env.get('SLURM_RESTART_COUNT', '0')}"
    if port := env.get("MASTER_PORT"):
        return f"master-{env.get('MASTER_ADDR', '')}-{port}"
    return None
