"""The companion's life: watch a run, then do what is left to do when it has ended.

Starts before the training's first step and ends within ``EPOCHAL_GRACE`` of its last. It never
prints; what it has to say is in its own journal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal

from epochal.companion import ending
from epochal.companion.alerts import Alerts, open_alerts
from epochal.companion.archiving import ArchivingJob
from epochal.companion.bell import Bell
from epochal.companion.charge import Charge, parse
from epochal.companion.clockwork import Clockwork
from epochal.companion.cpu_ring import CpuRing
from epochal.companion.diagnosis import Diagnosis
from epochal.companion.durable import SYNC_EVERY_S, Durable
from epochal.companion.evidence import Witness
from epochal.companion.gpu_journal import GPU_EVERY_S
from epochal.companion.own_journal import OwnJournal, run_title
from epochal.companion.parent import ParentWatch
from epochal.companion.relay import Relay
from epochal.companion.sealing import LOOK_EVERY_S, Sealing
from epochal.companion.telemetry_journal import Telemetry, own_processes
from epochal.companion.timeline import GpuHistory, Timeline, recent_use_of
from epochal.settings import read_settings
from epochal.telemetry.machine_gpus import MachineGpus
from epochal.telemetry.used import UsedGpus

_LOOK_EVERY_S = 1.0
_LESS_URGENT = 5

# How the watch ended: the run said so, its process is gone, we were told to, its folder is gone.
Ending = Literal["finished", "vanished", "stopped", "removed"]


class Companion:
    """Watches one attempt of one run on one node."""

    def __init__(self, charge: Charge, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._charge = charge
        self._clock = clock
        self._parent = ParentWatch(charge.parent, started=charge.parent_start)
        self._bell = Bell(self._parent.descriptor)
        self._witness = Witness.beside(charge)
        self.journal = OwnJournal(charge)
        self._durable = Durable(charge.folder)
        self._sealing = Sealing(charge.folder)
        self.relay = Relay(charge.folder, self.journal)
        self._alerts = _alerts_of(charge, self.journal)
        self._cpu = CpuRing(charge.parent)
        self._telemetry, history = _telemetry_of(charge, self.journal)
        self._timeline = Timeline(self.journal, gpus=history, cpu=self._cpu)
        self._diagnosis = Diagnosis(
            charge,
            on_finding=self._alerts.finding,
            on_finish=self._alerts.finished,
            on_records=self._timeline.take,
        )
        self._is_told_to_stop = False

    def stop(self) -> None:
        """End the watch at the next look."""
        self._is_told_to_stop = True

    def run(self) -> None:
        """Watch until there is nothing more to watch, then wind up."""
        how = self._watch()
        if how != "removed":
            self._wind_up(how)
        self._bell.close()
        self._parent.close()

    def _watch(self) -> Ending:
        how = self._look()
        if how is None:
            self._telemetry.begin()
        clockwork = Clockwork(clock=self._clock)
        clockwork.every(GPU_EVERY_S, self._telemetry.sample_gpus)
        clockwork.every(self._telemetry.host_every_s, self._telemetry.sample_host)
        clockwork.every(SYNC_EVERY_S, self._durable.sync)
        if self._charge.is_main:
            clockwork.every(LOOK_EVERY_S, self._sealing.look)
            clockwork.every(_LOOK_EVERY_S, self.relay.look)
            clockwork.every(_LOOK_EVERY_S, self._diagnosis.look)
            clockwork.every(_LOOK_EVERY_S, self._alerts.look)
            clockwork.every(_LOOK_EVERY_S, self._timeline.look)
            self._cpu.start()
            self.relay.look()
        while how is None:
            self._bell.wait(min(_LOOK_EVERY_S, clockwork.run_due()))
            how = self._look()
        self._cpu.stop()
        return how

    def _look(self) -> Ending | None:
        charge = self._charge
        # The process first: what it wrote last is then all there.
        is_alive = self._parent.is_alive()
        if not charge.folder.journal.is_dir():
            return "removed"
        if ending.has_finished(charge.folder, charge.writer, charge.attempt):
            return "finished"
        if not is_alive:
            return "vanished"
        return "stopped" if self._is_told_to_stop else None

    def _wind_up(self, how: Ending) -> None:
        deadline_s = self._clock() + self._charge.grace_s
        if how == "vanished":
            testimony = self._witness.testify(self._telemetry.last_seen)
            self.journal.event("vanished", **testimony)
            self._alerts.say(str(testimony["sentence"]))
        self._telemetry.end()
        if how == "stopped":
            self._diagnosis.stop()
            self._durable.sync()
            self.relay.stop()
            return  # the run goes on: its files are not to be sealed yet
        self.journal.close()
        self._durable.sync()
        if self._charge.is_main:
            self._do_last_jobs(how, deadline_s)

    def _do_last_jobs(self, how: Ending, deadline_s: float) -> None:
        self.relay.finish()  # the sinks work on while other jobs are done; they are waited for last
        # A run that finished writes its archive itself, before it says goodbye.
        archive = [ArchivingJob(self._charge.folder)] if how == "vanished" else []
        jobs: list[ending.LastJob] = [
            self._diagnosis,
            *archive,
            ending.SealingJob(self._charge.folder, self._charge.attempt, self._sealing),
            self._alerts,
            self.relay,
        ]
        left = ending.do_what_is_left(jobs, deadline_s=deadline_s, clock=self._clock)
        if left:
            self.journal.event("unfinished", left=left)
            self.journal.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a companion; its faults become events of the run."""
    charge = parse(argv)
    _step_aside()
    companion = Companion(charge)
    sys.excepthook = _fault_recorder(companion.journal)
    signal.signal(signal.SIGTERM, lambda _number, _frame: companion.stop())
    companion.run()
    if companion.relay.is_busy:
        os._exit(0)  # a tracker that hangs would hang at the interpreter's end too
    return 0


def _step_aside() -> None:
    """Take no part in what is meant for the training: its terminal, its folder, its CPU."""
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
            reason=f"{kind.__name__}: {error}",
            traceback="".join(traceback.format_exception(kind, error, trace)),
        )

    return record


def _alerts_of(charge: Charge, journal: OwnJournal) -> Alerts:
    settings = read_settings()
    return open_alerts(
        settings.alerts if charge.is_main else (),
        run=run_title(charge.folder),
        least=settings.alert_on,
        on_failure=lambda reason: journal.event("alert-failed", reason=reason),
    )


def _telemetry_of(charge: Charge, journal: OwnJournal) -> tuple[Telemetry, GpuHistory]:
    # Ranks may each be shown one GPU; beside them all of the node's are looked at.
    visible = MachineGpus()
    ids = [model.id for model in visible.gpu_models()]
    gpus = visible
    if charge.shares_node:
        visible.close()
        gpus = MachineGpus(every=True)
    used = UsedGpus(ids, others=charge.shares_node)
    telemetry = Telemetry(
        charge,
        journal,
        gpus=gpus,
        used=used,
        own_pids=lambda: own_processes(charge),
        every_s=read_settings().telemetry_every_s,
    )
    return telemetry, recent_use_of(gpus, lambda: used.ids)
