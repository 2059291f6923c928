"""The companion process: watches a run, then does the final jobs when it has ended.

Starts before the training's first step and ends within ``EPOCHAL_GRACE`` of its last. It never
prints; what it has to say is in its own journal.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from epochal.base.alarm import interrupting
from epochal.base.guard import Fault, Guard, describe
from epochal.companion import ending
from epochal.companion.alerts import Alerts, Apprise
from epochal.companion.config import CompanionConfig, parse
from epochal.companion.diagnosis import Diagnosis
from epochal.companion.ending import CrashEvidence, ParentWatch, Waker
from epochal.companion.own_journal import (
    HEARTBEAT_LOOK_S,
    SYNC_EVERY_S,
    Durable,
    OwnJournal,
    run_title,
)
from epochal.companion.relay import Relay
from epochal.companion.sealing import LOOK_EVERY_S, SampleEncoding, Sealing
from epochal.companion.summary import SummaryWriter
from epochal.companion.telemetry_journal import GPU_EVERY_S, GPU_MEMBER, Telemetry, own_processes
from epochal.companion.timeline import CpuRing, GpuHistory, Timeline
from epochal.journal.archive_request import ArchiveJob
from epochal.journal.layout import PartName
from epochal.settings import read_settings
from epochal.telemetry.gpu import SOURCE_BUDGET_S
from epochal.telemetry.machine_gpus import MachineGpus, UsedGpus

if TYPE_CHECKING:
    from epochal.companion.hub import HubShipping, RemoteControl

# A task takes milliseconds; one that takes so long hangs.
TASK_BUDGET_S = 10.0


@dataclass(slots=True)
class Task:
    """Something that is called again and again."""

    name: str
    every_s: float
    call: Callable[[], object]
    budget_s: float
    due_s: float


class TaskLoop:
    """Tasks with intervals in seconds, first due one interval after they were added.

    A task that fails is called again at its next time: what it needs may be back by then.
    """

    def __init__(
        self, guard: Guard | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._guard = Guard() if guard is None else guard
        self._clock = clock
        self.tasks: list[Task] = []

    def every(
        self,
        every_s: float,
        name: str,
        call: Callable[[], object],
        *,
        budget_s: float = TASK_BUDGET_S,
    ) -> None:
        """Have something called again and again."""
        self.tasks.append(Task(name, every_s, call, budget_s, self._clock() + every_s))

    def run_due(self) -> float:
        """Call what is due, in the order it was added; returns the seconds until the next."""
        with self._guard.alarm.armed():
            for task in self.tasks:
                now_s = self._clock()
                if task.due_s > now_s:
                    continue
                self._guard.run(f"task {task.name}", task.call, budget_s=task.budget_s)
                # Intervals that were slept through are not made up for.
                task.due_s = max(task.due_s + task.every_s, now_s)
        now_s = self._clock()
        return max(0.0, min((task.due_s - now_s for task in self.tasks), default=1.0))


# -- one companion ---------------------------------------------------------------------------------


_LOOK_EVERY_S = 1.0
_LESS_URGENT = 5
# Five sources, each with a budget of its own.
_TELEMETRY_S = 6 * SOURCE_BUDGET_S
# A disk that is busy takes its time, and nothing is gained by asking it again.
_DISK_S = 300.0

# How the watch ended: the run said so, its process is gone, we were told to, its folder is gone.
Ending = Literal["finished", "vanished", "stopped", "removed"]


class Companion:
    """Watches one attempt of one run on one node.

    Every task, job and callback is a member of the fault boundary. If one raises or hangs, the run
    gets an ``internal-error`` event, and the others continue.
    """

    def __init__(
        self, config: CompanionConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._clock = clock
        self.journal = OwnJournal(config)
        self.guard = Guard(self._record_fault)
        self._parent = ParentWatch(config.parent, started=config.parent_start)
        self._waker = Waker(self._parent.descriptor)
        self._crash_evidence = self.guard.run("evidence", CrashEvidence.beside, config)
        self._durable = Durable(config.folder, self._record_unsynced)
        self._sealing = Sealing(config.folder, attempt=config.attempt)
        self._samples = SampleEncoding(config.folder)
        self._summary = SummaryWriter(config.folder)
        self.relay = Relay(config.folder, self.journal, guard=self.guard)
        self._alerts = self._open_alerts()
        self._shipping, self._control = self._with_hub()
        self._cpu = CpuRing(config.parent, guard=self.guard)
        self._telemetry, history = _telemetry_of(config, self.journal, self.guard)
        self._timeline = Timeline(self.journal, gpus=history, cpu=self._cpu)
        self._diagnosis = Diagnosis(
            config,
            on_finding=self._alerts.finding,
            on_finish=self._alerts.finished,
            on_alert=self._alerts.asked,
            on_records=self._timeline.take,
            guard=self.guard,
        )
        self.loop = self._scheduled()
        self._is_stopping = False

    @property
    def is_shipping(self) -> bool:
        """Whether a request to a hub is under way, or hangs."""
        return self._shipping is not None and self._shipping.is_busy

    def stop(self) -> None:
        """End the watch at the next look."""
        self._is_stopping = True

    def run(self) -> None:
        """Watch until there is nothing more to watch, then wind up."""
        how = self._watch()
        if how != "removed":
            self._wind_up(how)
        self._waker.close()
        self._parent.close()

    def _scheduled(self) -> TaskLoop:
        tasks = TaskLoop(self.guard, clock=self._clock)
        telemetry = self._telemetry
        # Sources have budgets of their own, each less than this.
        tasks.every(GPU_EVERY_S, "gpu telemetry", telemetry.sample_gpus, budget_s=_TELEMETRY_S)
        host_every_s = telemetry.host_every_s
        tasks.every(host_every_s, "host telemetry", telemetry.sample_host, budget_s=_TELEMETRY_S)
        tasks.every(SYNC_EVERY_S, "own sync", self.journal.sync, budget_s=_DISK_S)
        tasks.every(SYNC_EVERY_S, "sync", self._durable.sync, budget_s=_DISK_S)
        tasks.every(HEARTBEAT_LOOK_S, "heartbeat", self.journal.beat, budget_s=_DISK_S)
        if self._config.is_main:
            tasks.every(LOOK_EVERY_S, "sealing", self._sealing.look)
            tasks.every(_LOOK_EVERY_S, "samples", self._samples.look, budget_s=_DISK_S)
            tasks.every(_LOOK_EVERY_S, "sinks", self.relay.look)
            tasks.every(_LOOK_EVERY_S, "diagnosis", self._diagnosis.look)
            tasks.every(_LOOK_EVERY_S, "alerts", self._alerts.look)
            tasks.every(_LOOK_EVERY_S, "timeline", self._timeline.look)
            tasks.every(_LOOK_EVERY_S, "summary", self._summary.look)
        return tasks

    def _watch(self) -> Ending:
        how = self._look()
        if how is None:
            self._do("telemetry", self._telemetry.begin, budget_s=_TELEMETRY_S)
        if self._config.is_main:
            self._do("cpu", self._cpu.start)
            self._do("sinks", self.relay.look)
        if self._shipping is not None:
            self._do("hub", self._shipping.start)
        if self._control is not None:
            self._do("control", self._control.start)
        while how is None:
            self._waker.wait(min(_LOOK_EVERY_S, self.loop.run_due()))
            how = self._look()
        self._do("cpu", self._cpu.stop)
        if self._control is not None:
            self._do("control", self._control.stop)
        return how

    def _look(self) -> Ending | None:
        # The process first: what it wrote last is then all there.
        is_alive = self._parent.is_alive()
        outcome = self.guard.outcome("end of run", self._how_it_ended)
        if outcome.value is not None:
            return outcome.value
        if not is_alive:
            return "vanished"
        return "stopped" if self._is_stopping else None

    def _how_it_ended(self) -> Ending | None:
        config = self._config
        if not config.folder.journal.is_dir():
            return "removed"
        has_finished = ending.has_finished(config.folder, config.writer, config.attempt)
        return "finished" if has_finished else None

    def _wind_up(self, how: Ending) -> None:
        deadline_s = self._clock() + self._config.grace_s
        if how == "vanished":
            self._do("evidence", self._tell_of_vanishing)
        self._do("telemetry", self._telemetry.end, budget_s=_TELEMETRY_S)
        if how == "stopped":
            # The run goes on: its files are not to be sealed yet.
            self._do("diagnosis", self._diagnosis.stop)
            self._do("sync", self._durable.sync, budget_s=_DISK_S)
            self._do("sinks", self.relay.stop)
            if self._shipping is not None:
                self._do("hub", self._shipping.stop)
            if self._config.is_main:
                self._do("summary", self._summary.stop)
        else:
            self._do("journal", self.journal.close)
            self._do("sync", self._durable.sync, budget_s=_DISK_S)
            self.guard.run("task last jobs", self._do_last_jobs, how, deadline_s)
        self._do("journal", self._count_faults)
        if self._config.is_main and how != "stopped":
            self._do("summary", self._summary.finish)  # last: it covers what was written here too

    def _tell_of_vanishing(self) -> None:
        if self._crash_evidence is None:
            return
        evidence = self._crash_evidence.collect(self._telemetry.last_seen)
        self.journal.event("vanished", **evidence)
        self._alerts.say(str(evidence["sentence"]))

    def _do_last_jobs(self, how: Ending, deadline_s: float) -> None:
        # The sinks work on while other jobs are done; they are waited for last.
        if self._config.is_main:
            self._do("sinks", self.relay.finish)
        left = ending.do_what_is_left(
            self._last_jobs(how), deadline_s=deadline_s, guard=self.guard, clock=self._clock
        )
        if left:
            self.journal.event("unfinished", left=left)
        if self._config.is_main:
            self._do("diagnosis", lambda: self._diagnosis.judge_late(self.journal))

    def _last_jobs(self, how: Ending) -> dict[str, ending.LastJob]:
        if not self._config.is_main:
            return {} if self._shipping is None else {"hub": self._shipping}
        jobs: dict[str, ending.LastJob] = {"samples": self._samples, "diagnosis": self._diagnosis}
        # A run that finished writes its archive itself, before it says goodbye.
        archive = self.guard.run("job archive", ArchiveJob, self._config.folder)
        if how == "vanished" and archive is not None:
            jobs["archive"] = archive
        jobs["sealing"] = self._sealing
        jobs["summary"] = self._summary
        jobs["alerts"] = self._alerts
        if self._shipping is not None:
            jobs["hub"] = self._shipping  # after sealing: segments are smaller than their parts
        return {**jobs, "sinks": self.relay}

    def _do(
        self, name: str, call: Callable[[], object], *, budget_s: float = TASK_BUDGET_S
    ) -> None:
        with self.guard.alarm.armed():
            self.guard.run(f"task {name}", call, budget_s=budget_s)

    def _record_fault(self, fault: Fault) -> None:
        self.journal.event("internal-error", **fault.fields())

    def _record_unsynced(self, part: PartName, reason: str) -> None:
        failed = f"the disk failed to store journal/{part.stem}.jsonl: {reason}"
        self.journal.event("sync-failed", reason=failed)

    def _count_faults(self) -> None:
        """Say how often each member failed, where it was more than the once that is recorded."""
        if counts := self.guard.repeated:
            self.journal.event("internal-errors", counts=counts)
        self.journal.close()

    def _open_alerts(self) -> Alerts:
        settings = read_settings()
        send = Apprise(settings.alerts) if settings.alerts and self._config.is_main else None
        return Alerts(
            send,
            run=run_title(self._config.folder),
            least=settings.alert_on,
            on_failure=lambda reason: self.journal.event("alert-failed", reason=reason),
            guard=self.guard,
        )

    def _with_hub(self) -> tuple[HubShipping | None, RemoteControl | None]:
        """The shipping and the control that the settings ask for."""
        if read_settings().hub is None:
            return None, None
        # HTTP and TLS take memory that most runs have no use for.
        from epochal.companion.hub import open_control, open_shipping

        parts = self._config, self.journal, self.guard
        ships = self._config.is_main or self._config.is_aside
        shipping = self.guard.run("hub", open_shipping, *parts) if ships else None
        return shipping, self.guard.run("control", open_control, *parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a companion; its faults become events of the run."""
    config = parse(argv)
    _step_aside()
    with interrupting():
        companion = Companion(config)
        sys.excepthook = _fault_recorder(companion.journal)
        signal.signal(signal.SIGTERM, lambda _number, _frame: companion.stop())
        gc.freeze()  # what is here now stays: there is no use in looking at it again and again
        companion.run()
    if companion.relay.is_busy or companion.is_shipping or companion.guard.has_stuck:
        os._exit(0)  # a tracker or a driver that hangs would hang at the interpreter's end too
    return 0


