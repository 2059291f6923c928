"""One rank that makes all the others wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.records import finite
from epochal.series.window import RecentMedian

if TYPE_CHECKING:
    from epochal.health.context import Context

_SYNC = "phase/sync"
_DURATION = "train/duration_ms"
_BACKWARD = "phase/backward"  # gradients are exchanged meanwhile
_PHASE = "phase/"
# Where a rank waits, and what the first rank does for all of them.
_NO_WORK = frozenset({"phase/sync", "phase/other", "phase/eval", "phase/save", "phase/log"})


class Straggler(Rule):
    """A rank whose own work takes longer than the other ranks'.

    With timed phases its work is the step without the exchange, in which the others wait for it, or
    its named phases alone: the first rank may evaluate meanwhile. Without them it is the duration
    of its steps.
    """

    name = "straggler"
    group = "speed"
    meaning = "All ranks wait for one rank at every step."
    healthy = "Ranks are within a few per cent of each other."
    reports = {
        "warning": (
            "A rank is a fifth above the median of the others, and outside their range. Of two "
            "ranks, one takes half as long again as the other. With timed phases, its work is the "
            "step without `sync`, and without the part of `backward` in which it waits. Or it is "
            "its other phases alone, without `eval`, `save` and `log`."
        )
    }
    kinds = frozenset({"step", "phases"})
    patience = 3
    release = 3

    class Thresholds(RuleThresholds):
        # Ranks on equal machines differ by a few percent; all wait for the slowest at every step.
        share: float = 1.2
        # Of two ranks nobody knows which is usual, nor how much ranks differ.
        share_of_two: float = 1.5
        # A machine that has other work for a moment slows one rank for tens of steps.
        window: int = 60
        phases: int = 5  # each the mean of fifty steps
        min: int = 30
        # And the slowest must stand out from how much the others differ among themselves.
        deviations: float = 4.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._work: dict[str, dict[int, RecentMedian]] = {"phases": {}, "step": {}}
        self._named: dict[int, RecentMedian] = {}
        self._backward: dict[int, float] = {}
        self._counts: dict[str, dict[int, int]] = {"phases": {}, "step": {}}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Store one rank's time; check when the rank has several new ones."""
        work_ms = self._work_ms(observation)
        if work_ms is None or observation.rank < 0:
            return ()
        limits = self.thresholds
        ranks, counts = self._work[observation.kind], self._counts[observation.kind]
        if observation.rank not in ranks:
            is_phases = observation.kind == "phases"
            size = limits.phases if is_phases else limits.window
            ranks[observation.rank] = RecentMedian(size)
        ranks[observation.rank].push(work_ms)
        named = _named_ms(observation.values)
        if observation.kind == "phases" and named > 0:
            kept = self._named.setdefault(observation.rank, RecentMedian(limits.phases))
            kept.push(named)
        if _BACKWARD in observation.values:
            self._backward[observation.rank] = observation.values[_BACKWARD]
        count = counts[observation.rank] = counts.get(observation.rank, 0) + 1
        every = limits.min if observation.kind == "step" else 1
        # Phases are means over many steps already, and the surer of the two.
        if count % every or (observation.kind == "step" and self._work["phases"]):
            return ()
        if len(ranks) < 2 or min(counts.get(rank, 0) for rank in ranks) < every:
            return ()
        tables = [self._levels(observation.kind, ranks)]
        if observation.kind == "phases" and set(self._named) == set(ranks):
            tables.append(self._levels(observation.kind, self._named))
        # The slowest is judged by every rank's record: the last of a run may be another's.
        slowest = {max(levels, key=lambda rank: levels[rank]) for levels in tables}
        return [self._judge(rank, tables) for rank in {observation.rank, *slowest}]

    def _levels(self, kind: str, ranks: Mapping[int, RecentMedian]) -> dict[int, float]:
        """The work of each rank; a backward pass that is longer than another's waits for it."""
        levels = {rank: _level(kept) for rank, kept in ranks.items()}
        if kind == "phases" and self._backward:
            least = min(self._backward.values())
            for rank, backward in self._backward.items():
                if rank in levels:
                    levels[rank] -= backward - least
        return levels

    def forget_from(self, step: int, context: Context) -> None:
        """Measure again: a new attempt may have other machines."""
        for kind in ("phases", "step"):
            self._work[kind].clear()
            self._counts[kind].clear()
        self._named.clear()

    @staticmethod
    def _work_ms(observation: Observation) -> float | None:
        if observation.kind == "step":
            return observation.values.get(_DURATION)
        wall_ms = finite(observation.record.get("wall_ms"))
        if wall_ms is None:
            return None
        return wall_ms - observation.values.get(_SYNC, 0.0)

    def _judge(self, rank: int, tables: Sequence[Mapping[int, float]]) -> Verdict:
        verdicts = [self._compare(rank, levels) for levels in tables]
        return next((one for one in verdicts if one.active), verdicts[0])

    def _compare(self, rank: int, levels: Mapping[int, float]) -> Verdict:
        limits = self.thresholds
        others = [level for other, level in levels.items() if other != rank]
        usual, own = median(others), levels[rank]
        spread = median(abs(level - usual) for level in others)
        share = limits.share if len(others) > 1 else limits.share_of_two
        bar = max(share * usual, usual + limits.deviations * spread)
        subject = f"rank {rank}"
        if usual <= 0 or own <= bar:
            return Verdict(subject, active=False)
        more = 100 * (own / usual - 1)
        return Verdict(
            subject,
            active=True,
            sentence=f"Rank {rank} takes {format_number(own)} ms a step where the other ranks take "
            f"{format_number(usual)}: all wait for it, {more:.0f} % longer.",
            evidence={"rank": rank, "own_ms": own, "usual_ms": usual, "ranks": len(levels)},
            advice="Compare its GPU's clock and temperature, its data and its neighbours on the "
            "machine with the others'; give ranks batches of equal length.",
        )


def _level(kept: RecentMedian) -> float:
    return kept.median() or 0.0


def _named_ms(values: Mapping[str, float]) -> float:
    """The time of a rank's own work in named phases."""
    return sum(
        value for name, value in values.items() if name.startswith(_PHASE) and name not in _NO_WORK
    )
