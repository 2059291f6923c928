"""Records the machine around a step that took too long: samples, idle gaps and their cause.

GPU utilisation comes from samples that the driver keeps (about 14 s of them) and that are read
afterwards. So a run at its usual speed costs nothing.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from epochal.base.guard import Guard
from epochal.companion.own_journal import OwnJournal
from epochal.journal.layout import LOOP
from epochal.records import Record, finite
from epochal.series.window import Recent

Sample = tuple[float, float]  # Unix seconds, percent
# Gives the use of GPUs since a moment, by id: samples in the order of time.
GpuHistory = Callable[[float], Mapping[int, Sequence[Sample]]]

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
_START_UP_S = 30.0
_BOUNDARY_S = 0.5
_BUSY_PCT = 80.0
# Overlap below this share of a gap explains nothing.
_LEAST_SHARE = 0.3
STEP_KINDS = frozenset({"step", "metrics"})
# Below this nobody waits; the driver's samples would not show it either.
_LEAST_S = 1.0
_TIMES_USUAL = 3.0
# Before so many steps nothing is usual: compilation, first batches, caches.
_FIRST_STEPS = 10
PERIOD_S = 0.1
_KEPT_S = 40.0


class Timeline:
    """Watches for slow stretches and writes a ``timeline`` record for each that is worth one."""

    def __init__(
        self,
        journal: OwnJournal,
        *,
        gpus: GpuHistory,
        cpu: CpuRing,
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
        last_step_at = self._last_step_at
        for record in records:
            if record["log"] in STEP_KINDS:
                at = record.get("t")
                if type(at) is float or isinstance(at, (int, float)):
                    if 0.0 <= at - last_step_at < _SOON_S:
                        continue  # so soon after the last step that neither can have been slow
                    last_step_at = self._last_step_at = at
            self._take(record)

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


# -- steps that took long --------------------------------------------------------------------------


class Stretch(NamedTuple):
    """A step that took long: from the record before it to its own, in Unix seconds."""

    start: float
    end: float
    step: int
    usual_s: float

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        seconds = self.end - self.start
        times = seconds / max(self.usual_s, 1e-3)
        return f"step {self.step} took {seconds:.1f} s, {times:.1f} times the usual"


class SlowSteps:
    """Follows rank 0's steps; a step logged every k steps counts as k."""

    def __init__(self) -> None:
        self._usual_s = Recent(200)
        self._num_seen = 0
        self._last: tuple[int, float] | None = None

    def take(self, record: Record) -> Stretch | None:
        """The slow stretch that a record ends, if it does."""
        place = _place(record)
        if place is None or self._last is None:
            self._last = place or self._last
            return None
        (before, since), (step, at) = self._last, place
        if step == before:
            return None  # several records of one step
        self._last = place
        if step < before or at <= since:
            return None
        seconds = at - since
        a_step_s = seconds / (step - before)
        usual_s = self._usual_s.median() if self._num_seen else None
        self._usual_s.push(a_step_s)
        self._num_seen += 1
        if usual_s is None or self._num_seen <= _FIRST_STEPS or seconds < _LEAST_S:
            return None
        expected_s = usual_s * (step - before)
        return Stretch(since, at, step, expected_s) if seconds > _TIMES_USUAL * expected_s else None


def _place(record: Record) -> tuple[int, float] | None:
    step: Any = record.get("step")
    at = finite(record.get("t"))
    if record.get("log") not in STEP_KINDS or not isinstance(step, int):
        return None
    return None if at is None else (step, at)


# -- idle devices ----------------------------------------------------------------------------------


class Gap(NamedTuple):
    """A time in which a device did nothing, in Unix seconds."""

    start: float
    end: float


class Doing(NamedTuple):
    """Something the run did, and when."""

    name: str
    start: float
    end: float


def idle_gaps(samples: Sequence[Sample], *, below_pct: float, least_s: float) -> list[Gap]:
    """Where a device's use stayed below a share for long enough; samples in the order of time."""
    gaps: list[Gap] = []
    for is_idle, group in groupby(enumerate(samples), lambda one: one[1][1] < below_pct):
        places = [place for place, _ in group]
        # A gap ends with the first sample of use, or with the last one there is.
        end = samples[min(places[-1] + 1, len(samples) - 1)][0]
        gap = Gap(samples[places[0]][0], end)
        if is_idle and gap.end - gap.start >= least_s:
            gaps.append(gap)
    return gaps


def doing_of(record: Record) -> Doing | None:
    """The activity that a record shows, with its time; None for other records."""
    at, kind = finite(record.get("t")), record.get("log")
    if at is None:
        return None
    seconds = (finite(record.get("duration_ms")) or 0.0) / 1000.0
    if kind == "span":
        start = finite(record.get("start"))
        return Doing(str(record.get("name")), at - seconds if start is None else start, at)
    if kind == "eval":
        return Doing("eval", at - seconds, at)
    if kind == "epoch":
        return Doing("epoch boundary", at - _BOUNDARY_S, at + _BOUNDARY_S)
    if kind == "message" and seconds:
        return Doing(str(record.get("text")), at - seconds, at)
    if kind == "event" and str(record.get("name", "")).startswith("checkpoint"):
        return Doing("save", at - max(seconds, _BOUNDARY_S), at + _BOUNDARY_S)
    return None


def cause_of(
    gap: Gap, *, doings: Iterable[Doing], cpu: Sequence[Sample], started: float | None
) -> str:
    """What most of a gap is explained by: a thing done, the start, the host; else unexplained."""
    shares: dict[str, float] = {}
    for doing in doings:
        overlap = min(gap.end, doing.end) - max(gap.start, doing.start)
        if overlap > 0:
            shares[doing.name] = shares.get(doing.name, 0.0) + overlap
    length = max(gap.end - gap.start, 1e-9)
    name = max(shares, key=lambda one: shares[one], default="")
    if shares and shares[name] / length >= _LEAST_SHARE:
        return name
    if started is not None and gap.start - started < _START_UP_S:
        return "start-up"
    meanwhile = [percent for at, percent in cpu if gap.start <= at <= gap.end]
    if meanwhile and sum(meanwhile) / len(meanwhile) >= _BUSY_PCT:
        return "host"
    return "unexplained"


class CpuRing:
    """A thread that samples one process; percent of one core, the process's own threads together.

    One reading takes some 30 microseconds, so the whole costs less than a thousandth of a core.
    """

    def __init__(self, pid: int, *, guard: Guard | None = None) -> None:
        self._pid = pid
        self._samples: deque[Sample] = deque(maxlen=round(_KEPT_S / PERIOD_S))
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=(guard or Guard()).wrap("source cpu", self._sample),
            name="epochal-cpu",
            daemon=True,
        )

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was sampled stays."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def between(self, start: float, end: float) -> list[Sample]:
        """The samples of a time, in Unix seconds."""
        return [sample for sample in list(self._samples) if start <= sample[0] <= end]

    def _sample(self) -> None:
        import psutil

        try:
            process = psutil.Process(self._pid)
            process.cpu_percent(None)
            while not self._stop.wait(PERIOD_S):
                self._samples.append((time.time(), process.cpu_percent(None)))
        except psutil.Error:
            return  # the process has ended
