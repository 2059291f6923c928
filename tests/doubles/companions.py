"""Finds companion processes by the run they watch, and waits for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from epochal.companion.config import CompanionConfig
from epochal.journal.layout import RunFolder

T = TypeVar("T")

WAIT_S = 120.0


def companion_config(folder: Path, *, parent: int = 1, **facts: object) -> CompanionConfig:
    """A configuration over a run folder that has at least a journal."""
    run_folder = RunFolder(folder)
    run_folder.journal.mkdir(parents=True, exist_ok=True)
    given = {"attempt": 1, "parent_start": None, "node": "here", **facts}
    return CompanionConfig(folder=run_folder, parent=parent, **given)  # type: ignore[arg-type]


def companions(folder: Path) -> list[int]:
    """The numbers of the living companions of a run folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        # The command line of a process that waits to be collected is empty.
        if b"epochal.companion" in words and str(folder).encode() in words:
            found.append(int(entry.name))
    return found


def has_exited(pid: int) -> bool:
    """Whether a process has ended so far that its parent can see how."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def wait_for(look: Callable[[], T], *, within_s: float = WAIT_S) -> T:
    """What a function returns once that is true."""
    deadline = time.monotonic() + within_s
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return seen


def wait_for_the_end(folder: Path) -> None:
    """Wait until a run folder has no companion any more."""
    wait_for(lambda: not companions(folder))
