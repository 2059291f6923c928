"""The learning rate is too high, too low, or has ended before the training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median, stdev
from types import MappingProxyType
from typing import NamedTuple

from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.finding import steps_of
from epochal.health.layer_series import GRADIENT_ZEROS, UPDATE_RATIOS, WEIGHT_NORMS, holds_layers
from epochal.health.observation import Observation
from epochal.health.optimizer import is_adaptive, optimizer_words, usual_rates
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict
from epochal.records.format import format_significant

_MOST_POINTS = 2000  # of a loss that may fall in a straight line
_MOST_EVALS = 40  # later evaluations no longer show that the first steps were small
_MOST_UPDATES = 500  # watched steps whose updates are kept
_EVERY = 50  # points between two comparisons of the whole course
# The relative size of usual first updates: a measured one says how far the rate is from usual.
_USUAL_UPDATE = 0.03
_LOWER = "Divide the learning rate by about {times_off}: steps of 1 to 3 % are usual."
_RAISE = (
    "Raise the learning rate about {times_off} times. Check clipping and the scale of the loss."
)
# RMSprop divides its first gradient by a tenth of it, because its mean of squares starts at 0. Of
# Adagrad the first step is the largest by far.
_FIRST_STEPS = {"rmsprop": 10.0, "adagrad": 5.0}


class _Quarters(NamedTuple):
    """The loss at first, at its highest within the first quarter, and in later quarters."""

    start: float
    highest: float
    early: float  # in the second quarter
    late: float  # in the last quarter
    error: float  # the standard error of the difference of the two

    @property
    def gained(self) -> float:
        return max(0.0, self.start - self.late)


def _quarters(curve: Curve) -> _Quarters:
    levels = [block.level for block in curve.blocks.all()]
    size = max(2, len(levels) // 4)
    early, late = levels[size : 2 * size], levels[-size:]
    start = levels[0] if curve.start is None else curve.start
    error = math.hypot(*(stdev(part) / math.sqrt(len(part)) for part in (early, late)))
    return _Quarters(start, max(levels[:size]), median(early), median(late), error)


class _Update(NamedTuple):
    """A large update: where, the share of the median weight, and over how many layers.

    ``beyond_first_steps`` is the share without what the optimizer's first step has by design.
    """

    step: int
    ratio: float
    beyond_first_steps: float
    num_layers: int


class _Updates:
    """The relative size of updates, ‖Δw‖ / ‖w‖, in the median weight of each watched step."""

    def __init__(self, *, least_norm: float, least_layers: int) -> None:
        self._least_norm = least_norm
        self._least_layers = least_layers
        self.num_layers = 0
        self.ratios: dict[int, float] = {}  # by step, of the first watched steps

    def note(self, observation: Observation) -> bool:
        """Process a record; True if it is an early one with updates of enough layers."""
        if len(self.ratios) >= _MOST_UPDATES:
            return False
        if observation.step is None or not holds_layers(observation):
            return False
        ratios, norms = UPDATE_RATIOS.of(observation.values), WEIGHT_NORMS.of(observation.values)
        # Biases and scales start near zero, where any step is large against the norm.
        bar = self._least_norm * max(norms.values(), default=0.0)
        # A batch has gradients for few rows of a table of vectors, which start at any size.
        sparse = {
            name for name, share in GRADIENT_ZEROS.of(observation.values).items() if share > 0.5
        }
        weights = [name for name in ratios if "weight" in name.rpartition(".")[-1]]
        moved = {n: ratios[n] for n in weights if norms.get(n, 0.0) > bar and n not in sparse}
        self.num_layers = len(moved)
        if len(moved) < self._least_layers:
            return False
        self.ratios[observation.step] = median(moved.values())
        return True


class LearningRateTooHigh(CurveRule):
    """The steps are too large for the weights.

    Steps that are far too large for the weights, and a loss that shows it.

    The relative size of the first updates is measured before any curve shows it. A large update is
    evidence and no proof: the second piece of evidence is a loss that does not fall meanwhile.
    """

    name = "lr-too-high"
    group = "learning rate"
    experiment = (
        "Start again with a tenth of the learning rate for 200 steps: the loss must fall faster."
    )
    apart = MappingProxyType(
        {
            "input-scale": (
                "Standardise the inputs and keep the learning rate: "
                "if the loss falls now, it was the inputs."
            ),
            "gradients-add-up": (
                "Add optimizer.zero_grad() and keep the learning rate: "
                "if the loss falls now, it was the gradients."
            ),
        }
    )
    healthy = (
        "The first steps change the weights by less than {first_update:percent} of their norm."
    )
    reports = {
        "warning": (
            "One of the first two steps changes the median weight by more than "
            "{first_update:percent} of its norm. For the first twenty steps the limit is "
            "{early_update:percent}, and {update:percent} for the first hundred with a warm-up. "
            "And the loss is above {left:percent} of its start after {points} points, or rises "
            "again. Or within the first {blow_points} points the loss is {blow:plain} times its "
            "first value, and never again half as high. Or the peak of the learning rate is more "
            "than {far:plain} times the highest that the optimizer is usually used with, and no "
            "update was measured."
        ),
        "error": (
            "One of the first steps changes the median weight by more than {lost:percent} of its "
            "norm, and the loss is above {learned:percent} of its start."
        ),
        "info": (
            "The first steps are large, and the loss falls nevertheless. Or the peak of the "
            "learning rate is more than {high:plain} times the highest usual one, and the loss "
            "stopped falling early, or rose to {early_rise:plain} times its start. Or it is more "
            "than {far:plain} times the highest usual one, and the measured updates are small."
        ),
    }
    messages = {
        "update": Message(
            "Step {step} changes the weights by {ratio:percent} of their norm (the median of "
            "{layers} layers; less than {update:percent} is usual), and the loss is {now} after "
            "{start} at first: the learning rate{rate} {is} too high.",
            _LOWER,
        ),
        "blow": Message(
            "The first steps raised the loss from {first} to {high} at {place}: the learning "
            "rate{rate} is too high for the initial weights.",
            "Start again with a learning rate 10 times lower, and warm it up. If the loss rises "
            "again, check optimizer.zero_grad() and the sign of the loss.",
        ),
        "unusual": Message(
            "The highest learning rate is {rate}, but {optimizer} is usually used with "
            "{lowest:plain} to {highest:plain}. {loss}. The learning rate may be too high.",
            "Compare with a learning rate {times_off} times lower, warmed up over the first steps.",
            "info",
            "inferred",
        ),
    }
    causes = frozenset({"instability", "standstill"})
    symptom_of = frozenset({"lost values", "divergence", "instability"})
    release = 20

    class Thresholds(RuleThresholds):
        # Of the norm of the median weight: in the first two steps, in the first twenty, and in the
        # first hundred after a warm-up. In health at most 0.16, 0.08 and 0.035.
        first_update: float = 0.2
        early_update: float = 0.1
        update: float = 0.05
        # Such a step replaces the initial weights: what follows trains from noise.
        lost: float = 1.0
        # What is left of a loss that was learned in spite of that.
        learned: float = 0.1
        layers: int = 3
        # Of the largest norm: smaller ones were not initialised to mean anything.
        least_norm: float = 0.05
        # Points after which the loss tells, and what is left of it where a rate does no harm.
        points: int = 60
        left: float = 0.9
        # The first loss over what the first points raise it to: in health at most 2.
        blow: float = 3.0
        blow_points: int = 15
        # Of the highest usual rate: high, and beyond what any healthy training needs.
        high: float = 2.0
        far: float = 12.0
        # Of all gain: what came after the first quarter; and how far the loss rose before.
        gain: float = 0.02
        early_rise: float = 1.25

    thresholds: Thresholds

    def reset(self) -> None:
        self._updates = _Updates(
            least_norm=self.thresholds.least_norm, least_layers=self.thresholds.layers
        )
        self._large: _Update | None = None
        self._first: float | None = None  # the first loss, if the next ones were far above it

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Measure updates, and compare the loss with its start and with its best level."""
        if self._updates.note(observation) and not context.is_resumed:
            self._note_update(observation.step or 0, context)
        curve = context.updated_curves.get("loss")
        if curve is None or observation.is_extreme:
            return ()
        found = (
            self._judge_update(curve, context)
            or self._judge_blow(curve, context)
            or self._judge_usual(curve, context)
        )
        if found is None and (context.is_resumed or self._is_still_up(curve)):
            return ()
        return (found or Verdict(curve.name, False),)

    def _is_still_up(self, curve: Curve) -> bool:
        """Return True if the first steps raised the loss, and it is not back where it began."""
        return self._first is not None and curve.recent_level(10) > self._first

    # -- facts ------------------------------------------------------------------------------------

    def _note_update(self, step: int, context: Context) -> None:
        """Keep the largest update that is larger than in any healthy training."""
        limits, passed = self.thresholds, step - (context.first_step or 0)
        ratio, limit, words = self._updates.ratios[step], math.inf, optimizer_words(context)
        if passed <= 2:
            limit = limits.first_update
        elif passed <= 110 and not context.rate.began_at_peak(0.9):
            limit = limits.update
        elif passed <= 20:  # later, weights that are still small take large steps in health too
            limit = limits.early_update
        factor = max((by for name, by in _FIRST_STEPS.items() if name in words), default=1.0)
        if ratio > max(factor * limit, 0.0 if self._large is None else self._large.ratio):
            self._large = _Update(step, ratio, ratio / factor, self._updates.num_layers)

    def _judge_update(self, curve: Curve, context: Context) -> Verdict | None:
        """Report a large update: a warning if the loss shows it too, else a note.

        One as large as the weights themselves needs no second piece of evidence.
        """
        limits, course, large = self.thresholds, context.course, self._large
        if large is None or curve.count < limits.points or curve.start is None:
            return None
        now = curve.recent_level(10)
        # A loss that rises soon after is evidence too; later it has other reasons.
        has_risen = course is not None and course.is_known and course.has_risen()
        is_harmed = curve.lowest <= 0 or now >= limits.left * curve.start
        is_harmed = is_harmed or (has_risen and curve.count <= 3 * limits.points)
        known = context.open.get((self.name, curve.name))
        if known is not None and known.severity != "info":
            is_harmed = True
        has_learned = curve.lowest > 0 and now < limits.learned * curve.start
        is_lost = large.beyond_first_steps > limits.lost and not has_learned
        is_known = is_lost or is_harmed
        return self.found(
            "update",
            curve.name,
            steps=(min(large.step, curve.points[0][0]), large.step),
            severity="error" if is_lost else "warning" if is_harmed else "info",
            words={
                "rate": _of_rate(context, " of "),
                "is": "is" if is_known else "may be",
                "times_off": _about(large.beyond_first_steps / _USUAL_UPDATE),
            },
            step=large.step,
            ratio=large.ratio,
            layers=large.num_layers,
            start=curve.start,
            now=now,
        )

    # -- curves -----------------------------------------------------------------------------------

    def _judge_blow(self, curve: Curve, context: Context) -> Verdict | None:
        """Find a loss that the first steps raise far above its start."""
        limits = self.thresholds
        if curve.count != limits.points or curve.lowest <= 0 or context.is_resumed:
            return None
        values = curve.window(limits.points)
        place = max(range(1, limits.blow_points), key=values.__getitem__)
        # What comes back is the noise of rare batches, or has nothing to do with the first steps.
        later = max(values[limits.blow_points + 5 :])
        if values[place] < limits.blow * values[0] or 2 * later > values[place]:
            return None
        (begin, first), (position, high) = curve.points[0], curve.points[place]
        self._first = first
        return self.found(
            "blow",
            curve.name,
            steps=steps_of(curve, begin, position),
            extent=curve.count,
            words={"place": curve.at(position), "rate": _of_rate(context, " of ")},
            first=first,
            high=high,
        )

    def _judge_usual(self, curve: Curve, context: Context) -> Verdict | None:
        """Compare the rate with the usual ones of the optimizer, and the loss with its start."""
        limits, peak = self.thresholds, context.rate.peak
        is_due = curve.count % _EVERY == 0 or context.is_open(self.name, curve.name)
        if not is_due or not peak or context.is_resumed or curve.count < 100:
            return None
        usual, passed = usual_rates(context), curve.points[-1][0] - (context.first_step or 0)
        if usual is None:
            return None
        factor, quarters = peak / usual.highest, _quarters(curve)
        if factor <= limits.far:
            if factor <= limits.high or passed < 300 or not context.family.loss_falls:
                return None
            has_risen = 0 < limits.early_rise * (curve.first or 0.0) < quarters.highest
            is_stuck = quarters.early - quarters.late <= limits.gain * quarters.gained
            if not has_risen and (quarters.gained > 0 if curve.count < 300 else not is_stuck):
                return None
        levels = (quarters.start, quarters.early, quarters.late)
        start, early, late = map(format_significant, levels)
        is_far = factor > limits.far and not self._updates.ratios and context.family.loss_falls
        return self.found(
            "unusual",
            curve.name,
            steps=steps_of(curve, curve.blocks[0].first, curve.points[-1][0]),
            severity="warning" if is_far else "info",
            words={
                "loss": f"The loss was {start} at first, then {early}, and is {late}",
                "times_off": _about(factor),
            },
            extent=curve.count,
            rate=peak,
            optimizer=usual.optimizer,
            lowest=usual.lowest,
            highest=usual.highest,
        )


