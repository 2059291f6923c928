"""Sends signals to the processes of a run of a store; ``journal/process_action.py`` says how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import LOOP, rank_of_writer
from epochal.journal.process_action import ProcessAction, SentAction, signal_processes
from epochal.store.answers import LIVE_STATES
from epochal.store.store import RunView

_LAUNCHER = "launcher"


def send_action(run: RunView, action: ProcessAction) -> SentAction:
    """Send a signal to all processes of a run's newest attempt that are on this machine.

    Raises ``EpochalError`` when the run has ended, and as ``signal_processes`` does.
    """
    info = run.info
    name = f"{info.project}/{info.name}"
    if info.tracker is not None:
        raise UsageError(f"{name!r} lies in files of {info.tracker}: its process is not known.")
    if info.status.state not in LIVE_STATES:
        raise EpochalError(f"{name} does not run: it is {info.status.text}.")
    launcher = _launcher_of(run) if action == "kill" else None
    return signal_processes(name, Path(info.folder), processes_of(run), action, launcher=launcher)


def processes_of(run: RunView) -> list[Mapping[str, Any]]:
    """The identities of the processes that train in the newest attempt, rank 0's first.

    Rank 0's is in run.json, anew for each attempt; the others' are in their journals.
    """
    headers = [
        (entry.position, entry.record)
        for entry in run.entries("run", rank=None)
        if rank_of_writer(entry.position.writer) is not None
    ]
    newest = max((position.attempt for position, _ in headers), default=0)
    others = {
        position.writer: record
        for position, record in sorted(headers, key=lambda header: header[0])
        if position.attempt == newest and position.writer != LOOP
    }
    return [run.facts, *others.values()]


def _launcher_of(run: RunView) -> Mapping[str, Any] | None:
    entries = [e for e in run.entries("run", rank=None) if e.position.writer == _LAUNCHER]
    return entries[-1].record if entries else None
