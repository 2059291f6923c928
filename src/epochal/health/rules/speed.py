"""Training that is slower than before or than its hardware allows, and why."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from statistics import median
from typing import NamedTuple

from epochal.health.context import Context
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import CONCLUSIVE, Message, Rule, RuleThresholds, Verdict
from epochal.records import finite
from epochal.records.format import format_count
from epochal.series.window import Recent

_DATA = "phase/data"
_DURATION = "train/duration_ms"
_LOADER_SHARE, _LOADER_MS = "time/data_wait", "time/data_wait_ms"
_THERMAL = "thermal cap"
_POWER = "power cap"
_FULL_SPEED = frozenset({"", "idle", "no cap", "not supported"})
_THROTTLED = (
    "GPU {{gpu}} is throttled by {}: it has run at {{clock_mhz:.0f}} MHz instead of "
    "{{full_mhz:.0f}}, {{lost:percent}} less, for {{seconds:duration}}."
)
_FASTER_LOADER = (
    "Give the loader more workers and prefetching, decode or tokenise beforehand, keep the data on "
    "a local disk, and copy from pinned memory without blocking."
)
_TIME_PHASES = "Time the phases of a step (run.phase) to see where the time goes."


class GpuThrottling(Rule):
    """A GPU lowers its clock because of a temperature or power limit.

    A GPU whose clock is lowered for some time, compared with its maximum.
    """

    name = "gpu-throttling"
    group = "speed"
    healthy = "The full clock. At the power limit in dense work, a tenth to a quarter less."
    reports = {
        "info": "{power_share:percent} less at the power limit.",
        "warning": (
            "For {lasting_s:duration}: a temperature limit and {thermal_share:percent} less clock "
            "than the maximum, or another limit and {other_share:percent} less."
        ),
    }
    messages = {
        _THERMAL: Message(
            _THROTTLED.format("heat{heat}"),
            "Check fans, airflow and room temperature; a lower power limit costs less than heat.",
        ),
        _POWER: Message(
            _THROTTLED.format("its power limit"),
            "Compare the power limit with the board's default (nvidia-smi -q -d POWER). If it is "
            "the default, the work is dense and this is the highest speed of the board.",
            "info",
        ),
        "other": Message(
            _THROTTLED.format("its driver or board"),
            "Look for locked clocks or a sync boost group (nvidia-smi -q -d PERFORMANCE).",
        ),
    }
    kinds = frozenset({"gpu"})
    release = 2

    class Thresholds(RuleThresholds):
        # Heat lowers the clock in steps of a few percent: any lasting loss matters.
        thermal_share: float = 0.05
        # Dense work at the power limit is a tenth or two below the maximum clock by design.
        power_share: float = 0.3
        other_share: float = 0.15
        lasting_s: float = 20.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._since: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a record of a GPU that is at work."""
        limits, record = self.thresholds, observation.record
        gpu, word = record.get("id", 0), str(record.get("throttle") or "")
        clock, largest = finite(record.get("clock")), finite(record.get("max_clock"))
        use, is_limited = finite(record.get("gpu_util")), word not in _FULL_SPEED
        # An idle GPU lowers its clock by itself.
        if not clock or not largest or (is_limited and use is not None and use < 20):
            return
        key, subject = f"{observation.rank}/{observation.writer}/{gpu}", f"gpu/{gpu}/clock"
        shares = {_THERMAL: limits.thermal_share, _POWER: limits.power_share}
        interval_s = finite(record.get("interval_s")) or 0.0
        passed_s = interval_s or max(0.0, observation.t - self._last.get(key, observation.t))
        self._last[key] = observation.t
        if not is_limited or clock >= (1 - shares.get(word, limits.other_share)) * largest:
            self._since.pop(key, None)
            yield Verdict(subject, False, extent=passed_s)
            return
        seconds = observation.t - self._since.setdefault(key, observation.t - interval_s)
        if seconds < limits.lasting_s:
            return
        lost, temperature = 1 - clock / largest, finite(record.get("temperature"))
        yield self.found(
            word if word in self.messages else "other",
            subject,
            words={"gpu": str(gpu), "heat": f" at {temperature:.0f} °C" if temperature else ""},
            extent=seconds,
            clock_mhz=clock,
            full_mhz=largest,
            lost=round(lost, 3),
            seconds=seconds,
        )


