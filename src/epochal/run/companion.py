"""Starts the companion process of a run, restarts it once, and prints what it finds.

It is woken when the run ends. Only ``finish()`` waits for it, for a bounded time, while records
are being forwarded. The journal is the truth: a companion that misses a message finds the records
there.

The companion writes findings, and failures to reach the hub, into journals of its own. They are
read at most once a second, between two records of the training, and each is printed once.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.base.invocation import invocation
from epochal.errors import FormatError
from epochal.exchange.sinks.unsent import sentences, sink_states, unsent
from epochal.journal.layout import FINDINGS, LOOP, TELEMETRY, node_name, rank_writer
from epochal.journal.line import encode_json
from epochal.journal.process import process_identity
from epochal.records import Record
from epochal.run.own_records import OwnRecords
from epochal.run.recorder import Recorder
from epochal.settings import Settings, child_environment, settings_environment
from epochal.settings.launch import Launch
from epochal.settings.toml_file import shown_path

if TYPE_CHECKING:
    from epochal.health.finding import Finding

_PAUSE_S = 0.02
# A hub that comes and goes is not reported all day.
_MOST_NOTICES = 3
_SHOWN = ("error", "warning")
# The companion reads the last records of a run about so long after them.
_WAIT_S = 0.3
# Some thousand records. With more, reading some would cost and tell little: the companion has all.
_DIAGNOSE_BYTES = 1 << 20
_DIAGNOSE_FOR_S = 0.3
# A rule that has not come back by then hangs: finish() does not wait for it.
_HANGS_S = 3.0
_LEAST_HANGS_S = 0.5


def start_companion(recorder: Recorder, launch: Launch, *, settings: Settings) -> None:
    """Start the process beside a run, on the first rank of each node; never waits for it.

    It works in another folder, so it gets the settings in its environment and reads no file.
    """
    is_pending = not recorder.folder.identity.exists()
    # A rank that found no rank 0 writes to a pending folder, whose files move: without a hub,
    # nobody is to hold on to them. With one, they are sent from there into the run of rank 0.
    if launch.local_rank != 0 or (is_pending and settings.hub is None):
        return
    identity = process_identity()
    host, node_rank = str(identity["host"]), launch.node_rank
    node = node_name(f"{host}-{node_rank}" if node_rank else host)
    facts = {
        "attempt": recorder.attempt,
        "parent": identity["pid"],
        "parent_start": identity["pid_start"],
        "node": node,
        "rank": launch.rank,
        "writer": rank_writer(launch.rank),
        "shares_node": launch.world_size > 1,
        "grace_s": settings.grace_s,
        "is_aside": is_pending,
    }
    companion = CompanionProcess(recorder, facts, settings_environment(settings))
    companion.start()
    recorder.on_tick.add(companion.look)
    recorder.ending.on_end.add(companion.look)
    recorder.ending.after_finish.add(companion.wake)
    if is_pending:
        return
    FindingsReporter(recorder).begin()
    if settings.hub is not None and launch.rank == 0:
        HubReporter(recorder, settings.hub, node=node).begin()
    # Last, because it may take all the time that is left.
    recorder.ending.after_finish.add(companion.wait_for_sinks)


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
        """Start it. If that fails, print it once; the run goes on without it."""
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
                f"the companion process could not be started: {error}. The run is recorded without"
                " telemetry and findings."
            )
        finally:
            if theirs is not None:
                theirs.close()
        if self._line is not None:
            self._line.close()
        self._line = ours

    def look(self) -> None:
        """Restart it once if it has died; the second time print what is missing."""
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
        if self._line is None:
            return
        # Not a pipe: writing to one whose reader has died can kill a process.
        with contextlib.suppress(OSError):
            self._line.send(b"\n", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        self._line.close()
        self._line = None

    def wait_for_sinks(self, status: str) -> None:
        """Wait until sinks are done or the deadline has passed; print what is left."""
        recorder, process = self._recorder, self._process
        deadline = recorder.ending.deadline
        while left := unsent(recorder.folder, sender=None if process is None else process.pid):
            is_over = process is None or process.poll() is not None
            if is_over or all(one.is_hopeless for one in left) or not deadline.left_s():
                break
            deadline.sleep(_PAUSE_S)
        for name, stored in sink_states(recorder.folder)[1].items():
            counts, rejection = stored.get("skipped") or {}, stored.get("rejection") or ""
            for sentence in sentences(name, counts, rejection):
                recorder.console.notice(sentence)
        if left:
            words = "; ".join(f"{one.name}: {one.why}" for one in left)
            recorder.console.notice(
                f"not everything has been forwarded ({words}). The companion goes on for a while;"
                f" 'epochal sync {self._dir}' sends what is missing after that."
            )


class _Companion(subprocess.Popen[bytes]):
    """A process that outlives the object; Python collects it when it starts the next one."""

    def __del__(self) -> None:
        # Popen takes the function that warns of a process still running: here that is no fault.
        super().__del__(_warn=lambda *_words, **_facts: None)  # type: ignore[call-arg]


def _line() -> tuple[socket.socket | None, socket.socket | None]:
    """Return both ends of a socket that wakes the companion; None where a write could kill us."""
    if hasattr(socket, "MSG_NOSIGNAL") and hasattr(socket, "AF_UNIX"):
        with contextlib.suppress(OSError):
            return socket.socketpair()
    return None, None


# -- what it finds ---------------------------------------------------------------------------------


class FindingsReporter:
    """Prints the findings of one attempt of a run, each with its advice.

    At the end one line prints how the run is and which command shows why. A run so short that
    the companion has not read all of it runs the rules over its own records then.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._records = OwnRecords(writer=FINDINGS)
        self._shown: set[str] = set()  # ids of what was printed
        self._latest: dict[str, Record] = {}  # by id, as each finding was told last
        self._has_companion = False
        self._has_ended = False

    def begin(self) -> None:
        """Start looking; only rank 0 prints."""
        if self._recorder.rank == 0:
            self._recorder.on_tick.add(self.refresh)
            self._recorder.ending.after_finish.add(self.print_summary)

    def refresh(self) -> None:
        """Print the findings that the companion has written since the last time."""
        recorder = self._recorder
        try:
            for _, records in self._records.read(recorder, attempt=recorder.attempt):
                from epochal.health.finding import Finding

                self._has_companion = True
                self._has_ended |= any(record["log"] == "finish" for record in records)
                self._show([Finding.from_record(record) for record in records])
        except (OSError, FormatError):
            self._has_ended = True  # the folder has gone: the journal reports that itself

    def print_summary(self, status: str) -> None:
        """Look once more after the end, and print how many findings there were."""
        deadline = self._recorder.ending.deadline
        keep_s = max(0.0, deadline.left_s() - _WAIT_S)
        self.refresh()
        while self._has_companion and not self._has_ended and deadline.left_s() > keep_s:
            deadline.sleep(_PAUSE_S)
            self.refresh()
        if deadline.left_s() and not self._has_ended and self._is_short():
            self._diagnose_here()
        if self._shown:
            from epochal.journal.diagnosis import diagnose

            known = diagnose(self._latest.values(), observed={})
            words = known.sentence if known.causes else "what was found is resolved"
            command = f"{invocation()} doctor {shlex.quote(shown_path(self._recorder.folder.path))}"
            self._recorder.console.line(f"epochal: {words}: {command}")

    def _is_short(self) -> bool:
        """Whether this process has written so little that the rules can read all of it at once."""
        folder, own = self._recorder.folder, (LOOP, self._recorder.attempt)
        try:
            sizes = [folder.part_path(p).stat().st_size for p in folder.parts() if p[:2] == own]
        except OSError:
            return False
        return sum(sizes) <= _DIAGNOSE_BYTES

    def _diagnose_here(self) -> None:
        """Run the rules over the records of this process, for a bounded time.

        They run in a thread. What a rule that hangs would find, the companion and readers find.
        """
        from epochal.health.rule_settings import rules_of

        recorder, found = self._recorder, list["Finding"]()
        deadline = recorder.ending.deadline
        rules = rules_of(recorder.folder)
        diagnosis = rules.diagnosis(config=recorder.config, guard=recorder.guard)

        def diagnose() -> None:
            keep_s = max(0.0, deadline.left_s() - _DIAGNOSE_FOR_S)  # loading the rules is over
            for _, records in OwnRecords().read(recorder, attempt=recorder.attempt):
                for record in records:
                    found.extend(diagnosis.feed(record))
                    if deadline.left_s() <= keep_s:
                        return
            found.extend(diagnosis.close())

        budget_s = max(_LEAST_HANGS_S, min(_HANGS_S, deadline.left_s()))
        recorder.guard.bounded("diagnosis", diagnose, budget_s=budget_s)
        self._show(found)

    def _show(self, findings: Iterable[Finding | None]) -> None:
        """Print each error and warning when it is found, once."""
        for finding in list(findings):
            if finding is None:
                continue
            self._latest[finding.id] = finding.record()
            if finding.severity not in _SHOWN or finding.state != "open":
                continue
            if finding.id not in self._shown:
                self._shown.add(finding.id)
                words = f"{finding.severity}: {finding.sentence} {finding.advice}".rstrip()
                self._recorder.console.finding(words, is_error=finding.severity == "error")


