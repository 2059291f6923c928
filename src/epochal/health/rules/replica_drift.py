"""Ranks that should have the same model and no longer do."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.layer_series import WEIGHT_NORMS, holds_layers
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_MOST_STEPS = 512
_ADVICE = (
    "Check that every rank takes part in every exchange (no branch that skips it, no unused "
    "parameters), that seeds differ only for the data, and that buffers are broadcast; restart "
    "from the last checkpoint at which the ranks agreed."
)


class RankTable:
    """One value of every rank at the same step, row by row as the records come in."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, float]] = {}
        self._ranks: set[int] = set()

    def push(self, step: int, rank: int, value: float) -> Mapping[int, float] | None:
        """Add a value; returns the row if every rank that ever had the value is in it now."""
        self._ranks.add(rank)
        row = self._rows.setdefault(step, {})
        row[rank] = value
        if not math.isfinite(value) or len(row) >= max(2, len(self._ranks)):
            del self._rows[step]
            return row if math.isfinite(value) else None
        if len(self._rows) > _MOST_STEPS:
            del self._rows[next(iter(self._rows))]
        return None


@dataclass(slots=True)
class _Equal:
    """A value that may be equal on every rank: first learned, then checked."""

    learn: int
    lasting: int
    table: RankTable = field(default_factory=RankTable)
    learned: int = 0
    is_equal: bool = True
    streak: int = 0
    since: int = 0

    def has_parted(self, step: int, spread: float, limits: ReplicaDrift.Thresholds) -> bool:
        """Whether it was the same once and has differed for several steps."""
        if self.learned < self.learn:
            self.learned += 1
            self.is_equal = self.is_equal and spread <= limits.equal
        elif not self.is_equal or spread <= limits.apart:
            self.streak = 0
        else:
            self.since = self.since if self.streak else step
            self.streak += 1
        return self.streak >= self.lasting


