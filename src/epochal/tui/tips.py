"""What to press or to type next: for the tab that is open, and for how the run stands."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from epochal.settings import read_setting
from epochal.store.answers import RunInfo
from epochal.tui.run_log import RunLog
from epochal.tui.view import Tab, View

_ALWAYS = "? keys  q quit"
_HINTS: Mapping[Tab, str] = {
    "overview": "/ filter  c compare  + - zoom  s smooth  p pause  [ ] series  l log",
    "charts": "/ filter  j k choose  Enter enlarge  s smooth  + - zoom  x axis",
    "system": "j k scroll  g G ends  p pause  / filter",
    "log": "j k scroll  g G ends  p pause  / filter",
    "text": "j k scroll  g G ends  p pause  / filter",
    "config": "j k scroll  g G ends  / filter  c compare",
}
_ENLARGED = "Esc back  [ ] series  s smooth  + - zoom  l log  o outliers  x axis"
_ENDED_EARLY = ("failed", "crashed", "interrupted", "terminated")


def hints(view: View) -> str:
    """Keys that make sense where one is, two blanks between them."""
    here = _ENLARGED if view.is_enlarged else _HINTS[view.tab]
    return f"{_ALWAYS}  {here}"


def tip(info: RunInfo, view: View, run_log: RunLog | None) -> str | None:
    """One sentence about what can be done now; None when there is nothing to be done."""
    name = _named(info)
    if view.is_paused:
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
