"""Weights that blow up or fade away."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.curve import Curve
from epochal.health.layer_series import WEIGHT_NORMS, bias_of, has_free_metrics, named
from epochal.health.learning import has_fallen_since, has_risen, is_hurt
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.streak_counter import StreakCounter
from epochal.health.strides import PACES, StridedPast
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

# What programs call the norm of all weights together.
_WHOLE = frozenset(
    {"weight_norm", "param_norm", "params_norm", "train/weight_norm", "train/param_norm"}
)
# Parameters that may go to zero or through it: biases, and scales that are learned.
_FREE = re.compile(
    r"bias|(scale|gain|gate|temperature|logs?|log_\w+|alpha|beta|gamma|tau|sigma)s?$"
)

# Of the loss: what fell so far while weights grew was learned by them.
_LEARNING = 0.2
# Records that the past at the slowest pace goes back, with some to spare.
_LONGEST_PAST = 1000


@dataclass(frozen=True, slots=True)
class _Move:
    """Where a norm came from, at which step, and where it is."""

    step: int
    before: float
    now: float


class WeightNorm(Rule):
    """The norm of a layer's weights (or of all) that doubles, or fades to a quarter, steadily.

    Norms that start near zero (biases, zero-initialised branches) are judged from where they get.
    """

    name = "weight-norm"
    group = "layers"
    meaning = "The weights grow or shrink steadily."
    healthy = "Norms stop changing."
    reports = {
        "info": (
            "It grows 4 times within 6 watched steps or more, and the loss is as low as ever. "
            "While the loss falls, it takes 8 times, and a weight without a bias beside it may "
            "grow slowly. It may grow freely while the loss falls by a fifth. A weight without a "
            "bias may leave its initial size while the loss does not rise."
        ),
        "warning": (
            "It doubles, and the loss has gained nothing or stands above its best level. Or it "
            "grows 8 times. Or the norm of a weight is a quarter of its peak and still falls; "
            "biases and learned scales may."
        ),
    }
    needs = "`epochal.watch(model)`."
    symptom_of = frozenset({"lost values", "divergence", "instability"})
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # Watched steps; weights of a healthy run grow like a root of time, ever slower.
        window: int = 6
        # Doubling within a window, without slowing down, is not.
        growth: float = 2.0
        # Optimizers double weights that no decay holds, without harm: the loss is as low as ever.
        grave: float = 4.0
        # Times the first norm: so far weights are what they were drawn as.
        start: float = 1.5
        # So many times that for biases, which start near zero.
        bias: float = 2.0
        # So many times that, while the loss falls.
        learning: float = 4.0
        # While the rate still rises, weights leave their initial size faster and faster.
        growth_warmup: float = 3.0
        # A quarter of what it was, and still falling: decay has won over learning.
        fall: float = 0.25
        # Norms that began this far below their later size were not initialised to mean anything.
        from_share: float = 0.05

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._growing = StreakCounter(needed=1)
        self._fading = StreakCounter(needed=1)
        self._pasts: dict[str, StridedPast] = {}
        # What was found at each pace stands until it is judged at that pace again.
        self._found: dict[tuple[str, int], str] = {}
        self._moves: dict[str, _Move] = {}
        self._peaks: dict[str, float] = {}
        self._first: dict[str, float] = {}
        self._peak_lr = 0.0
        self._loss: Curve | None = None
        self._falls = self._does_harm = self._rises = False
        self._step = 0
        self._largest: dict[int, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a record that holds norms of weights."""
        if observation.step is None or not has_free_metrics(observation):
            return
        # Weights that grow while the loss falls learn.
        self._loss = context.curves.get("loss")
        self._falls = context.phase in ("", "warm-up", "converging") and self._loss is not None
        self._does_harm, self._rises = is_hurt(self._loss), has_risen(self._loss)
        lr = observation.roles.get("lr", context.last.get("lr", 0.0))
        warms_up, self._peak_lr = lr > self._peak_lr > 0, max(lr, self._peak_lr)
        norms = {
            WEIGHT_NORMS.name(n): norm for n, norm in WEIGHT_NORMS.of(observation.values).items()
        }
        whole = {n: v for n, v in observation.values.items() if n in _WHOLE and math.isfinite(v)}
        if not norms and not whole:
            return
        self._step = observation.step
        self._note_largest(observation.step, max(norms.values(), default=0.0))
        for name, norm in (*norms.items(), *whole.items()):
            beside = bias_of(name)
            has_scale = name in whole or (beside != name and beside in norms)
            self._judge(name, norm, has_scale=has_scale, is_whole=name in whole, warms_up=warms_up)
        yield from self._growing.verdicts(str, self._describe_growth)
        yield from self._fading.verdicts(str, self._describe_fall)

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the norms that are void."""
        self._growing.forget()
        self._fading.forget()
        self._found.clear()
        self._largest = {at: norm for at, norm in self._largest.items() if at < step}
        for past in self._pasts.values():
            past.forget_from(step)

    def _note_largest(self, step: int, norm: float) -> None:
        """Remember how large norms were: what doubles must not be too small beside itself."""
        self._largest[step] = norm
        if len(self._largest) > _LONGEST_PAST:
            del self._largest[next(iter(self._largest))]

    def _bar(self, step: int) -> float:
        largest = self._largest.get(step, self._largest[self._step])
        return self.thresholds.from_share * largest

    def _judge(
        self, name: str, norm: float, *, has_scale: bool, is_whole: bool, warms_up: bool
    ) -> None:
        limits = self.thresholds
        past = self._pasts.setdefault(name, StridedPast(limits.window))
        peak = self._peaks[name] = max(self._peaks.get(name, 0.0), norm)
        first = self._first.setdefault(name, norm)
        factor = limits.growth_warmup if warms_up else limits.growth
        for pace, points in past.push(self._step, norm):
            step, before = points[0]
            values = [value for _, value in points]
            self._found.pop((name, pace), None)
            bar = 0.0 if is_whole else self._bar(step)
            # Tables of vectors start at any size, and grow slowly to what they are needed for.
            is_slow = pace > PACES[0]
            learns = self._falls or (is_slow and has_fallen_since(self._loss, step))
            limit = factor * (limits.learning if learns else limits.bias if "bias" in name else 1.0)
            may_grow = is_slow and learns and not has_scale
            # Targets in large units need large weights: the loss falls as they grow.
            may_grow = may_grow or has_fallen_since(self._loss, step, share=_LEARNING)
            # Products of tables have no gradient until both have left a small start.
            is_new = before < limits.start * first and not has_scale and "bias" not in name
            may_grow = may_grow or (is_new and not self._rises)
            if not self._does_harm:
                limit = max(limit, limits.grave)
            if before > bar and not may_grow and _keeps_growing(values, limit):
                self._found[name, pace] = "growing"
                self._moves[name] = _Move(step, before, norm)
            # A bias may go back to zero, or through it, and so may a learned scale.
            elif (
                not _FREE.search(name.removesuffix(WEIGHT_NORMS.suffix))
                and bar < peak
                and norm <= limits.fall * peak
                and _keeps_falling(values)
            ):
                self._found[name, pace] = "fading"
                self._moves[name] = _Move(step, peak, norm)
        found = {self._found.get((name, pace)) for pace in PACES}
        self._growing.note(name, ails="growing" in found, step=self._step)
        self._fading.note(name, ails="fading" in found, step=self._step)

    def _describe_growth(self, names: Sequence[str]) -> Verdict:
        move = self._moves[names[0]]
        is_grave = move.now > 2 * self.thresholds.grave * move.before
        return Verdict(
            names[0],
            active=True,
            severity="warning" if self._does_harm or is_grave else "info",
            sentence=f"The weights of {named(_layers(names))} grow without slowing down: norm "
            f"{format_number(move.before)} at step {move.step:,}, {format_number(move.now)} at "
            f"step {self._step:,}.",
            steps=(move.step, self._step),
            evidence={"before": move.before, "now": move.now, "layers": len(names)},
            advice="Lower the learning rate, add weight decay, or normalise what feeds these "
            "layers.",
        )

    def _describe_fall(self, names: Sequence[str]) -> Verdict:
        move = self._moves[names[0]]
        return Verdict(
            names[0],
            active=True,
            sentence=f"The weights of {named(_layers(names))} shrink: norm "
            f"{format_number(move.now)} at step {self._step:,}, "
            f"{100 * move.now / move.before:.0f} % of the earlier {format_number(move.before)}.",
            steps=(move.step, self._step),
            evidence={"peak": move.before, "now": move.now, "layers": len(names)},
            advice="Lower the weight decay or the learning rate: each step takes their product "
            "off. Leave biases and normalisation layers out of the decay.",
        )


def _layers(names: Sequence[str]) -> list[str]:
    return [
        "the model"
        if name in _WHOLE
        else name[len(WEIGHT_NORMS.prefix) : len(name) - len(WEIGHT_NORMS.suffix)]
        for name in names
    ]


def _keeps_growing(values: Sequence[float], factor: float) -> bool:
    """By the factor overall, in every step, and at the end nearly as fast as at the beginning."""
    if min(values) <= 0 or values[-1] < factor * values[0]:
        return False
    logs = [math.log(value) for value in values]
    rates = [after - before for before, after in pairwise(logs)]
    half = len(rates) // 2
    return min(rates) > 0 and sum(rates[-half:]) >= 0.7 * sum(rates[:half])


def _keeps_falling(values: Sequence[float]) -> bool:
    return all(before > after for before, after in pairwise(values))