# -- the hub --------------------------------------------------------------------------------------


class HubReporter:
    """Prints which hub the companion sends a run to, and when that fails."""

    def __init__(self, recorder: Recorder, hub: str, *, node: str) -> None:
        self._recorder = recorder
        self._hub = hub.partition("?")[0].rstrip("/")  # a link has its token behind that
        self._records = OwnRecords(writer=f"{TELEMETRY}{node}")
        self._printed: set[str] = set()

    def begin(self) -> None:
        """Print the address, and look for failures until the end."""
        self._recorder.console.line(f"epochal: the run is sent to the hub {self._hub}")
        self._recorder.on_tick.add(self.look)
        self._recorder.ending.after_finish.add(lambda _status: self.look())

    def look(self) -> None:
        """Print each new reason once."""
        if len(self._printed) >= _MOST_NOTICES:
            return
        recorder, records = self._recorder, list[Record]()
        with contextlib.suppress(OSError, FormatError):
            for _, block in self._records.read(recorder, attempt=recorder.attempt):
                records += block
        for record in records:
            reason = str(record.get("reason"))
            if record.get("name") == "hub-failed" and reason not in self._printed:
                self._printed.add(reason)
                recorder.console.notice(
                    f"the run is not sent to its hub at the moment: {reason} It is recorded here."
                    " What its companion cannot send until the end,"
                    f" 'epochal hub push {recorder.folder.path}' sends later."
                )
