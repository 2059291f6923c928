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

# One figure of every rank at the same step, put side by side as the ranks' records come in.

_MOST_STEPS = 512


class RankTable:
    """Rows by step; a row is complete when every rank that has ever given the figure is in it."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, float]] = {}
        self._ranks: set[int] = set()

    def push(self, step: int, rank: int, value: float) -> Mapping[int, float] | None:
        """Take in one figure; gives the row that it completes, once."""
        self._ranks.add(rank)
        if not math.isfinite(value):
            self._rows.pop(step, None)
            return None
        row = self._rows.setdefault(step, {})
        row[rank] = value
        if len(row) < max(2, len(self._ranks)):
            if len(self._rows) > _MOST_STEPS:
                del self._rows[next(iter(self._rows))]
            return None
        return self._rows.pop(step)

    def clear(self) -> None:
        """Forget rows and ranks."""
        self._rows.clear()
        self._ranks.clear()


_ADVICE = (
    "Check that every rank takes part in every exchange (no branch that skips it, no unused "
    "parameters), that seeds differ only for the data, and that buffers are broadcast; restart "
    "from the last checkpoint at which the ranks agreed."
)


@dataclass(slots=True)
class _Equal:
    """A figure that may be equal on every rank: first learned, then checked."""

    table: RankTable = field(default_factory=RankTable)
    learned: int = 0
    is_equal: bool = True
    is_weight: bool = False
    streak: int = 0
    since: int = 0

    def observe(self, step: int, spread: float, limits: ReplicaDrift.Thresholds) -> bool:
        """Whether it was the same once and has been apart for several steps."""
        if self.learned < (limits.learn_weights if self.is_weight else limits.learn):
            self.learned += 1
            self.is_equal = self.is_equal and spread <= limits.equal
            return False
        if not self.is_equal:
            return False
        if spread <= limits.apart:
            self.streak = 0
            return False
        self.since = step if self.streak == 0 else self.since
        self.streak += 1
        return self.streak >= (limits.lasting_weights if self.is_weight else limits.lasting)


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
        "warning": "A rank's loss moves away from the others.",
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
        self._norms: dict[str, _Equal] = {}
        self._losses = RankTable()
        self._early: dict[int, list[float]] = {}
        self._recent: dict[int, deque[float]] = {}
        self._levels: deque[float] = deque(maxlen=thresholds.window)
        self._has_shares = True
        self._weight: str | None = None  # the first that is apart
        self._ratios: list[float] = []  # of the norms of the first two ranks, as logarithms

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the record with those of the other ranks at its step."""
        if observation.step is None or observation.rank < 0 or len(context.ranks) < 2:
            return
        for name, value in self._equals(observation, context):
            if name not in self._norms:
                is_weight = name.startswith(WEIGHT_NORMS.prefix)
                if is_weight and value == 0:
                    continue  # as zero on every shard as on every copy
                self._norms[name] = _Equal(is_weight=is_weight)
            row = self._norms[name].table.push(observation.step, observation.rank, value)
            if row is not None:
                yield self._judge_norm(name, observation.step, row)
                if name == context.role_names.get("norm"):
                    yield from self._judge_exchange(name, observation.step, row)
        loss = observation.roles.get("loss")
        if loss is not None:
            row = self._losses.push(observation.step, observation.rank, loss)
            if row is not None:
                yield from self._judge_losses(context.role_names["loss"], row)

    def forget_from(self, step: int, context: Context) -> None:
        """Learn again: a new attempt starts from equal weights."""
        self._norms.clear()
        self._losses.clear()
        self._weight = None
        for kept in (self._early, self._recent, self._levels):
            kept.clear()

    @staticmethod
    def _equals(observation: Observation, context: Context) -> Iterable[tuple[str, float]]:
        for role in ("norm", "loss"):
            if role in observation.roles:
                yield context.role_names[role], observation.roles[role]
        layers = WEIGHT_NORMS.of(observation.values) if holds_layers(observation) else {}
        for layer, norm in layers.items():
            yield WEIGHT_NORMS.name(layer), norm

    def _judge_norm(self, name: str, step: int, row: Mapping[int, float]) -> Verdict:
        least, most = min(row.values()), max(row.values())
        scale = max(abs(least), abs(most))
        spread = (most - least) / scale if scale > 0 else 0.0
        figure = self._norms[name]
        rank, apart = _farthest(row)
        is_apart = figure.observe(step, spread, self.thresholds)
        if figure.is_weight:  # one finding for all of them
            self._weight = name if is_apart and self._weight is None else self._weight
            is_apart = is_apart and name == self._weight
        if not is_apart:
            return Verdict(name, active=False)
        return Verdict(
            name,
            active=True,
            severity="error",
            sentence=f"The ranks have drifted apart: {name} was the same on all of them and has "
            f"differed since step {figure.since:,}, by {100 * spread:.2g} % now; rank {rank} has "
            f"{format_number(apart)}, rank {_nearest(row)} {format_number(row[_nearest(row)])}.",
            steps=(figure.since, step),
            evidence={"spread": spread, "rank": rank, "least": least, "most": most},
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
        least = min(abs(ratio) for ratio in self._ratios)
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

    def _judge_losses(self, name: str, row: Mapping[int, float]) -> Iterable[Verdict]:
        """Compare each rank with its first level; only the one that moved most is named.

        The others seem to move, too, since it is among those they are compared with.
        """
        size = self._size_of(row)
        moves: dict[int, _Move] = {}
        for rank, apart in _apart(row).items():
            early = self._early.setdefault(rank, [])
            if len(early) < self.thresholds.window:
                early.append(apart / size)
                continue
            recent = self._recent.setdefault(rank, deque(maxlen=self.thresholds.window))
            recent.append(apart / size)
            if len(recent) == self.thresholds.window:
                moves[rank] = _Move(early, recent)
        # Of two ranks each stands as far from the other: the one above is the one that suffers.
        may_leave = [rank for rank, move in moves.items() if len(row) > 2 or move.size > 0]
        farthest = max(may_leave, key=lambda rank: abs(moves[rank].size), default=None)
        for rank, move in moves.items():
            subject = f"{name} of rank {rank}"
            is_far = rank == farthest and self._is_far(move)
            yield (
                self._left(subject, rank, move, size) if is_far else Verdict(subject, active=False)
            )

    def _size_of(self, row: Mapping[int, float]) -> float:
        """What distances are shares of: the loss, as its noise shrinks with it; 1 if it may be 0.

        Once a loss was not above zero, all that was learned by shares is forgotten.
        """
        level = abs(_mean(row.values()))
        self._levels.append(level)
        if self._has_shares and min(row.values()) <= 0:
            self._has_shares = False
            self._early.clear()
            self._recent.clear()
        return level if self._has_shares else 1.0

    def _is_far(self, move: _Move) -> bool:
        limits = self.thresholds
        least = limits.share * (1.0 if self._has_shares else _mean(self._levels))
        is_nearer = abs(move.now) <= abs(move.at_first)
        return not is_nearer and abs(move.size) > max(limits.deviations * move.stray, least)

    def _left(self, subject: str, rank: int, move: _Move, size: float) -> Verdict:
        more = "above" if move.now > 0 else "below"
        apart, at_first = move.now * size, move.at_first * size
        return Verdict(
            subject,
            active=True,
            sentence=f"Rank {rank} drifts away from the others: its loss is on average "
            f"{format_number(abs(apart))} {more} theirs over the last "
            f"{self.thresholds.window} records; at its first level that would "
            f"be {format_number(abs(at_first))}.",
            evidence={"apart": apart, "at_first": at_first, "level": _mean(self._levels)},
            advice=_ADVICE,
        )


@dataclass(frozen=True, slots=True)
class _Move:
    """The distance of a rank from the others, at first and now."""

    early: Collection[float]
    recent: Collection[float]

    @property
    def at_first(self) -> float:
        return _mean(self.early)

    @property
    def now(self) -> float:
        return _mean(self.recent)

    @property
    def size(self) -> float:
        return self.now - self.at_first

    @property
    def stray(self) -> float:
        """The standard error of the move."""
        parts = (_variance(self.early) / len(self.early), _variance(self.recent) / len(self.recent))
        return math.sqrt(sum(parts))


def _apart(row: Mapping[int, float]) -> dict[int, float]:
    """How far each rank's loss is from the middle of the others'."""
    return {
        rank: loss - median(other for name, other in row.items() if name != rank)
        for rank, loss in row.items()
    }


def _mean(values: Collection[float]) -> float:
    """Infinite where the sum is, instead of an error."""
    return sum(values) / len(values)


def _variance(values: Collection[float]) -> float:
    mean = _mean(values)
    # Not by a power, which raises where a product is infinite.
    return sum((value - mean) * (value - mean) for value in values) / (len(values) - 1)


def _farthest(row: Mapping[int, float]) -> tuple[int, float]:
    """The rank farthest from the middle of all, and its value."""
    middle = median(row.values())
    rank = max(row, key=lambda one: (abs(row[one] - middle), one))
    return rank, row[rank]


def _nearest(row: Mapping[int, float]) -> int:
    middle = median(row.values())
    return min(row, key=lambda one: (abs(row[one] - middle), one))
