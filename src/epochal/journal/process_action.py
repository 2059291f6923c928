"""Sends signals to the processes of a training: stop, suspend, continue, save a checkpoint.

A training with ``Checkpoints`` saves after its step when it is asked to stop. Any other records in
its journal that it was terminated, and ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    json_or_empty,
    rank_of_writer,
    read_json,
    write_json,
)
from epochal.journal.process import is_suspended, liveness, process_identity, read_header

ProcessAction = Literal["stop", "interrupt", "kill", "suspend", "continue", "checkpoint"]
# Clusters send it ahead of the end of a job: ``Checkpoints`` saves and goes on.
SAVE_SIGNAL = "SIGUSR1"
# In the folder of a run: the process in which ``Checkpoints`` handles that signal.
SAVES_FILE = "checkpoint_signal.json"

_SIGNALS: Mapping[ProcessAction, str] = {
    "stop": "SIGTERM",
    "interrupt": "SIGINT",
    "kill": "SIGKILL",
    "suspend": "SIGSTOP",
    "continue": "SIGCONT",
    "checkpoint": SAVE_SIGNAL,
}
_ENDS: tuple[ProcessAction, ...] = ("stop", "interrupt", "kill")


@dataclass(frozen=True, slots=True)
class SentAction:
    """The signal that was sent, and to which pids; ``elsewhere`` counts processes out of reach."""

    action: ProcessAction
    signal: str
    pids: tuple[int, ...]
    elsewhere: int = 0

    @property
    def receivers(self) -> str:
        """The signal and its receivers in words."""
        number = len(self.pids)
        whom = f"process {self.pids[0]}" if number == 1 else f"{number} processes"
        return f"{self.signal} to {whom}"


def signal_processes(
    name: str,
    folder: Path,
    processes: Sequence[Mapping[str, Any]],
    action: ProcessAction,
    *,
    launcher: Mapping[str, Any] | None = None,
) -> SentAction:
    """Send a signal to those of a run's processes that are on this machine, rank 0's first.

    Raises ``EpochalError`` when the first process is out of reach. It also raises for a suspension
    that would reach only some of them: the others would wait until they give up. A launcher is told
    of a kill, so that it does not start the training again.
    """
    if action == "checkpoint":
        return _ask_to_save(name, folder, processes[0])
    seen = [liveness(process) for process in processes]
    elsewhere = seen.count("unknown")
    if action == "suspend" and elsewhere:
        raise EpochalError(
            f"{name} has {elsewhere} of {len(processes)} processes elsewhere: suspending only those"
            " here would leave the others waiting until they give up."
        )
    if action == "kill" and launcher is not None and liveness(launcher) == "alive":
        # Gone, or out of reach, in this moment: then it starts nothing again either.
        with contextlib.suppress(ProcessOutOfReachError):
            send_signal(launcher, _SIGNALS["stop"])
    pids = []
    for process, state in zip(processes, seen, strict=True):
        # The first one always: it says why it cannot be reached.
        if state == "alive" or process is processes[0]:
            pids.append(_send(name, process, action, was_alive=state == "alive"))
    return SentAction(action, _SIGNALS[action], tuple(pids), elsewhere)


def training_processes(folder: RunFolder, attempt: int) -> list[Mapping[str, Any]]:
    """The identities of the processes that train in an attempt, rank 0's first.

    Rank 0's is in run.json, anew for each attempt; the others' are in the headers of their parts.
    """
    newest: dict[str, PartName] = {
        part.writer: part
        for part in folder.parts()
        if part.attempt == attempt
        and part.writer != LOOP
        and rank_of_writer(part.writer) is not None
    }
    headers = (read_header(folder.part_path(part)) for part in newest.values())
    return [read_json(folder.identity), *(header for header in headers if header)]


def announce_saves(folder: Path) -> None:
    """Note in a run's folder that this process saves a checkpoint when it gets ``SAVE_SIGNAL``.

    Without ``Checkpoints`` that signal would end the process, so nobody sends it.
    """
    with contextlib.suppress(OSError):
        write_json(folder / SAVES_FILE, process_identity())


def end_saves(folder: Path) -> None:
    """Take that note back."""
    with contextlib.suppress(OSError):
        (folder / SAVES_FILE).unlink(missing_ok=True)


def _ask_to_save(name: str, folder: Path, first: Mapping[str, Any]) -> SentAction:
    noted = json_or_empty(folder / SAVES_FILE)
    if noted.get("pid") != first.get("pid") or noted.get("pid_start") != first.get("pid_start"):
        raise EpochalError(
            f"{name} has no Checkpoints(run, …) that handles {SAVE_SIGNAL}: it cannot save now."
        )
    if is_suspended(first):
        raise EpochalError(f"{name} is suspended: continue it, then ask for a checkpoint.")
    return SentAction(
        "checkpoint", SAVE_SIGNAL, (_send(name, first, "checkpoint", was_alive=True),)
    )


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


class ProcessOutOfReachError(EpochalError):
    """A process that cannot be signalled from here; the message has the reason."""


def send_signal(identity: Mapping[str, Any], name: str) -> None:
    """Send a signal, by name, to a living process of this machine and user.

    Raises ``ProcessOutOfReachError`` for one that has ended, is on another machine or belongs to
    another user, ``UsageError`` for a signal that this system does not have.
    """
    number = getattr(signal, name, None)
    if number is None:
        raise UsageError(f"{name} does not exist on this system.")
    pid = identity.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        raise ProcessOutOfReachError("its record names no process.")
    _check_reach(identity)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise ProcessOutOfReachError(f"process {pid} has ended.") from None
    except PermissionError:
        raise ProcessOutOfReachError(
            f"process {pid} belongs to another user: only they, or an administrator, may."
        ) from None


def _check_reach(identity: Mapping[str, Any]) -> None:
    pid, host, here = identity.get("pid"), identity.get("host"), socket.gethostname()
    seen = liveness(identity)
    if seen == "dead":
        raise ProcessOutOfReachError(f"process {pid} has ended.")
    if seen == "unknown" and host != here:
        raise ProcessOutOfReachError(
            f"process {pid} is on the machine {host!r}, and this is {here!r}."
        )
    if seen == "unknown":
        raise ProcessOutOfReachError(f"process {pid} is in another container of this machine.")