def _step_aside() -> None:
    """Detach from the terminal, the folder and the CPU priority of the training."""
    for name in ("SIGINT", "SIGHUP"):
        with contextlib.suppress(AttributeError):  # a platform without it
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_LESS_URGENT)


def _fault_recorder(
    journal: OwnJournal,
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    def record(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        journal.event(
            "companion-failed",
            reason=describe(error),
            traceback="".join(traceback.format_exception(kind, error, trace)),
        )

    return record


def _telemetry_of(
    config: CompanionConfig, journal: OwnJournal, guard: Guard
) -> tuple[Telemetry, GpuHistory]:
    # Ranks may each be shown one GPU; beside them all of the node's are looked at.
    visible = MachineGpus()
    # A driver that hangs does so from its first call on.
    models = guard.bounded(GPU_MEMBER, visible.gpu_models, budget_s=SOURCE_BUDGET_S) or ()
    gpus = visible
    if config.shares_node:
        guard.bounded(GPU_MEMBER, visible.close, budget_s=SOURCE_BUDGET_S)
        gpus = MachineGpus(every=True)
    used = UsedGpus([model.id for model in models], others=config.shares_node)
    telemetry = Telemetry(
        config,
        journal,
        gpus=gpus,
        used=used,
        own_pids=lambda: own_processes(config),
        guard=guard,
        every_s=read_settings().telemetry_every_s,
    )
    return telemetry, lambda since: gpus.recent_use(since, only=used.ids)
