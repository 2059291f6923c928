"""Sends signals to the processes of a run: stop, interrupt, kill, suspend or continue.

Nothing is written to the run. A training with ``Checkpoints`` saves after its step and ends; any
other records in its journal that it was terminated, and ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import LOOP, rank_of_writer
from epochal.journal.process import is_suspended, liveness
from epochal.journal.process_signal import ProcessOutOfReachError, send_signal
from epochal.store.answers import LIVE_STATES
from epochal.store.store import RunView

ProcessAction = Literal["stop", "interrupt", "kill", "suspend", "continue"]

_SIGNALS: Mapping[ProcessAction, str] = {
    "stop": "SIGTERM",
    "interrupt": "SIGINT",
    "kill": "SIGKILL",
    "suspend": "SIGSTOP",
    "continue": "SIGCONT",
}
_LAUNCHER = "launcher"
_ENDS: tuple[ProcessAction, ...] = ("stop", "interrupt", "kill")


@dataclass(frozen=True, slots=True)
class SentAction:
    """The signal that was sent, and to which pids; ``elsewhere`` counts processes out of reach."""

    action: ProcessAction
    signal: str
    pids: tuple[int, ...]
    elsewhere: int = 0


def send_action(run: RunView, action: ProcessAction) -> SentAction:
    """Send a signal to all processes of a run's newest attempt that are on this machine.

    Raises ``EpochalError`` when the run has ended, when its first process is out of reach, and for
    a suspension that would reach only some of its processes: the others would wait for them until
    they give up.
    """
    info = run.info
    name = f"{info.project}/{info.name}"
    if info.tracker is not None:
        raise UsageError(f"{name!r} lies in files of {info.tracker}: its process is not known.")
    if info.status.state not in LIVE_STATES:
        raise EpochalError(f"{name} does not run: it is {info.status.text}.")
    processes = processes_of(run)
    seen = [liveness(process) for process in processes]
    elsewhere = seen.count("unknown")
    if action == "suspend" and elsewhere:
        raise EpochalError(
            f"{name} has {elsewhere} of {len(processes)} processes elsewhere: suspending only those"
            " here would leave the others waiting until they give up."
        )
    if action == "kill":
        _warn_launcher(run)
    pids = []
    for process, state in zip(processes, seen, strict=True):
        # The first one always: it says why it cannot be reached.
        if state == "alive" or process is processes[0]:
            pids.append(_send(name, process, action, was_alive=state == "alive"))
    return SentAction(action, _SIGNALS[action], tuple(pids), elsewhere)


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


def _warn_launcher(run: RunView) -> None:
    """Tell the launcher that the end is intended, so that it does not start the training again."""
    entries = [e for e in run.entries("run", rank=None) if e.position.writer == _LAUNCHER]
    if entries and liveness(newest := entries[-1].record) == "alive":
        # Gone, or out of reach, in this moment: then it starts nothing again either.
        with contextlib.suppress(ProcessOutOfReachError):
            send_signal(newest, _SIGNALS["stop"])


def _send(name: str, process: Mapping[str, Any], action: ProcessAction, *, was_alive: bool) -> int:
    is_held = action in ("stop", "interrupt") and is_suspended(process)
    try:
        send_signal(process, _SIGNALS[action])
        if is_held:
            send_signal(process, _SIGNALS["continue"])  # a stopped process handles no other signal
    except ProcessOutOfReachError as error:
        # A launcher that was told of a kill ends its training as well, and may be the first.
        is_fulfilled = action in _ENDS and was_alive and liveness(process) == "dead"
        if not is_fulfilled:
            raise ProcessOutOfReachError(f"{name} cannot be reached: {error}") from error
    return int(process["pid"])