class ReplicaDrift(Rule):
    """Norms that were the same on all ranks and differ, or a rank whose loss leaves the others'.

    Losses of ranks differ by their data, so a rank is held against how far it stood from the
    others before. Norms that differ from the beginning are those of sharded weights: not judged.
    """

    name = "replica-drift"
    group = "layers"
    meaning = "Copies of the model on different ranks are no longer equal."
    healthy = "Norms are equal on all ranks except for rounding. Losses differ by their data."
    reports = {
        "warning": "A rank's loss moves away from the others, or gradients are not exchanged.",
        "error": "Norms that were equal differ by 0.1 %.",
    }
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"step", "metrics"})
    release = 20

    class Thresholds(RuleThresholds):
        # What is equal on all ranks by construction (norms after the exchange) differs by rounding.
        equal: float = 1e-5
        apart: float = 1e-3
        learn: int = 5
        lasting: int = 5
        # Weights are watched rarely. Copies start equal; shards of a model never are.
        learn_weights: int = 1
        lasting_weights: int = 3
        # Norms of so many steps from the first that differ, to and fro by this share.
        unequal: int = 50
        unequal_spread: float = 0.01
        # Losses of ranks differ by their data; their means over a window may not. Deviations of a
        # mean.
        window: int = 20
        deviations: float = 8.0
        share: float = 0.003

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._forget()

    def _forget(self) -> None:
        self._equals: dict[str, _Equal] = {}
        self._losses = RankTable()
        # Distances of each rank's loss from the others', as shares of the loss: first and newest.
        self._early: dict[int, list[float]] = {}
        self._recent: dict[int, deque[float]] = {}
        self._weight: str | None = None  # the first that is apart
        self._ratios: list[float] = []  # of the norms of the first two ranks, as logarithms

    def forget_from(self, step: int, context: Context) -> None:
        """Learn again: a new attempt starts from equal weights."""
        self._forget()

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the record with those of the other ranks at its step."""
        step, rank, limits = observation.step, observation.rank, self.thresholds
        if step is None or rank < 0 or len(context.ranks) < 2:
            return
        for name, value in _values(observation, context):
            if name not in self._equals:
                if value == 0:
                    continue  # as zero on every shard as on every copy
                self._equals[name] = (
                    _Equal(limits.learn_weights, limits.lasting_weights)
                    if name.startswith(WEIGHT_NORMS.prefix)
                    else _Equal(limits.learn, limits.lasting)
                )
            row = self._equals[name].table.push(step, rank, value)
            if row is not None:
                yield self._judge_norm(name, step, row, context)
                if name == context.role_names.get("norm"):
                    yield from self._judge_exchange(name, step, row)
        loss = observation.roles.get("loss")
        row = None if loss is None else self._losses.push(step, rank, loss)
        if row is not None and min(row.values()) > 0:
            yield from self._judge_losses(context.role_names["loss"], row, context)

    def _judge_norm(
        self, name: str, step: int, row: Mapping[int, float], context: Context
    ) -> Verdict:
        scale = max(map(abs, row.values()))
        spread = (max(row.values()) - min(row.values())) / scale if scale > 0 else 0.0
        equal = self._equals[name]
        is_apart = equal.has_parted(step, spread, self.thresholds)
        if name.startswith(WEIGHT_NORMS.prefix):  # one finding for all of them
            self._weight = name if is_apart and self._weight is None else self._weight
            is_apart = is_apart and name == self._weight
        if not is_apart:
            return Verdict(name, active=False)
        middle = median(row.values())
        order = sorted(row, key=lambda rank: (abs(row[rank] - middle), rank))
        near, far = order[0], order[-1]
        return Verdict(
            name,
            active=True,
            severity="error",
            sentence=f"The ranks have drifted apart: {name} was the same on all of them and has "
            f"differed since step {equal.since:,}, by {100 * spread:.2g} % now; "
            f"{context.rank_name(far)} has {format_number(row[far])}, {context.rank_name(near)} "
            f"{format_number(row[near])}.",
            steps=(equal.since, step),
            evidence={"spread": spread, **context.rank_evidence(far)},
            advice=_ADVICE,
        )

    def _judge_exchange(self, name: str, step: int, row: Mapping[int, float]) -> Iterable[Verdict]:
        """Check whether norms differ from the start, to and fro, as those of single ranks do."""
        limits = self.thresholds
        if len(self._ratios) >= limits.unequal or min(row.values()) <= 0:
            return
        first, second = (row[rank] for rank in sorted(row)[:2])
        self._ratios.append(math.log(second) - math.log(first))
        if len(self._ratios) < limits.unequal:
            return
        usual = median(self._ratios)
        spread = median(abs(ratio - usual) for ratio in self._ratios)
        least = min(map(abs, self._ratios))
        # Shards of a model have norms that differ in one direction.
        if least < limits.equal or spread < limits.unequal_spread or abs(usual) > spread:
            return
        yield Verdict(
            f"{name} of all ranks",
            active=True,
            severity="warning",
            sentence=f"The gradient norm differs between ranks at each of the first "
            f"{limits.unequal} steps, to and fro by {100 * spread:.2g} %: the gradients are not "
            "exchanged, or the norm is taken before the exchange.",
            steps=(0, step),
            evidence={"spread": spread},
            advice="Check that the model is wrapped in DistributedDataParallel, that the loop "
            "calls the wrapper and not its module, and that no_sync() ends before the last "
            "backward pass of a step.",
        )

    def _judge_losses(
        self, name: str, row: Mapping[int, float], context: Context
    ) -> Iterable[Verdict]:
        """Compare each rank with its first level; only the one that moved most is named.

        The others seem to move, too, since it is among those they are compared with.
        """
        limits, level = self.thresholds, _mean(row.values())
        moves: dict[int, float] = {}
        for rank, loss in row.items():
            others = median(other for name_, other in row.items() if name_ != rank)
            early = self._early.setdefault(rank, [])
            recent = self._recent.setdefault(rank, deque(maxlen=limits.window))
            (early if len(early) < limits.window else recent).append((loss - others) / level)
            if len(recent) == limits.window:
                moves[rank] = _mean(recent) - _mean(early)
        # Of two ranks each stands as far from the other: the one above is the one that suffers.
        movers = [rank for rank, move in moves.items() if len(row) > 2 or move > 0]
        farthest = max(movers, key=lambda rank: abs(moves[rank]), default=None)
        for rank, move in moves.items():
            early, recent = self._early[rank], self._recent[rank]
            error = math.sqrt((_variance(early) + _variance(recent)) / limits.window)
            subject, now, at_first = f"{name} of rank {rank}", _mean(recent), _mean(early)
            is_far = abs(move) > max(limits.deviations * error, limits.share)
            if rank != farthest or not is_far or abs(now) <= abs(at_first):
                yield Verdict(subject, active=False)
                continue
            yield Verdict(
                subject,
                active=True,
                sentence=f"The loss of {context.rank_name(rank)} drifts away from the others': it "
                f"is on average {100 * abs(now):.2g} % {'above' if now > 0 else 'below'} them over "
                f"the last {limits.window} records; it was {100 * abs(at_first):.2g} % at first.",
                evidence={**context.rank_evidence(rank), "apart": now, "at_first": at_first},
                advice=_ADVICE,
            )


def _values(observation: Observation, context: Context) -> Iterable[tuple[str, float]]:
    """The values of a record that are equal on all ranks where the model is copied."""
    for role in ("norm", "loss"):
        if role in observation.roles:
            yield context.role_names[role], observation.roles[role]
    if holds_layers(observation):
        for layer, norm in WEIGHT_NORMS.of(observation.values).items():
            yield WEIGHT_NORMS.name(layer), norm


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Collection[float]) -> float:
    mean = _mean(values)
    # Not by a power, which raises where a product is infinite.
    return sum((value - mean) * (value - mean) for value in values) / (len(values) - 1)
