"""The gradient norm explodes or vanishes, is clipped in every step, or adds up over steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.families import MOVING_TARGETS
from epochal.health.finding import CLIPPED, Severity, rate_rose, steps_of
from epochal.health.observation import Observation
from epochal.health.optimizer import is_adaptive
from epochal.health.rule import CurveRule, Message, Rule, RuleThresholds, Verdict

_EVERY = 20  # steps between two checks of clipping
_NORM = "{norm} at {place}, {ratio:times} times the usual {usual}."


class GradientExplosion(CurveRule):
    """The gradient is many times larger than usual. One step can destroy much progress.

    Norms many times the usual one, lasting; or a level far above that of the run.

    The norm is that before clipping where both are logged. A single high norm is only a note.
    """

    name = "gradient-explosion"
    group = "gradients"
    healthy = "The norm stays within {ratio:plain} times the usual one."
    reports = {
        "info": (
            "A point is beyond {ratio:plain} times the usual norm, and above that of the first "
            "steps. Or the level is {over_run:plain} times the usual level of the run, and "
            "{grave:plain} times if the loss has fallen and is as low as ever."
        ),
        "warning": (
            "{lasting} of five points are, or the level is, and the loss is above its best level."
        ),
        "error": (
            "The same at {grave:plain} times the usual norm or more, with a loss above its start."
        ),
    }
    peak = "ratio"
    messages = {
        "jumped": Message(
            f"The gradient norm jumped: {_NORM}",
            "One unusual batch can do this. Gradient clipping makes it harmless.",
            "info",
        ),
        "jumped_with_rate": Message(
            f"The gradient norm jumped: {_NORM} {{jump}}.", "Raise it by less, or slowly.", "info"
        ),
        "grown": Message(
            f"The gradient norm has grown far: {_NORM}",
            "Clip gradients to about the usual norm, or lower the learning rate.",
            "info",
        ),
        "exploded": Message(
            f"The gradient norm exploded: {_NORM}",
            "Clip gradients to the usual norm, lower the learning rate, and look at these batches.",
        ),
        "jump": Message(
            f"The gradient norm exploded: {_NORM}", "{jump}. Raise it by less, or slowly."
        ),
    }
    symptom_of = frozenset({"lost values", "instability"})
    wants_extremes = True
    release = 20

    class Thresholds(RuleThresholds):
        # A tenfold norm is beyond the spread of healthy batches, which is two or three to both
        # sides. A hundredfold one leaves nothing of the weights, clipped or not.
        ratio: float = 8.0
        grave: float = 100.0
        # A growth too slow for a jump is an explosion at so many times the usual of the run.
        over_run: float = 30.0
        # A lone point is a batch; three of five are the model.
        lasting: int = 3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._usual = 0.0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest norm with the values before it."""
        curve, limits, course = context.updated_curves.get("norm"), self.thresholds, context.course
        if curve is None or curve.level is None or curve.distance is None:
            return ()
        if observation.is_extreme and not curve.stands_out:
            return ()
        now = curve.recent_level(5)
        finding = context.open.get((self.name, curve.name))
        if finding is not None and finding.severity != "info":  # the usual norm is the one before
            if now < limits.ratio / 2 * self._usual:
                return (Verdict(curve.name, False),)
            return (self._describe(curve, self._usual, now, context, is_lasting=True),)
        usual, newest = math.exp(curve.level), curve.newest[1]
        # What the first steps had, the model has taken before: norms that fell far vary far.
        if curve.start is not None and max(newest, now) <= curve.start:
            return (Verdict(curve.name, False),)
        if curve.stands_out and newest >= limits.ratio * usual > 0:
            is_lasting = sum(curve.outliers) >= limits.lasting
            return (self._describe(curve, usual, newest, context, is_lasting=is_lasting),)
        if len(curve.blocks) >= 20:
            usual = curve.blocks.former_median()
            # Densities and the like have norms that grow while the loss is as low as ever.
            is_large = now > limits.over_run * usual > 0
            if is_large and (now > limits.grave * usual or course is None or course.is_hurt()):
                return (self._describe(curve, usual, now, context, is_lasting=True),)
        return (Verdict(curve.name, False),)

    def _describe(
        self, curve: Curve, usual: float, value: float, context: Context, *, is_lasting: bool
    ) -> Verdict:
        self._usual = usual
        course, ratio, jump = context.course, value / usual, context.rate.jump
        words: dict[str, str] = {"place": curve.at(curve.newest[0])}
        severity: Severity | None = None
        # Gradients grow where a loss begins to fall, too. What rises with them is harmed.
        is_of_rate = curve.is_shifting and jump is not None
        if is_of_rate and jump is not None:
            words["jump"] = rate_rose(curve, jump)
        if not is_lasting:
            message = "jumped_with_rate" if is_of_rate else "jumped"
        elif course is not None and not course.has_risen():
            message = "grown"
        else:
            message = "exploded"
            is_lost = course is None or course.has_lost_all()
            severity = "error" if ratio >= self.thresholds.grave and is_lost else "warning"
            if is_of_rate:
                message = "jump"
        return self.found(
            message,
            curve.name,
            severity=severity,
            words=words,
            norm=value,
            usual=usual,
            ratio=ratio,
        )