class LearningRateTooLow(CurveRule):
    """The steps are too small to get anywhere.

    Steps that change next to nothing in the weights, and a loss that falls in a straight line.

    Training bends its loss: it falls fast and then slowly. A straight line means that the weights
    are still where they started. Evaluations of the same samples show it without noise.
    """

    name = "lr-too-low"
    group = "learning rate"
    certainty = "inferred"
    experiment = (
        "Start again with ten times the learning rate for 200 steps: the loss must fall faster."
    )
    apart = MappingProxyType(
        {
            "gradient-vanishing": (
                "Raise the learning rate ten times: "
                "if the first layers still do not move, it is the gradients."
            ),
            "untrained-parameters": (
                "Print which parameters have a gradient: with none, no learning rate helps."
            ),
        }
    )
    healthy = (
        "Steps change the weights by 0.01 % to 3 % of their norm, and the loss falls fast at first."
    )
    reports = {
        "warning": (
            "In the first {steps} steps no step changes the median weight by more than "
            "{update:plain} of its norm. And the loss still falls late, or is above "
            "{left:percent} of its start. Or the loss has fallen by less than {most:percent} in "
            "{points} points, in a straight line."
        ),
        "info": (
            "{evals} evaluations fall evenly, by less than {most_evals:percent} together. Or the "
            "peak of the learning rate is {low:plain} times the lowest usual one of the optimizer "
            "or less. The loss still falls, or has not begun to."
        ),
    }
    messages = {
        "updates": Message(
            "Steps change the weights by at most {ratio} of their norm (the median weight in "
            "{samples} watched steps; {usual:plain} is usual at first), and the loss falls slowly "
            "or not at all: the learning rate{rate} is too low.",
            _RAISE,
        ),
        "straight": Message(
            "The loss has fallen by {share:percent} in {count} points{rate}, in a straight line: "
            "the learning rate is too low.",
            _RAISE,
        ),
        "evaluations": Message(
            "The evaluation loss falls evenly and slowly{rate}, from {first} to {now} in {count} "
            "evaluations: the learning rate may be too low.",
            _RAISE,
            "info",
        ),
        "unusual": Message(
            "The highest learning rate is {rate}, but {optimizer} is usually used with "
            "{lowest:plain} to {highest:plain}. The loss was {start} at first and is {now} "
            "after {count} points. The learning rate may be too low.",
            "If you train from scratch, raise the learning rate {times_off} times and compare. To "
            "fine-tune a pretrained model, a low learning rate may be right.",
            "info",
        ),
    }
    causes = frozenset({"standstill"})
    symptom_of = frozenset({"lost values", "divergence", "standstill"})

    class Thresholds(RuleThresholds):
        # The largest update of the median weight in the first steps: at least 0.01 in health, and
        # at most a tenth of that with a hundredth of the rate. Fine-tuning has small ones too.
        update: float = 0.0015
        usual: float = 0.01
        steps: int = 100
        left: float = 0.95
        # A loss that has fallen by next to nothing, in a straight line beyond doubt.
        points: int = 450
        most: float = 0.05
        errors: float = 7.0
        # Evaluations that tell, the most that they fall, and how much one fall differs from the
        # next: steps of a usual size scatter twice as much.
        evals: int = 11
        most_evals: float = 0.37
        even: float = 0.17
        # Of the lowest usual rate.
        low: float = 0.1

    thresholds: Thresholds

    def reset(self) -> None:
        self._updates = _Updates(least_norm=0.02, least_layers=1)
        self._evals: list[tuple[int, float, float]] = []  # position, sum of the rates, loss
        self._way = 0.0  # the sum of the rates so far
        self._position: int | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Judge updates, the course of the loss, and evaluations."""
        if context.is_resumed or observation.is_extreme:
            return ()
        self._updates.note(observation)
        curve, evaluation = (context.updated_curves.get(role) for role in ("loss", "eval_loss"))
        course = context.course
        is_early = len(self._evals) <= _MOST_EVALS
        if evaluation is not None and evaluation.axis == "step" and is_early:
            position, loss = evaluation.points[-1]
            self._evals.append((position, self._way, loss))
        if curve is None or course is None:
            return ()
        self._add_rate(curve, context)
        if curve.count % _EVERY or curve.count < 100:
            return ()
        falls = context.family.loss_falls
        found = (
            self._judge_updates(curve, context)
            or (self._judge_losses(curve, context) if falls else None)
            or (self._judge_evaluations(curve, context) if falls else None)
            or self._judge_usual(curve, context)
        )
        if found is not None:
            return (found._replace(extent=curve.count),)
        return () if self._is_past(curve, context) else (Verdict(curve.name, False, extent=_EVERY),)

    def _is_past(self, curve: Curve, context: Context) -> bool:
        """Return True if some checks no longer apply: to find nothing is no recovery then."""
        rate = context.rate
        has_fallen = rate.peak is not None and not rate.is_near_peak(0.5)
        return has_fallen or curve.count > _MOST_POINTS or len(self._evals) > _MOST_EVALS

    def _add_rate(self, curve: Curve, context: Context) -> None:
        position, rate = curve.points[-1][0], context.rate.latest
        passed = 1 if self._position is None else position - self._position
        self._way += passed * (1.0 if rate is None else rate)
        self._position = position

    def _judge_updates(self, curve: Curve, context: Context) -> Verdict | None:
        limits, rate, ratios = self.thresholds, context.rate, self._updates.ratios
        first, last = min(ratios, default=0), max(ratios, default=0)
        warmed_up = rate.peak_since is None or curve.points[-1][0] - rate.peak_since >= 20
        if curve.count < 2 * limits.steps or last - first < limits.steps - 1 or not warmed_up:
            return None
        largest = max(ratios.values())
        quarters = _quarters(curve)
        is_slow = (
            quarters.late > limits.left * quarters.start
            or quarters.early - quarters.late > max(0.2 * quarters.gained, 4 * quarters.error)
            or not context.family.loss_falls  # its loss does not say how far it is
        )
        if largest >= limits.update or not is_slow:
            return None
        return self.found(
            "updates",
            curve.name,
            steps=(first, last),
            # The updates of plain SGD are as small as its gradients.
            severity="info"
            if not context.family.loss_falls or not is_adaptive(context)
            else "warning",
            words={
                "rate": _of_rate(context, " of "),
                "times_off": _about(limits.usual / max(largest, 1e-9)),
            },
            ratio=largest,
            samples=len(ratios),
        )

    def _judge_losses(self, curve: Curve, context: Context) -> Verdict | None:
        limits, rate = self.thresholds, context.rate
        if not limits.points <= curve.count <= _MOST_POINTS or curve.lowest <= 0:
            return None
        first_at, position = curve.blocks[0].first, curve.points[-1][0]
        is_planned = rate.peak is not None and not rate.is_near_peak(0.5)
        # Steps of a warm-up are small on purpose.
        if is_planned or 3 * ((rate.peak_since or 0) - first_at) > position - first_at:
            return None
        levels = [block.level for block in curve.blocks.all()]
        third = len(levels) // 3
        thirds = [levels[n * third : (n + 1) * third] for n in range(3)]
        first, middle, last = map(fmean, thirds)
        error = math.hypot(*(stdev(one) / math.sqrt(third) for one in (thirds[0], thirds[2])))
        fall = first - last
        # From the middle of the first third to that of the last is two thirds of the way.
        share = 1.5 * fall / (curve.start or first)
        is_straight = middle - last > 0.5 * (first - middle) > 0
        if not (is_straight and 0 < share < limits.most and fall > limits.errors * error):
            return None
        return self.found(
            "straight",
            curve.name,
            steps=steps_of(curve, first_at, position),
            words={"rate": _of_rate(context, " at a learning rate of "), "times_off": "10"},
            share=share,
            count=curve.count,
        )

    def _judge_evaluations(self, train: Curve, context: Context) -> Verdict | None:
        """Find evaluations each of which is below the one before by what the rates account for."""
        limits, evals = self.thresholds, self._evals
        if not limits.evals <= len(evals) <= _MOST_EVALS or evals[-1][0] - evals[0][0] < 200:
            return None
        (begin, _, first), (position, _, now) = evals[0], evals[-1]
        if not train.start or min(train.lowest, first, now) <= 0:
            return None
        falls = []
        for (_, way, loss), (_, later, lower) in pairwise(evals):
            if later <= way or lower >= loss:
                return None
            falls.append((loss - lower) / (later - way))
        third = len(falls) // 3
        change = median(abs(b - a) for a, b in pairwise(falls)) / median(falls)
        bend = fmean(falls[-third:]) / fmean(falls[:third])
        is_small = max(1 - now / first, 1 - now / train.start) < limits.most_evals
        if not (is_small and change < limits.even and 0.25 < bend < 1.1):
            return None
        return self.found(
            "evaluations",
            train.name,
            steps=(begin, position),
            severity="warning" if 1 - now / first < limits.most else "info",
            words={"rate": _of_rate(context, " at a learning rate of "), "times_off": "10"},
            first=first,
            now=now,
            count=len(evals),
        )

    def _judge_usual(self, curve: Curve, context: Context) -> Verdict | None:
        limits, peak, usual = self.thresholds, context.rate.peak, usual_rates(context)
        if usual is None or not peak or peak > 1.01 * limits.low * usual.lowest:
            return None
        quarters = _quarters(curve)
        passed = curve.points[-1][0] - (context.first_step or 0)
        # Where targets have large units, gradients are as large, and usual rates are too high.
        has_units = quarters.start > 100 and not usual.is_adaptive
        if passed < 300 or has_units or not context.rate.is_near_peak(0.4):
            return None
        fall = quarters.early - quarters.late
        still_falls = (
            fall > max(0.05 * quarters.gained, 4 * quarters.error) or not context.family.loss_falls
        )
        if not still_falls and quarters.gained >= limits.most * abs(quarters.start):
            return None
        return self.found(
            "unusual",
            curve.name,
            steps=steps_of(curve, curve.blocks[0].first, curve.points[-1][0]),
            words={"times_off": _about(usual.lowest / peak)},
            rate=peak,
            optimizer=usual.optimizer,
            lowest=usual.lowest,
            highest=usual.highest,
            start=quarters.start,
            now=quarters.late,
            count=curve.count,
        )


def _of_rate(context: Context, words: str) -> str:
    """Name the peak of the rate: at the end of a schedule the newest one says little."""
    rate = context.rate.peak
    return f"{words}{format_significant(rate)}" if rate else ""


def _about(ratio: float) -> str:
    """Round a factor as people say it: 3, 5, 10, 20, 30, 50, 100 and so on."""
    ratio = max(ratio, 2.0)
    size = 10.0 ** math.floor(math.log10(ratio))
    digit = min((1, 2, 3, 5, 10), key=lambda one: abs(math.log(one * size / ratio)))
    return f"{digit * size:,.0f}"


class RateEnded(CurveRule):
    """The schedule ended long before the training. Later steps change nothing.

    The rate was at work for a while, and has been next to nothing for longer than that.

    A schedule that ends at the end of its run is never below its limit for that long.
    """

    name = "rate-ended"
    group = "learning rate"
    certainty = "inferred"
    healthy = "The learning rate is above {share:percent} of its peak for most of the run."
    reports = {
        "warning": (
            "The learning rate is 0 for the first {zero_points} points. Or it has been below "
            "{share:percent} of its peak for {points} points, and for longer than it was above."
        )
    }
    messages = {
        "zero": Message(
            "The learning rate has been 0 since step {since_step}: the weights do not change.",
            "Check the schedule: its number of steps, and its unit. A schedule in epochs that "
            "takes a step per batch, or one made for fewer steps, ends too early.",
        ),
        "ended": Message(
            "The learning rate fell from {peak} to less than {share:percent} of it at step "
            "{since_step} and stays there ({rate} now): later steps change next to nothing.",
            "Check the schedule: its number of steps, and its unit. A schedule in epochs that "
            "takes a step per batch, or one made for fewer steps, ends too early.",
        ),
    }
    causes = frozenset({"standstill"})

    class Thresholds(RuleThresholds):
        # Of its peak. A cosine is below this for the last two hundredths of a run only.
        share: float = 0.001
        # Points: fewer are the end of a run, or the beginning of a warm-up.
        points: int = 50
        zero_points: int = 30

    thresholds: Thresholds

    def reset(self) -> None:
        """A resumed run may have another schedule."""
        self._peak = 0.0
        self._above = self._below = self._since = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Count the points above and below the limit."""
        rate, step = observation.roles.get("lr"), observation.step
        if rate is None or step is None or not math.isfinite(rate):
            return ()
        limits, name = self.thresholds, context.role_names["lr"]
        self._peak = max(self._peak, rate)
        if rate > limits.share * self._peak:
            self._above += 1
            self._below = 0
            return (Verdict(name, False),)
        if not self._below:
            self._since = step
        self._below += 1
        if self._below < (max(limits.points, self._above) if self._above else limits.zero_points):
            return ()
        message = "zero" if rate == 0 else "ended"
        return (
            self.found(
                message,
                name,
                steps=(self._since, step),
                extent=self._below,
                rate=rate,
                peak=self._peak,
                since_step=self._since,
            ),
        )
