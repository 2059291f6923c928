"""A training that is slower than before."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochal.format import format_count
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_DURATION = "train/duration_ms"
_ADMIT_BELOW = 0.5  # with more slow records than this, they are no longer part of what is usual
_REFRESH_EVERY = 20
_LASTING = 0.8  # of the recent time: a drop that lasts


@dataclass(frozen=True, slots=True)
class _Speed:
    t: float
    step: int
    value: float
    is_slow: bool


class ThroughputDrop(Rule):
    """Throughput well below the run's own usual one, for most of a minute or several records.

    Without a throughput the rule uses the duration of the steps, else the time between records. The
    usual value is the median of records that were not slow. So pauses for evaluation and saving
    neither count as a drop nor change the usual value.
    """

    name = "throughput-drop"
    group = "speed"
    meaning = "The run is slower than before."
    healthy = "Near its own median. Pauses for evaluation and saving do not count."
    reports = {
        "info": (
            "A fifth slower for 40 s, or for three records in a row if they are sparse. The "
            "finding names the first slow step."
        ),
        "warning": (
            "The same of a throughput in tokens or samples, while the CPUs of the machine are "
            "known to have time left. Longer inputs and other programs explain longer steps."
        ),
    }
    needs = "The throughput, else the duration of the steps, else the time between records."
    kinds = frozenset({"step", "metrics", "system"})
    replaces_text = True
    every_rank = False

    class Thresholds(RuleThresholds):
        # Compilation, caches and the first full queue of a GPU make the first records untypical.
        skip: int = 5
        # Thirty records give a median that strays by a quarter of a deviation.
        baseline_min: int = 30
        baseline: int = 400
        # A fifth less costs an hour in five, and is beyond what clocks and batches vary by.
        share: float = 0.8
        # A background save slows a run for ten or twenty seconds, another program for longer.
        recent_s: float = 50.0
        # From here on the CPUs of the machine are busy, with whatever it is.
        cpu_pct: float = 90.0
        # Slow loggers: so many records in a row, since an evaluation slows one or two.
        recent_min: int = 3
        # Of a long stretch three quarters must be slow, of a short one all.
        slow_share: float = 0.75
        # Once open, it is over when less than this share is slow.
        release_share: float = 0.4

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._source = ""
        self._cpu_pct: float | None = None
        self._usual: deque[float] = deque(maxlen=thresholds.baseline)
        self._forget()

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check one record against the usual throughput."""
        if observation.kind == "system":
            self._cpu_pct = observation.values.get("system/cpu_pct", self._cpu_pct)
        if observation.step is None:
            return
        value = self._speed(observation, observation.step, context)
        if value is None:
            return
        self._skipped += 1
        if self._skipped <= self.thresholds.skip:
            return
        self._push(_Speed(observation.t, observation.step, value, value < self._bar))
        if self._median > 0:
            yield self._verdict()

    def forget_from(self, step: int, context: Context) -> None:
        """Learn the usual value again: a resumed run may have another machine or batch."""
        self._forget()

    def _forget(self) -> None:
        self._usual.clear()
        self._recent: deque[_Speed] = deque()
        self._num_slow = 0
        self._median = self._bar = 0.0
        self._admitted = self._skipped = 0
        self._last: tuple[int, float] | None = None
        self._is_down = False
        self._since: int | None = None

    # -- what is measured -------------------------------------------------------------------------

    def _speed(self, observation: Observation, step: int, context: Context) -> float | None:
        source, value = self._reading(observation, step, context)
        if value is None or not math.isfinite(value) or value <= 0:
            return None
        if source != self._source:
            self._forget()
            self._source = source
        return value

    def _reading(
        self, observation: Observation, step: int, context: Context
    ) -> tuple[str, float | None]:
        role = context.role_names.get("throughput")
        if role is not None:
            return role, observation.roles.get("throughput")
        duration_ms = observation.values.get(_DURATION)
        if duration_ms is not None:
            return _DURATION, 1000 / duration_ms if duration_ms > 0 else None
        if self._source == _DURATION:
            return self._source, None
        return "", self._pace(step, observation.t)

    def _pace(self, step: int, t: float) -> float | None:
        """Steps per second since the last record with an earlier step."""
        last = self._last
        if last is None or step < last[0]:
            self._last = (step, t)
            return None
        if step == last[0] or t <= last[1]:
            return None
        self._last = (step, t)
        return (step - last[0]) / (t - last[1])

    # -- what is usual ----------------------------------------------------------------------------

    def _push(self, speed: _Speed) -> None:
        limits = self.thresholds
        self._recent.append(speed)
        self._num_slow += speed.is_slow
        # What is left must be long enough to judge, however the records fall into it.
        while (
            len(self._recent) > limits.recent_min
            and self._recent[0].t < speed.t - limits.recent_s
            and self._recent[1].t <= speed.t - _LASTING * limits.recent_s
        ):
            self._retire(self._recent.popleft())
        if self._median == 0 and len(self._recent) > limits.baseline_min:
            self._retire(self._recent.popleft())

    def _retire(self, old: _Speed) -> None:
        self._num_slow -= old.is_slow
        if self._median > 0 and self._num_slow > _ADMIT_BELOW * len(self._recent):
            return
        self._usual.append(old.value)
        self._admitted += 1
        enough = len(self._usual) >= self.thresholds.baseline_min
        if enough and (self._median == 0 or self._admitted % _REFRESH_EVERY == 0):
            self._learn()

    def _learn(self) -> None:
        ordered = sorted(self._usual)
        self._median = ordered[len(ordered) // 2]
        # Three records in a row below their fiftieth part are no chance, however wide the noise.
        rare = ordered[len(ordered) // 50]
        self._bar = min(self.thresholds.share * self._median, rare)

    # -- the verdict ------------------------------------------------------------------------------

    def _verdict(self) -> Verdict:
        limits = self.thresholds
        count, share = len(self._recent), self._num_slow / len(self._recent)
        if self._is_down:
            self._is_down = share >= limits.release_share
        elif self._has_lasted():
            is_long = count >= 2 * limits.recent_min
            self._is_down = share >= (limits.slow_share if is_long else 1.0)
        if not self._is_down:
            self._since = None
            return Verdict(self._source, active=False)
        if self._since is None:
            self._since = self._onset()
        return self._described(self._since)

    def _onset(self) -> int:
        """The record that best separates fast from slow records; a single pause does not count."""
        since, least = self._recent[0].step, math.inf
        wrong = 0  # records on the wrong side, against calling all of them slow
        for speed in self._recent:
            if speed.is_slow and wrong < least:
                since, least = speed.step, wrong
            wrong += 1 if speed.is_slow else -1
        return since

    def _has_lasted(self) -> bool:
        limits = self.thresholds
        if len(self._recent) < limits.recent_min:
            return False
        spans = self._recent[-1].t - self._recent[0].t
        return spans >= _LASTING * limits.recent_s

    def _described(self, since: int) -> Verdict:
        slow = sorted(speed.value for speed in self._recent if speed.is_slow)
        now, usual = slow[len(slow) // 2], self._median
        less = 100 * (1 - now / usual)
        has_time = self._cpu_pct is not None and self._cpu_pct < self.thresholds.cpu_pct
        is_witnessed = has_time and self._source not in ("", _DURATION)
        return Verdict(
            self._source,
            active=True,
            severity="warning" if is_witnessed else "info",
            sentence=f"Throughput fell by {less:.0f} %, from {_shown(usual)} to {_shown(now)} "
            f"{self._unit()}, at step {since:,}.",
            steps=(since, self._recent[-1].step),
            evidence={"usual": usual, "now": now, "less_pct": round(less, 1)},
            advice="Look at the system panel at that time: GPU clocks, CPU load, memory and disk. "
            "Other programs on the machine, slow storage and longer inputs are usual reasons.",
        )

    def _unit(self) -> str:
        name = self._source.rpartition("/")[2]
        if name.startswith(("tokens", "samples")):
            return name.partition("_")[0] + "/s"
        return "steps/s" if self._source in ("", _DURATION) else f"({name})"


def _shown(value: float) -> str:
    return format_count(value) if value >= 1000 else f"{value:.3g}"
