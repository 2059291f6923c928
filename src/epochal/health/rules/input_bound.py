"""A training that waits for its data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean, median
from typing import TYPE_CHECKING

from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.records import finite

if TYPE_CHECKING:
    from epochal.health.context import Context

_DATA = "phase/data"
_SPAN = "data"
_UTIL = "gpu_util"
_DURATION = "train/duration_ms"
_ADVICE = (
    "Give the loader more workers and prefetching, decode or tokenise beforehand, keep the data on "
    "a local disk, and copy from pinned memory without blocking."
)


class InputBound(Rule):
    """Too large a share of the time goes by without work for want of input.

    Timed phases tell it surely. Without them a GPU that is half idle beside busy CPUs does, and
    without GPU figures the time that passes between steps.
    """

    name = "input-bound"
    group = "speed"
    meaning = "The device waits for data."
    healthy = "Waiting for data takes less than a tenth of a step."
    reports = {
        "info": (
            "Half of the time passes between steps, and at four of five steps 40 %. It is 5 ms a "
            "step or more. Phases are not timed, and it is no game, which is played meanwhile."
        ),
        "warning": (
            "30 % of a step in two `phases` records in a row, or 60 % in one. Or a GPU below 65 % "
            "and CPUs above 90 % for a minute. In the first `phases` record: ten steps that "
            "waited for 80 % of their time, without the longest wait. Without phases and a GPU: "
            "75 % of the time between four of five steps."
        ),
        "error": "60 % of a step in two `phases` records in a row, or 80 % in the first one.",
    }
    needs = 'Timed phases (`with run.phase("data"):`) give the best evidence.'
    kinds = frozenset({"phases", "span", "gpu", "system", "step"})

    class Thresholds(RuleThresholds):
        # Well-fed loops on a busy machine wait for up to a fifth of a step; a slow loader takes
        # half. One record may be of a moment in which the machine had other work.
        wait_share: float = 0.3
        wait_grave: float = 0.6
        wait_records: int = 2
        # The first batches wait for workers to start: in the first record of phases, so many steps
        # without the longest wait must have waited for most of their time.
        first_steps: int = 10
        first_share: float = 0.8
        # Without timed phases: a GPU that idles a third of the time...
        gpu_util_pct: float = 65.0
        # ...beside CPUs that have nothing left to give. (A process at 100 % of one core proves
        # little: waiting for a GPU looks the same.)
        cpu_pct: float = 90.0
        # At rest it is not starved: nothing runs, or something that is not for GPUs.
        gpu_rest_pct: float = 3.0
        # One minute of telemetry: an evaluation or a save is shorter, or does not load the CPUs.
        records: int = 6
        # Without GPU figures: pauses as long as the step before them. A loader that is too slow is
        # so at nearly every step; a busy machine, or an evaluation, makes some long pauses.
        pause_share: float = 0.5
        pause_steady: float = 0.4
        pause_grave: float = 0.75
        # One process makes a batch of small samples within this time. Workers would save nothing.
        pause_ms: float = 5.0
        pause_records: int = 30

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        limits = thresholds
        self._num_phases: dict[int, int] = {}
        self._waits: dict[int, list[tuple[float, int]]] = {}  # shares in a row and first steps
        self._first_wait_ms: dict[int, float] = {}  # the longest before the first phases, by rank
        self._use: dict[str, deque[float]] = {}
        self._cpu: deque[float] = deque(maxlen=limits.records)
        self._pauses: deque[tuple[float, float]] = deque(maxlen=limits.pause_records)
        self._last: tuple[int, float] | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check by phases; by telemetry and steps only if there are no phases."""
        if observation.kind == "phases":
            return self._see_phases(observation)
        if observation.kind == "span":
            return self._see_span(observation)
        if self._num_phases:
            return ()
        if observation.kind == "system":
            return self._see_system(observation)
        if observation.kind == "gpu":
            return self._see_gpu(observation, context)
        if context.is_game or observation.rank > 0:
            return ()  # between the steps of a game it is played
        return self._see_step(observation, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Start again: the first batches of an attempt wait for workers to start."""
        self._num_phases.clear()
        self._waits.clear()
        self._first_wait_ms.clear()
        self._pauses.clear()
        self._use.clear()
        self._last = None

    # -- timed phases -----------------------------------------------------------------------------

    def _see_span(self, observation: Observation) -> Iterable[Verdict]:
        duration_ms = finite(observation.record.get("duration_ms"))
        if observation.record.get("name") == _SPAN and duration_ms is not None:
            longest = self._first_wait_ms.get(observation.rank, 0.0)
            self._first_wait_ms[observation.rank] = max(longest, duration_ms)
        return ()

    def _see_phases(self, observation: Observation) -> Iterable[Verdict]:
        limits = self.thresholds
        count = self._num_phases[observation.rank] = self._num_phases.get(observation.rank, 0) + 1
        wall_ms, data_ms = finite(observation.record.get("wall_ms")), observation.values.get(_DATA)
        if wall_ms is None or (count == 1 and not self._is_slow_feed(observation)):
            return
        if count <= 2:
            # What was guessed before is known from here on.
            yield from (Verdict(name, active=False) for name in (_DURATION, *self._use))
        if data_ms is None or wall_ms <= 0:
            return
        share = data_ms / wall_ms
        subject = _DATA if observation.rank <= 0 else f"{_DATA} of rank {observation.rank}"
        if share < limits.wait_share:
            self._waits.pop(observation.rank, None)
            yield Verdict(subject, active=False)
            return
        covered = _covered(observation) or (0, 0)
        waits = self._waits.setdefault(observation.rank, [])
        waits.append((share, covered[0]))
        del waits[: -limits.wait_records]
        lasts = len(waits) == limits.wait_records
        if not lasts and share < limits.wait_grave:
            return
        is_grave = count == 1 or (lasts and min(waits)[0] >= limits.wait_grave)
        whose = "" if observation.rank <= 0 else f" of rank {observation.rank}"
        yield Verdict(
            subject,
            active=True,
            severity="error" if is_grave else "warning",
            sentence=f"{100 * share:.0f} % of each step{whose} is spent waiting for data "
            f"({data_ms:.1f} of {wall_ms:.1f} ms).",
            steps=(waits[0][1], covered[1]) if observation.step is not None else None,
            evidence={"data_ms": data_ms, "wall_ms": wall_ms, "share": round(share, 3)},
            advice=_ADVICE,
        )

    def _is_slow_feed(self, observation: Observation) -> bool:
        """Whether the first steps waited for data all along, not only while workers started."""
        limits, steps = self.thresholds, observation.record.get("steps")
        wall_ms, data_ms = finite(observation.record.get("wall_ms")), observation.values.get(_DATA)
        if not isinstance(steps, int) or steps < limits.first_steps:
            return False
        if data_ms is None or wall_ms is None:
            return False
        started_ms = self._first_wait_ms.get(observation.rank, 0.0)
        rest_ms = steps * wall_ms - started_ms
        return rest_ms > 0 and steps * data_ms - started_ms >= limits.first_share * rest_ms

    # -- telemetry --------------------------------------------------------------------------------

    def _see_system(self, observation: Observation) -> Iterable[Verdict]:
        value = observation.values.get("system/cpu_pct")
        if value is not None:
            self._cpu.append(value)
        return ()

    def _see_gpu(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        limits = self.thresholds
        gpu = observation.record.get("id", 0)
        name = f"gpu/{gpu}/{_UTIL}"
        value = observation.values.get(name)
        # Apple's GPU draws the screen as well, and does not tell whether a training uses it.
        model = context.gpus.get(gpu, {}) if isinstance(gpu, int) else {}
        is_shared = str(model.get("name") or "").startswith("Apple")
        if value is None or is_shared:
            return
        use = self._use.setdefault(name, deque(maxlen=limits.records))
        use.append(value)
        if len(use) < limits.records or len(self._cpu) < limits.records:
            return
        level, cpu = fmean(use), fmean(self._cpu)
        is_hungry = limits.gpu_rest_pct < level < limits.gpu_util_pct
        if not is_hungry or cpu < limits.cpu_pct:
            yield Verdict(name, active=False)
            return
        yield Verdict(
            name,
            active=True,
            sentence=f"GPU {observation.record.get('id', 0)} works {level:.0f} % of the time while "
            f"the CPUs run at {cpu:.0f} %: the host does not prepare data fast enough.",
            evidence={"gpu_util_pct": round(level, 1), "cpu_pct": round(cpu, 1)},
            advice=f"{_ADVICE} Time the phases of a step (run.phase) to see which it is.",
        )

    # -- pauses between steps ---------------------------------------------------------------------

    def _see_step(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        limits = self.thresholds
        duration_ms, last = observation.values.get(_DURATION), self._last
        if observation.step is None or duration_ms is None:
            return
        self._last = (observation.step, observation.t)
        if last is None or observation.step <= last[0] or duration_ms <= 0:
            return
        wall_ms = 1000 * (observation.t - last[1]) / (observation.step - last[0])
        if wall_ms <= 0:
            return
        self._pauses.append((1 - duration_ms / wall_ms, wall_ms - duration_ms))
        if len(self._pauses) < limits.pause_records:
            return
        shares = sorted(share for share, _ in self._pauses)
        share, steady = median(shares), shares[len(shares) // 5]
        is_short = median(pause_ms for _, pause_ms in self._pauses) < limits.pause_ms
        if share < limits.pause_share or steady < limits.pause_steady or is_short:
            yield Verdict(_DURATION, active=False)
            return
        # A clock that does not wait for a GPU measures how long it takes to give it work.
        may_run_ahead = bool(context.gpus or self._use)
        yield Verdict(
            _DURATION,
            active=True,
            severity="warning" if steady >= limits.pause_grave and not may_run_ahead else "info",
            sentence=f"{100 * share:.0f} % of the time passes between the steps, where a loop "
            "usually waits for data.",
            evidence={"share": round(share, 3), "duration_ms": duration_ms, "wall_ms": wall_ms},
            advice=f"{_ADVICE} Time the phases of a step (run.phase) to see what it is.",
        )


def _covered(observation: Observation) -> tuple[int, int] | None:
    if observation.step is None:
        return None
    steps = observation.record.get("steps")
    return max(0, observation.step - (steps if isinstance(steps, int) else 1) + 1), observation.step
