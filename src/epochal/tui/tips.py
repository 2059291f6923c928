"""What to do next, for the state of the run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from epochal.settings import read_setting
from epochal.store.answers import RunInfo
from epochal.tui.run_log import RunLog

_ENDED_EARLY = ("failed", "crashed", "interrupted", "terminated")


def tip(info: RunInfo, run_log: RunLog | None, *, is_paused: bool = False) -> str | None:
    """One sentence about what can be done now; None when there is nothing to be done."""
    name = _named(info)
    if is_paused:
        return "the picture is held, the run goes on: p shows what has come since"
    if info.status.state in _ENDED_EARLY and info.tracker is None:
        return f"epochal resume {name}  prints the command that goes on with it"
    if info.status.text == "suspended":
        return "held by a signal: Z lets it go on"
    if info.status.state == "waiting":
        return "nothing was logged yet: it appears by itself"
    if run_log is not None and any(
        found.is_open and found.severity == "error" for found in run_log.findings
    ):
        return f"epochal doctor {name}  tells what proves it and what to try"
    if info.status.state == "silent":
        return "it may hang, or its machine be cut off: 4 shows what it said last"
    return None


def _named(info: RunInfo) -> str:
    """The run as a command takes it, with its folder of runs where that is not the usual one."""
    name = shlex.quote(f"{info.project}/{info.name}")
    root = Path(info.folder).parent.parent
    if info.tracker is not None or root == Path(read_setting("dir")).expanduser().absolute():
        return name
    near = os.path.relpath(root)
    return f"{name} --dir {shlex.quote(min(near, str(root), key=len))}"