class InputBound(Rule):
    """The device waits for data.

    A large share of a step is spent waiting for data, by its phases or its duration.
    """

    name = "input-bound"
    group = "speed"
    healthy = "Waiting for data takes less than a tenth of a step."
    reports = {
        "info": (
            "Without timed phases: {pause_share:percent} of the time, and {pause_ms:plain} ms or "
            "more, pass between four of five steps. Not in reinforcement learning."
        ),
        "warning": (
            "Waiting for data takes {wait_share:percent} of the time in two `phases` records in a "
            "row, or {wait_grave:percent} in one. Or the loader takes {wait_share:percent} of the "
            "time in two records, and {pause_ms:plain} ms or more for each batch, while no GPU is "
            "more than {busy_pct:plain} % in use."
        ),
        "error": "Waiting for data takes {wait_grave:percent} of the time in two records in a row.",
    }
    messages = {
        "waits": Message(
            "{share:percent} of each step{whose} is spent waiting for data ({data_ms:.1f} of "
            "{wall_ms:.1f} ms).",
            _FASTER_LOADER,
        ),
        "loader": Message(
            "The training waits for its data loader {share:percent} of the time, {wait_ms:.1f} ms "
            "for each batch.",
            _FASTER_LOADER,
        ),
        "pauses": Message(
            "{share:percent} of the time passes between the steps, usually waiting for data.",
            f"{_FASTER_LOADER} {_TIME_PHASES}",
            "info",
        ),
    }
    needs = (
        "The time of a data loader of torch is measured without being asked. Timed phases "
        '(`with run.phase("data"):`) give the best evidence.'
    )
    kinds = frozenset({"phases", "step", "metrics", "gpu"})

    class Thresholds(RuleThresholds):
        # Loops that are fed well wait for up to a fifth of a step on a busy machine.
        wait_share: float = 0.3
        wait_grave: float = 0.6
        # A slow loader is slow at nearly every step; an evaluation makes some long pauses.
        pause_share: float = 0.5
        # One process makes a batch of small samples within this time.
        pause_ms: float = 5.0
        # A GPU may have work for longer than the wait.
        busy_pct: float = 85.0

    thresholds: Thresholds

    def reset(self) -> None:
        """Start again: the first batches of an attempt wait for workers to start."""
        self._busiest: dict[object, float] = {}  # by GPU: its use, in percent
        self._loader_waits = 0
        self._waits: dict[int, int] = {}  # by rank: `phases` records in a row that waited
        self._pauses: deque[tuple[float, float]] = deque(maxlen=30)
        self._last: tuple[int, float] | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check by phases; by the durations of steps only if there are none."""
        if observation.kind == "phases":
            return self._see_phases(observation, context)
        if observation.kind == "gpu":
            if (use := finite(observation.record.get("gpu_util"))) is not None:
                self._busiest[observation.record.get("id")] = use
            return ()
        if observation.kind == "metrics":
            return self._see_loader(observation)
        if self._waits or not context.family.loss_falls or observation.rank > 0:
            return ()
        return self._see_step(observation)

    def _see_phases(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        rank, limits = observation.rank, self.thresholds
        if rank not in self._waits:
            self._waits[rank] = 0
            return  # the first record has the start of the workers in it
        # Phases tell what the durations could not.
        yield Verdict(_DURATION, False, extent=CONCLUSIVE)
        wall_ms, data_ms = finite(observation.record.get("wall_ms")), observation.values.get(_DATA)
        if not wall_ms or wall_ms < 0 or data_ms is None:
            return
        share, subject = data_ms / wall_ms, _DATA + observation.rank_suffix
        self._waits[rank] = waits = self._waits[rank] + 1 if share >= limits.wait_share else 0
        is_grave = share >= limits.wait_grave
        if not waits:
            yield Verdict(subject, False)
        elif waits > 1 or is_grave:  # one may have been a moment in which the machine was busy
            last, covered = observation.step, waits * observation.count_of("steps")
            yield self.found(
                "waits",
                subject,
                steps=None if last is None else (max(0, last - covered + 1), last),
                severity="error" if waits > 1 and is_grave else None,
                words={"whose": context.of_rank(rank)},
                extent=waits,
                **context.rank_evidence(rank),
                data_ms=data_ms,
                wall_ms=wall_ms,
                share=round(share, 3),
            )

    def _see_loader(self, observation: Observation) -> Iterable[Verdict]:
        limits, share = self.thresholds, observation.values.get(_LOADER_SHARE)
        wait_ms = observation.values.get(_LOADER_MS)
        if share is None or wait_ms is None or self._waits:
            return
        is_idle = max(self._busiest.values(), default=0.0) <= limits.busy_pct
        if share < limits.wait_share or wait_ms < limits.pause_ms or not is_idle:
            self._loader_waits = 0
            yield Verdict(_LOADER_SHARE, False)
            return
        self._loader_waits += 1
        if self._loader_waits > 1:
            step, waits = observation.step or 0, self._loader_waits
            yield self.found(
                "loader",
                _LOADER_SHARE,
                steps=(step, step),
                extent=waits,
                share=round(share, 3),
                wait_ms=wait_ms,
            )

    def _see_step(self, observation: Observation) -> Iterable[Verdict]:
        limits, step, last = self.thresholds, observation.step, self._last
        duration_ms = observation.values.get(_DURATION)
        if step is None or duration_ms is None:
            return
        self._last = (step, observation.t)
        if last is None or step <= last[0] or duration_ms <= 0 or observation.t <= last[1]:
            return
        wall_ms = 1000 * (observation.t - last[1]) / (step - last[0])
        self._pauses.append((1 - duration_ms / wall_ms, wall_ms - duration_ms))
        if len(self._pauses) < 30:
            return
        share = sorted(share for share, _ in self._pauses)[len(self._pauses) // 5]
        if share < limits.pause_share or median(ms for _, ms in self._pauses) < limits.pause_ms:
            yield Verdict(_DURATION, False)
            return
        # Not sure: a timer that does not wait for the GPU measures how long it queues work.
        yield self.found(
            "pauses",
            _DURATION,
            extent=len(self._pauses),
            share=round(share, 3),
            duration_ms=duration_ms,
            wall_ms=wall_ms,
        )


class _Speed(NamedTuple):
    t: float
    step: int
    value: float


class ThroughputDrop(Rule):
    """The run is slower than before.

    A throughput well below the median of the records before it.
    """

    name = "throughput-drop"
    group = "speed"
    healthy = "Near its own median. Pauses for evaluation and saving do not count."
    reports = {
        "info": (
            "Below {share:percent} of the usual speed for {lasting_s:duration}, or for {records} "
            "records in a row if they are sparse. The finding names the first slow step."
        ),
        "warning": (
            "The same of a throughput in tokens or samples, while the CPUs are below "
            "{cpu_pct:plain} %. Longer inputs and other programs explain longer steps."
        ),
    }
    messages = {
        "slower": Message(
            "Throughput fell by {less:percent}, from {from} to {to} {unit}, at step {since}.",
            "Look at the system panel at that time: GPU clocks, CPU load, memory and disk. Other "
            "programs on the machine, slow storage and longer inputs are common reasons.",
            "info",
        )
    }
    needs = "A throughput in tokens or samples; without one, the time between records counts."
    kinds = frozenset({"step", "metrics", "system"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # A fifth less is beyond what clocks and batches vary by.
        share: float = 0.8
        # A background save slows a run for ten or twenty seconds, another program for longer.
        lasting_s: float = 40.0
        records: int = 3
        cpu_pct: float = 90.0

    thresholds: Thresholds
    _cpu_pct: float | None = None  # of the machine, whatever is measured

    def reset(self) -> None:
        """Learn the usual value again: a resumed run may have another machine or batch."""
        self._source = ""
        self._usual = Recent(400)
        self._recent: deque[_Speed] = deque()
        self._last: tuple[int, float] | None = None
        self._since: int | None = None  # the first slow step of a drop

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check one record of each second against the usual throughput."""
        if observation.kind == "system":
            self._cpu_pct = observation.values.get("system/cpu_pct", self._cpu_pct)
        step, t, recent, limits = observation.step, observation.t, self._recent, self.thresholds
        if step is None or (recent and recent[-1].t <= t < recent[-1].t + 0.99):
            return
        speed = self._speed(observation, context)
        if speed is None or not 0 < speed < math.inf:
            return
        recent = self._recent
        recent.append(_Speed(t, step, speed))
        while len(recent) > limits.records and recent[1].t <= t - limits.lasting_s:
            old = recent.popleft()
            if self._since is None:  # a drop does not become the usual speed
                self._usual.push(old.value)
        if len(self._usual) >= 30:
            yield self._judge()

    def _speed(self, observation: Observation, context: Context) -> float | None:
        """Return the throughput, or steps per second by the time between records."""
        source = context.role_names.get("throughput", "")
        if source != self._source:
            self.reset()
            self._source = source
        if source:
            return observation.roles.get("throughput")
        step, t, last = observation.step or 0, observation.t, self._last
        self._last = (step, t)
        return (step - last[0]) / (t - last[1]) if last is not None and t > last[1] else None

    def _judge(self) -> Verdict:
        recent, limits, usual = self._recent, self.thresholds, self._usual.median()
        # Most records below the slowest fiftieth of those before are not chance.
        limit = min(limits.share * usual, self._usual.quantile(0.02))
        ordered = sorted(one.value for one in recent)
        # Three quarters of the records must be slow, and two fifths of them later.
        place = int((0.75 if self._since is None else 0.4) * len(ordered))
        if ordered[place] >= limit or recent[-1].t - recent[0].t < limits.lasting_s:
            self._since = None
            return Verdict(self._source, False)
        if self._since is None:
            slow = takewhile(lambda one: one.value < limit, reversed(recent))
            self._since = min((one.step for one in slow), default=recent[-1].step)
        now = ordered[len(ordered) // 2]
        unit = self._source.rpartition("/")[2].replace("_per_second", "/s") or "steps/s"
        has_time = self._cpu_pct is not None and self._cpu_pct < limits.cpu_pct
        return self.found(
            "slower",
            self._source,
            steps=(self._since, recent[-1].step),
            severity="warning" if has_time and self._source else None,
            words={"from": _shown(usual), "to": _shown(now), "unit": unit},
            extent=len(recent),
            usual=usual,
            now=now,
            less=round(1 - now / usual, 3),
            since=self._since,
        )


def _shown(value: float) -> str:
    return format_count(value) if value >= 1000 else f"{value:.3g}"


_SOL = "train/sol"


class LowSpeedOfLight(Rule):
    """The hardware could do the same work much faster.

    The speed-of-light percentage of the steps stays low.
    """

    name = "low-sol"
    group = "speed"
    healthy = "{share_pct:plain} % of the speed of light or more; 80 % is excellent."
    reports = {
        "info": "Below {share_pct:plain} % over {window} records.",
        "warning": "Below {grave_pct:plain} %.",
    }
    messages = {
        "low": Message(
            "The training runs at {sol_pct:plain} % of the speed of light over the last {window} "
            "records; {share_pct:plain} % or more is good.",
            "Find out where the time goes with run.phase: waiting for data, the exchange between "
            "ranks, or small kernels. Try larger batches, compilation and fused attention.",
            "info",
        )
    }
    kinds = frozenset({"step"})
    every_rank = False
    patience = 5
    release = 5

    class Thresholds(RuleThresholds):
        # 80 % of the speed of light is excellent; below 60 % something holds the hardware up.
        share_pct: float = 60.0
        # Below this it is no longer a matter of tuning kernels.
        grave_pct: float = 25.0
        window: int = 50

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._recent = Recent(thresholds.window)
        self._count = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the median of the last steps, so that pauses do not count."""
        limits, sol = self.thresholds, observation.values.get(_SOL)
        self._count += sol is not None
        if sol is None or not math.isfinite(sol) or self._count <= 20:  # compilation, clocks
            return ()
        self._recent.push(sol)
        if len(self._recent) < limits.window:
            return ()
        level = round(self._recent.median(), 1)
        if level >= limits.share_pct:
            return (Verdict(_SOL, False),)
        severity: Severity = "warning" if level < limits.grave_pct else "info"
        extent = limits.window
        return (self.found("low", _SOL, severity=severity, extent=extent, sol_pct=level),)
