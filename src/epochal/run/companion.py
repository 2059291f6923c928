"""Starts the companion process of a run, restarts it once, and wakes it when the run ends.

Only ``finish()`` waits for the companion, for a bounded time, while records are being forwarded.
The journal is the truth: a companion that misses a message finds the records there.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.journal.layout import node_name, rank_writer
from epochal.journal.line import encode_json
from epochal.journal.process import process_identity
from epochal.run.findings_reporter import FindingsReporter
from epochal.run.forwarded import Unsent, not_held, unsent
from epochal.run.hub_reporter import HubReporter
from epochal.run.recorder import Recorder
from epochal.settings import Settings, child_environment, settings_environment
from epochal.settings.launch import Launch

_PAUSE_S = 0.02


def start_companion(recorder: Recorder, launch: Launch, *, settings: Settings) -> None:
    """Start the process beside a run, on the first rank of each node; never waits for it.

    It works in another folder, so it gets the settings in its environment and reads no file.
    """
    if launch.local_rank != 0:
        return
    is_aside = not recorder.folder.identity.exists()
    # A rank that found no rank 0 writes aside; its files move, and nobody is to hold on to them.
    # With a hub, they are sent from there into the run of rank 0.
    if is_aside and settings.hub is None:
        return
    facts = {**_facts(recorder, launch, grace_s=settings.grace_s), "is_aside": is_aside}
    beside = CompanionProcess(recorder, facts, settings_environment(settings))
    beside.start()
    recorder.on_tick.add(beside.look)
    recorder.ending.on_end.add(beside.look)
    recorder.ending.after_finish.add(beside.wake)
    if is_aside:
        return
    FindingsReporter(recorder).begin()
    if settings.hub is not None and launch.rank == 0:
        HubReporter(recorder, settings.hub, node=_node(launch)).begin()
    recorder.ending.after_finish.add(
        beside.wait_for_sinks
    )  # last: it may take all the time that is left


class CompanionProcess:
    """The companion of one run, as the training process sees it."""

    def __init__(
        self, recorder: Recorder, facts: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        self._recorder = recorder
        self._dir = recorder.folder.path
        self._environment = environment
        self._arguments = [str(self._dir), encode_json(facts).decode()]
        self._pid = os.getpid()
        self._process: _Companion | None = None
        self._line: socket.socket | None = None
        self._may_restart = True

    def start(self) -> None:
        """Start it. If that fails, say so once; the run goes on without it."""
        ours, theirs = _line()
        try:
            self._process = _Companion(
                [sys.executable, "-W", "ignore", "-m", "epochal.companion", *self._arguments],
                stdin=subprocess.DEVNULL if theirs is None else theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._dir.anchor,  # modules beside the training must not be taken for ours
                env={**child_environment(Path(__file__).parents[2]), **self._environment},
                start_new_session=True,  # Ctrl-C is meant for the training
            )
        except OSError as error:
            self._recorder.console.notice(
                f"the companion process could not be started: {error}. The run is recorded all the"
                " same, without telemetry."
            )
        finally:
            if theirs is not None:
                theirs.close()
        if self._line is not None:
            self._line.close()
        self._line = ours

    def look(self) -> None:
        """Restart it once if it has died; the second time say what is missing."""
        process = self._process
        if process is None or os.getpid() != self._pid or (code := process.poll()) is None:
            return
        self._process = None
        if self._may_restart:
            self._may_restart = False
            self._recorder.event("companion-restarted", exit_code=code)
            self.start()
            return
        self._recorder.event("companion-lost", exit_code=code)
        self._recorder.console.notice(
            f"the companion process of run {self._recorder.name!r} died twice (exit code {code}):"
            f" there is no more telemetry. Training and its record go on; afterwards, 'epochal sync"
            f" {self._dir}' and 'epochal manage pack {self._dir}' do what it would have done."
        )

    def wake(self, status: str) -> None:
        """Wake the companion: the run has finished."""
        if self._line is None or os.getpid() != self._pid:
            return
        # Not a pipe: writing to one whose reader has died can kill a process.
        with contextlib.suppress(OSError):
            self._line.send(b"\n", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        self._line.close()
        self._line = None

    def wait_for_sinks(self, status: str) -> None:
        """Wait until sinks are done or the deadline has passed; say what is left."""
        if os.getpid() != self._pid:
            return
        left = self._unsent_at_deadline()
        for sentence in not_held(self._recorder.folder):
            self._recorder.console.notice(sentence)
        if left:
            words = "; ".join(f"{one.name}: {one.why}" for one in left)
            self._recorder.console.notice(
                f"not everything has been forwarded ({words}). The companion goes on for a while;"
                f" 'epochal sync {self._dir}' sends what is missing after that."
            )

    def _unsent_at_deadline(self) -> list[Unsent]:
        """Return the sinks that are not done when waiting is over."""
        process, deadline = self._process, self._recorder.ending.deadline
        sender = None if process is None else process.pid
        while left := unsent(self._recorder.folder, sender=sender):
            is_over = process is None or process.poll() is not None
            if is_over or all(one.is_hopeless for one in left) or not deadline.left_s():
                break
            deadline.sleep(_PAUSE_S)
        return left


class _Companion(subprocess.Popen[bytes]):
    """A process that outlives the object; Python collects it when it starts the next one."""

    def __del__(self) -> None:
        # Popen takes the function that warns of a process still running: here that is no fault.
        super().__del__(_warn=lambda *_words, **_facts: None)  # type: ignore[call-arg]


def _line() -> tuple[socket.socket | None, socket.socket | None]:
    """Return both ends of a socket that wakes the companion; None where a write could kill us."""
    if not hasattr(socket, "MSG_NOSIGNAL") or not hasattr(socket, "AF_UNIX"):
        return None, None
    try:
        return socket.socketpair()
    except OSError:
        return None, None


def _facts(recorder: Recorder, launch: Launch, *, grace_s: float) -> dict[str, Any]:
    identity = process_identity()
    return {
        "attempt": recorder.attempt,
        "parent": identity["pid"],
        "parent_start": identity["pid_start"],
        "node": node_name(_node(launch)),
        "rank": launch.rank,
        "writer": rank_writer(launch.rank),
        "shares_node": launch.world_size > 1,
        "grace_s": float(grace_s),
    }


def _node(launch: Launch) -> str:
    host = str(process_identity()["host"])
    return f"{host}-{launch.node_rank}" if launch.node_rank else host
