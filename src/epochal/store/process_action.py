"""Asks the processes of a run to stop, to pause or to go on: with signals, and only the right ones.

Nothing is written to the run. A training that saves in ``Checkpoints`` ends after its step, saved;
any other says in its journal that it was terminated, and ends.
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
from epochal.store.store import RunView

ProcessAction = Literal["stop", "interrupt", "kill", "suspend", "continue"]

_SIGNALS: Mapping[ProcessAction, str] = {
    "stop": "SIGTERM",
    "interrupt": "SIGINT",
    "kill": "SIGKILL",
    "suspend": "SIGSTOP",
    "continue": "SIGCONT",
}
_GOING = ("running", "waiting", "silent")
_LAUNCHER = "launcher"
_ENDS: tuple[ProcessAction, ...] = ("stop", "interrupt", "kill")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was sent, and the pids of the processes it was sent to; ``elsewhere`` counts others."""

    wish: ProcessAction
    signal: str
    pids: tuple[int, ...]
    elsewhere: int = 0


def ask(run: RunView, wish: ProcessAction) -> Asked:
    """Send a wish to all processes of a run's newest attempt that are on this machine.

    Raises ``EpochalError`` with a sentence when the run does not go on, when its first process is
    out of reach, and for a suspension that would reach only some of its processes: the others would
    wait for them until they give up.
    """
    info = run.info
    name = f"{info.project}/{info.name}"
    if info.tracker is not None:
        raise UsageError(f"{name!r} lies in files of {info.tracker}: its process is not known.")
    if info.status.state not in _GOING:
        raise EpochalError(f"{name} does not run: it is {info.status.text}.")
    processes = processes_of(run)
    seen = [liveness(process) for process in processes]
    elsewhere = seen.count("unknown")
    if wish == "suspend" and elsewhere:
        raise EpochalError(
            f"{name} has {elsewhere} of {len(processes)} processes elsewhere: suspending only those"
            " here would leave the others waiting until they give up."
        )
    if wish == "kill":
        _warn_launcher(run)
    pids = []
    for process, state in zip(processes, seen, strict=True):
        # The first one always: it says why it cannot be reached.
        if state == "alive" or process is processes[0]:
            pids.append(_send(name, process, wish, was_alive=state == "alive"))
    return Asked(wish, _SIGNALS[wish], tuple(pids), elsewhere)


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
    """Tell whoever started the training that its end is meant, lest it be started again."""
    entries = [e for e in run.entries("run", rank=None) if e.position.writer == _LAUNCHER]
    if entries and liveness(newest := entries[-1].record) == "alive":
        # Gone, or out of reach, in this moment: then it starts nothing again either.
        with contextlib.suppress(ProcessOutOfReachError):
            send_signal(newest, _SIGNALS["stop"])


def _send(name: str, process: Mapping[str, Any], wish: ProcessAction, *, was_alive: bool) -> int:
    is_held = wish in ("stop", "interrupt") and is_suspended(process)
    try:
        send_signal(process, _SIGNALS[wish])
        if is_held:
            send_signal(process, _SIGNALS["continue"])  # a stopped process handles no other signal
    except ProcessOutOfReachError as error:
        # A launcher that was told of a kill ends its training as well, and may be the first.
        is_fulfilled = wish in _ENDS and was_alive and liveness(process) == "dead"
        if not is_fulfilled:
            raise ProcessOutOfReachError(f"{name} cannot be reached: {error}") from error
    return int(process["pid"])
