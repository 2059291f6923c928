"""Records the machine around a step that took too long: samples, idle gaps and their cause.

GPU utilisation comes from samples that the driver keeps (about 14 s of them) and that are read
afterwards. So a run at its usual speed costs nothing.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from epochal.companion.cpu_ring import PERIOD_S
from epochal.companion.idle import Doing, Gap, Sample, cause_of, doing_of, idle_gaps
from epochal.companion.own_journal import OwnJournal
from epochal.companion.slow_steps import STEP_KINDS, SlowSteps, Stretch
from epochal.journal.alike import AlikeRecords
from epochal.journal.layout import LOOP
from epochal.records import Record, finite

_SOON_S = 0.005
_BEFORE_S = 2.0
_AFTER_S = 1.0
_LONGEST_S = 30.0
_IDLE_GPU_PCT = 5.0
_IDLE_CPU_PCT = 10.0
_GAP_S = 0.2
# What is slow again and again for the same cause is not told each time: twice as long each time.
_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0
_MOST_RECORDS = 200


# Gives the use of GPUs since a moment, by id: samples in the order of time.
GpuHistory = Callable[[float], Mapping[int, Sequence[Sample]]]


class CpuHistory(Protocol):
    """Gives how busy the training process was."""

    def between(self, start: float, end: float) -> list[Sample]:
        """Samples in the order of time, Unix seconds and percent of one core."""


class Timeline:
    """Watches for slow stretches and writes a ``timeline`` record for each that is worth one."""

    def __init__(
        self,
        journal: OwnJournal,
        *,
        gpus: GpuHistory,
        cpu: CpuHistory,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._gpus = gpus
        self._cpu = cpu
        self._wall = wall
        self._slow = SlowSteps()
        self._doings: deque[Doing] = deque(maxlen=500)
        self._started: float | None = None
        self._waiting: Stretch | None = None
        self._quiet_until = 0.0
        self._pause_s = _PAUSE_S
        self._last_cause: str | None = None
        self._num_written = 0
        self._last_step_at = 0.0

    def take(self, writer: str, records: Iterable[Record]) -> None:
        """Take in what the writer of this name wrote."""
        if writer != LOOP:
            return
        if isinstance(records, AlikeRecords) and records.kind in STEP_KINDS:
            self._take_alike(records)
            return
        last_step_at = self._last_step_at
        for record in records:
            if record["log"] in STEP_KINDS:
                at = record.get("t")
                if type(at) is float or isinstance(at, (int, float)):
                    if 0.0 <= at - last_step_at < _SOON_S:
                        continue  # so soon after the last step that neither can have been slow
                    last_step_at = self._last_step_at = at
            self._take(record)

    def _take_alike(self, records: AlikeRecords) -> None:
        """The same for steps, without a look into those that are left out."""
        last_step_at = self._last_step_at
        for place, at in enumerate(records.times):
            if not 0.0 <= at - last_step_at < _SOON_S:
                last_step_at = self._last_step_at = at
                self._take(records[place])

    def _take(self, record: Record) -> None:
        if self._started is None:
            self._started = finite(record.get("t"))
        doing = doing_of(record)
        if doing is not None:
            self._doings.append(doing)
        stretch = self._slow.take(record)
        if stretch is not None and self._waiting is None and self._is_worth(stretch):
            self._waiting = stretch

    def look(self) -> None:
        """Write about the stretch that waits, once a little of what followed has passed."""
        stretch = self._waiting
        if stretch is not None and self._wall() >= stretch.end + _AFTER_S:
            self._waiting = None
            self._write(stretch)

    def _is_worth(self, stretch: Stretch) -> bool:
        is_recent = self._wall() - stretch.end < _LONGEST_S
        return is_recent and stretch.end >= self._quiet_until and self._num_written < _MOST_RECORDS

    def _write(self, stretch: Stretch) -> None:
        end = stretch.end + _AFTER_S
        start = max(stretch.start - _BEFORE_S, end - _LONGEST_S)
        cpu = self._cpu.between(start, end)
        gpus = self._gpus(start)
        gaps = self._gaps(gpus, cpu)
        tracks: dict[str, Sequence[Sample]] = {f"gpu/{gpu}/util": gpus[gpu] for gpu in sorted(gpus)}
        tracks["cpu"] = cpu
        self._journal.write(
            "timeline",
            {
                "start": round(start, 3),
                "period_s": PERIOD_S,
                "step": stretch.step,
                "samples": {name: on_grid(track, start, end) for name, track in tracks.items()},
                "gaps": gaps,
                "reason": stretch.sentence,
            },
        )
        self._num_written += 1
        self._rest(stretch, gaps)

    def _gaps(
        self, gpus: Mapping[int, Sequence[Sample]], cpu: Sequence[Sample]
    ) -> list[dict[str, Any]]:
        devices = [(f"gpu/{gpu}", gpus[gpu], _IDLE_GPU_PCT) for gpu in sorted(gpus)]
        return [
            {"device": device, **self._described(gap, cpu)}
            for device, use, below_pct in devices or [("cpu", cpu, _IDLE_CPU_PCT)]
            for gap in idle_gaps(use, below_pct=below_pct, least_s=_GAP_S)
        ]

    def _described(self, gap: Gap, cpu: Sequence[Sample]) -> dict[str, Any]:
        cause = cause_of(gap, doings=self._doings, cpu=cpu, started=self._started)
        return {"start": round(gap.start, 3), "end": round(gap.end, 3), "cause": cause}

    def _rest(self, stretch: Stretch, gaps: Sequence[Mapping[str, Any]]) -> None:
        seconds: Counter[str] = Counter()
        for gap in gaps:
            seconds[str(gap["cause"])] += gap["end"] - gap["start"]
        cause = max(seconds, key=lambda one: seconds[one], default="")
        is_known = cause == self._last_cause
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S) if is_known else _PAUSE_S
        self._last_cause = cause
        self._quiet_until = stretch.end + self._pause_s


def on_grid(samples: Sequence[Sample], start: float, end: float) -> list[float | None]:
    """Samples at even times: the nearest within a period and a half, None where there is none."""
    times = [at for at, _ in samples]
    found: list[float | None] = []
    for index in range(round((end - start) / PERIOD_S)):
        at = start + index * PERIOD_S
        place = bisect_left(times, at)
        near = [i for i in (place - 1, place) if 0 <= i < len(times)]
        best = min(near, key=lambda i: abs(times[i] - at), default=None)
        is_near = best is not None and abs(times[best] - at) <= 1.5 * PERIOD_S
        found.append(round(samples[best][1], 1) if best is not None and is_near else None)
    return found


def recent_use_of(source: RecentUse, used: Callable[[], Collection[int]]) -> GpuHistory:
    """The history of the GPUs that a run uses."""
    return lambda since: source.recent_use(since, only=used())


class RecentUse(Protocol):
    """A GPU source whose driver remembers."""

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[Sample]]:
        """Use of each GPU since a moment."""
