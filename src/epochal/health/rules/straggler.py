"""One rank that makes all the others wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        # Milliseconds by rank: of steps, of steps without the exchange, of named phases.
        self._times: dict[str, dict[int, RecentMedian]] = {"step": {}, "phases": {}, "named": {}}
        self._counts: dict[tuple[str, int], int] = {}
        self._backward: dict[int, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Store one rank's time; check when the rank has several new ones."""
        kind, rank, limits = observation.kind, observation.rank, self.thresholds
        times = _times_of(observation)
        if not times or rank < 0:
            return ()
        for table, ms in times.items():
            size = limits.window if table == "step" else limits.phases
            self._times[table].setdefault(rank, RecentMedian(size)).push(ms)
        if "phase/backward" in observation.values:
            self._backward[rank] = observation.values["phase/backward"]
        count = self._counts[kind, rank] = self._counts.get((kind, rank), 0) + 1
        every = limits.min if kind == "step" else 1
        # Phases are means over many steps already, and the surer of the two.
        if count % every or (kind == "step" and self._times["phases"]):
            return ()
        ranks = self._times[kind]
        if len(ranks) < 2 or min(self._counts[kind, one] for one in ranks) < every:
            return ()
        tables = [self._levels(t) for t in times if self._times[t].keys() == ranks.keys()]
        # The slowest is judged by every rank's record: the last of a run may be another's.
        slowest = {max(levels, key=lambda one: levels[one]) for levels in tables}
        return [self._judge(one, tables, context) for one in {rank, *slowest}]

    def _levels(self, table: str) -> dict[int, float]:
        """The work of each rank; a backward pass that is longer than another's waits for it."""
        least = min(self._backward.values(), default=0.0)
        waits = {} if table == "step" else {r: ms - least for r, ms in self._backward.items()}
        return {
            rank: (times.median() or 0.0) - waits.get(rank, 0.0)
            for rank, times in self._times[table].items()
        }

    def forget_from(self, step: int, context: Context) -> None:
        """Measure again: a new attempt may have other machines."""
        for table in self._times.values():
            table.clear()
        self._counts.clear()
        self._backward.clear()

    def _judge(self, rank: int, tables: Iterable[Mapping[int, float]], context: Context) -> Verdict:
        limits = self.thresholds
        for levels in tables:
            others = [level for other, level in levels.items() if other != rank]
            usual, own = median(others), levels[rank]
            spread = median(abs(level - usual) for level in others)
            share = limits.share if len(others) > 1 else limits.share_of_two
            if usual <= 0 or own <= max(share * usual, usual + limits.deviations * spread):
                continue
            return Verdict(
                f"rank {rank}",
                active=True,
                sentence=f"All ranks wait for {context.rank_name(rank)}: it takes "
                f"{format_number(own)} ms a step where the others take {format_number(usual)} ms "
                f"({own / usual:.1f} times as long).",
                evidence={
                    **context.rank_evidence(rank),
                    "own_ms": own,
                    "usual_ms": usual,
                    "ranks": len(levels),
                },
                advice="Compare its GPU's clock and temperature, its data and other programs on "
                "its machine with the others'; give ranks batches of equal length.",
            )
        return Verdict(f"rank {rank}", active=False)


def _times_of(observation: Observation) -> dict[str, float]:
    """The times that a record has of its rank's work, in milliseconds."""
    values = observation.values
    if observation.kind == "step":
        duration = values.get("train/duration_ms")
        return {} if duration is None else {"step": duration}
    wall_ms = finite(observation.record.get("wall_ms"))
    if wall_ms is None:
        return {}
    times = {"phases": wall_ms - values.get("phase/sync", 0.0)}
    phases = (name for name in values if name.startswith("phase/") and name not in _NO_WORK)
    named = sum(values[name] for name in phases)
    return {**times, "named": named} if named > 0 else times