class GradientVanishing(CurveRule):
    """The gradient is almost zero although the loss is not low.

    A norm a small share of what it used to be, and a loss that did not fall with it.
    """

    name = "gradient-vanishing"
    group = "gradients"
    healthy = "The norm is above {share:percent} of the usual norm, or fell as much as the loss."
    reports = {
        "warning": (
            "The norm is below {share:percent} of the usual norm, times the remaining share of the "
            "loss. And the loss has learned nothing, or the norm fell suddenly."
        )
    }
    messages = {
        "small": Message(
            "The gradient norm fell from {usual} to {norm} at {place}; the loss fell by far less.",
            "Look for saturated activations, a detached graph or a loss scale that underflows. Try "
            "bfloat16, normalisation or residual connections.",
        ),
        "zero": Message(
            "The gradient norm has been 0 from the first steps on (at {place} it still is): no "
            "gradient reaches the weights.",
            "Check that the loss depends on the model's output: no detach(), no torch.no_grad(), "
            "no rewards or targets that are all equal. Check also that the norm is that of the "
            "trained parameters, computed after backward().",
        ),
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    not_in = MOVING_TARGETS  # the loss does not say how much there is left to learn
    patience = 5
    release = 20

    class Thresholds(RuleThresholds):
        # Norms fall two- or threefold as a run settles, not thirtyfold; or as the loss does, since
        # a model that is right has no gradient.
        share: float = 0.03

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._usual = 0.0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest level of the norm with the usual one."""
        curve, course = context.updated_curves.get("norm"), context.course
        if curve is None or course is None or len(curve.blocks) < 5:
            return ()
        is_open = context.is_open(self.name, curve.name)
        # While it lasts the usual norm is what it was before, or a long fault would become it.
        if not is_open:
            self._usual = curve.blocks.former_median()
        now, loss = curve.recent_level(10), course.curve
        left = 1.0
        if len(loss.blocks) >= 5 and loss.lowest > 0:
            left = min(1.0, loss.recent_level(10) / loss.blocks.former_median())
        if now > self.thresholds.share * self._usual * left:
            return (Verdict(curve.name, False),)
        # Gradients of a whole dataset vanish step by step where its loss is lowest.
        then = curve.blocks[-5]
        is_sudden = now < 0.1 * then.level and not course.has_fallen_since(then.first, 0.1)
        if not is_open and not is_sudden and course.has_learned():
            return (Verdict(curve.name, False),)
        message, words = (
            "small" if self._usual > 0 else "zero",
            {"place": curve.at(curve.points[-1][0])},
        )
        return (self.found(message, curve.name, words=words, norm=now, usual=self._usual),)


class AlwaysClipped(Rule):
    """Almost every gradient is clipped: the clipping limit sets the size of every step.

    Clipping acts in nearly every step, by far.
    """

    name = "always-clipped"
    group = "gradients"
    healthy = "Gradients are clipped in some steps only."
    reports = {
        "info": "Gradients are clipped in {share:percent} of the last {window} steps.",
        "warning": (
            "They are typically {grave:plain} times the limit after {early} steps. Not with "
            "optimizers whose steps do not depend on the size of gradients, such as Adam."
        ),
    }
    messages = {
        "clipped": Message(
            "Gradients were clipped in {clipped:percent} of the last {window} steps. The typical "
            "norm is {ratio:times} times the limit of {limit}.",
            "Raise the clipping limit to about the usual norm, or lower the learning rate if the "
            "norms are larger than they should be.",
            "info",
        )
    }
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"step", "metrics"})
    every_rank = False
    release = 3
    cooldown_steps = 500

    class Thresholds(RuleThresholds):
        window: int = 100
        share: float = 0.95
        # Healthy transformers and flows have norms of three or four times their limit throughout.
        grave: float = 8.0
        # The first norms of a run are often large; clipping them is what it is for.
        early: int = 500

    thresholds: Thresholds

    def reset(self) -> None:
        """Start again: a resumed run may clip otherwise."""
        self._ratios: deque[float] = deque(maxlen=self.thresholds.window)
        self._count = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the norm before clipping with that after it."""
        norm, clipped = observation.roles.get("norm"), observation.values.get(CLIPPED)
        if norm is None or clipped is None or not (norm >= 0 and clipped >= 0):
            return ()
        limits, name = self.thresholds, context.role_names["norm"]
        self._ratios.append(norm / clipped if clipped > 0 else 1.0)
        self._count += 1
        if self._count % _EVERY or len(self._ratios) < limits.window:
            return ()
        share = sum(ratio > 1.0001 for ratio in self._ratios) / len(self._ratios)
        if share < limits.share:
            return (Verdict(name, False, extent=_EVERY),)
        typical = median(self._ratios)
        is_grave = typical >= limits.grave and self._count >= limits.early
        # Clipping changes little in the steps of an adaptive optimizer.
        is_grave = is_grave and not is_adaptive(context)
        severity: Severity = "warning" if is_grave else "info"
        return (
            self.found(
                "clipped",
                name,
                severity=severity,
                extent=limits.window,
                clipped=share,
                ratio=typical,
                limit=clipped,
            ),
        )


class GradientsAddUp(CurveRule):
    """Gradients are not reset between steps, so that each step repeats all before it.

    A watched model shows that gradients are kept; without one, the norm is judged.

    A sum of k gradients is up to k times as long as one, and the next gradient changes it by a
    k-th. Norms of single batches differ by far more than that, whatever their level does.
    """

    name = "gradients-add-up"
    group = "gradients"
    healthy = "The norm of one batch has nothing in common with that of the batch before."
    reports = {
        "warning": (
            "With `epochal.watch(model)`: five steps in a row begin with the gradients of the "
            "step before. By the norm alone: over the first {first} to {last} steps it grows by "
            "{growth:percent} of its first value per step or more. From one step to the next it "
            "changes as little as a sum would. Or it is {long:plain} times its first value, and "
            "{smoother:plain} times smoother than the loss of the same batches."
        )
    }
    messages = {
        "kept": Message(
            "Gradients add up: {kept_steps} steps in a row, up to step {step}, began with the "
            "gradients of the step before.",
            "Call optimizer.zero_grad() in each step, on every optimizer.",
            certainty="fact",
        ),
        "sum": Message(
            "The gradient norm grows with every step, from {start} at {since} to {now} at {place} "
            "({ratio:times} times), and as smoothly as a sum: gradients add up.",
            "Call optimizer.zero_grad() in each step. Otherwise compare the optimizer's "
            "parameters with the model's: some that get gradients may not be in it.",
        ),
    }
    causes = frozenset({"instability", "standstill"})
    symptom_of = frozenset({"lost values", "unread gradients"})
    kinds = CurveRule.kinds | {"event"}

    class Thresholds(RuleThresholds):
        # Steps from the first: earlier every norm may grow so, later a sum turns round.
        first: int = 20
        last: int = 100
        # Growth per step, as a share of the first norm: more is gradients that grow themselves.
        growth: float = 0.2
        most_growth: float = 5.0
        # The usual change from one step to the next, times the steps so far.
        change: float = 2.2
        # Checks in favour, one every five points, and their share of all.
        checks: int = 5
        share: float = 0.7
        # Of a long sum: over its first value, its usual bend as a share of it, and that of the loss
        # over it. Of single batches the norm is at most seven times smoother than the loss.
        long: float = 5.0
        bend: float = 0.01
        smoother: float = 25.0

    thresholds: Thresholds

    def reset(self) -> None:
        """A new attempt may be of another script."""
        self._is_known = False  # by the event: nothing is left to be judged
        self._hits = self._checks = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Read the event of a watched model, or check the first norms of a run."""
        if observation.kind == "event":
            return self._judge_event(observation, context)
        curve, limits = context.updated_curves.get("norm"), self.thresholds
        if self._is_known or curve is None or curve.axis != "step" or context.is_resumed:
            return ()
        if curve.count % 20 == 0 and self._is_long_sum(curve, context.curves.get("loss")):
            return (self._describe(curve),)
        count = curve.points[-1][0] - curve.points[0][0] + 1
        if not context.family.loss_falls or curve.count % 5 or curve.count > len(curve.points):
            return ()
        if not limits.first <= count <= limits.last or curve.count < 13:
            return ()
        self._checks += 1
        self._hits += self._adds_up(curve.window(curve.count), count)
        if self._hits < max(limits.checks, limits.share * self._checks):
            return ()
        return (self._describe(curve),)

    def _judge_event(self, event: Observation, context: Context) -> Iterable[Verdict]:
        if event.record.get("name") != "gradients-kept":
            return
        self._is_known = True
        steps, position = event.count_of("steps"), event.count_of("at_step")
        yield self.found(
            "kept",
            context.role_names.get("norm", "grads"),
            steps=(max(0, position - steps), position),
            kept_steps=steps,
            step=position,
            parameter=str(event.record.get("parameter")),
        )

    def _is_long_sum(self, curve: Curve, loss: Curve | None) -> bool:
        """Whether the norm has grown, and bends far less than the loss of the same batches."""
        limits, start = self.thresholds, curve.first
        if loss is None or min(curve.count, loss.count) < 40 or not start:
            return False
        norms = curve.window(40)
        if curve.points[-1][0] - curve.points[-40][0] > 5 * 39 or min(norms) < limits.long * start:
            return False  # too many steps in between are not logged
        bend = _bend(norms)
        return 0 < bend < limits.bend and _bend(loss.window(40)) > limits.smoother * bend

    def _adds_up(self, values: Sequence[float], count: int) -> bool:
        limits, start, newest = self.thresholds, median(values[:3]), values[-10:]
        if start <= 0 or min(newest) <= 0:
            return False
        growth = median(newest[-3:]) / start / count
        change = median(abs(math.log(b / a)) for a, b in pairwise(newest)) * len(values)
        is_sum = limits.growth < growth < limits.most_growth
        return is_sum and change < limits.change * max(1.0, count / len(values))

    def _describe(self, curve: Curve) -> Verdict:
        start, now = curve.first or curve.points[0][1], curve.recent_level(3)
        begin, position = curve.blocks[0].first, curve.points[-1][0]
        return self.found(
            "sum",
            curve.name,
            steps=steps_of(curve, begin, position),
            words={"since": curve.at(begin), "place": curve.at(position)},
            start=start,
            now=now,
            ratio=now / start,
        )


def _bend(values: Sequence[float]) -> float:
    """Return how far a point usually lies from the line between its neighbours, as a share."""
    threes = zip(values, values[1:], values[2:], strict=False)
    level = abs(median(values))
    return median(abs(a - 2 * b + c) for a, b, c in threes) / level if level > 0 else 0.0
