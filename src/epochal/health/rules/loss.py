"""The loss jumps, stops falling, never falls, or rises and does not come back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from epochal.health.context import Context, reward_name
from epochal.health.course import Course, RateJump, evaluation_is_fine, evaluation_suffers
from epochal.health.curve import Curve, is_usable
from epochal.health.families import MOVING_TARGETS
from epochal.health.finding import INPUTS_REACH_THE_OUTPUT, rate_rose, steps_of, times
from epochal.health.observation import Observation
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict

_EPOCH = "train/epoch"
_EVERY = 50  # points between two checks of a loss that has never fallen
_AT_TURN = 3  # points after an epoch began
_SPIKE = "The loss jumped from {level} to {value} at {place}{noise}."


class LossSpike(CurveRule):
    """One batch, or too large a step, raised the loss suddenly.

    A loss far out of its own noise and beyond all that stood out of it before.

    It is a note, however large: a new task, harder data and a new opponent lift a loss as well as a
    step that was too large. A loss that does not come back is a divergence.
    """

    name = "loss-spike"
    group = "loss"
    healthy = (
        "The loss stays within 8 widths of its level, and 1.6 times its largest distance so far."
    )
    reports = {
        "info": (
            "One point is above both bounds, and a tenth above the level. Below {learned:percent} "
            "of its start a loss must rise by {of_start:percent} of the start. The advice depends "
            "on whether {lasting} of five points are, and {large:percent} above the level."
        )
    }
    messages = {
        "batch": Message(
            _SPIKE, "One unusual batch can do this. Look at its data if it repeats.", "info"
        ),
        "lasting": Message(
            _SPIKE,
            "Look at these batches. If spikes repeat, clip gradients or lower the learning rate.",
            "info",
        ),
        "epoch": Message(
            _SPIKE,
            "The loss has jumped at the beginning of {turns} epochs: the samples have an order, "
            "such as one class after the other. Shuffle them in each epoch.",
            "info",
        ),
        "unlearned": Message(
            _SPIKE,
            "The model has memorised the batches before, and is worse on these than at the start. "
            "If samples come one class after the other, shuffle them. Otherwise lower the "
            "learning rate, or clip gradients lower.",
            "info",
        ),
        "jump": Message(f"{_SPIKE} {{jump}}.", "Raise it by less, or slowly.", "info"),
    }
    symptom_of = frozenset({"lost values"})
    wants_extremes = True
    release = 10

    class Thresholds(RuleThresholds):
        # A lone point is a batch; three of five are the model.
        lasting: int = 3
        # A bump of less than a third of the level comes with new data as well as from trouble.
        large: float = 0.3
        # Of the start: a loss below the first has been learned, and its single batches differ many
        # times over. What they add up to in health is less than the second.
        learned: float = 0.1
        of_start: float = 0.25

    thresholds: Thresholds

    def reset(self) -> None:
        """An epoch that is begun again counts again."""
        self._epoch = 0
        self._since_turn = _AT_TURN + 1  # points since an epoch began, after the first one
        self._turns: set[int] = set()  # epochs that began with a spike

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest loss with the values before it."""
        curve = context.updated_curves.get("loss")
        if curve is None:
            return ()
        if not observation.is_extreme:  # nobody knows how many points lie between it and the others
            self._since_turn += 1
            epoch = observation.values.get(_EPOCH)
            if epoch is not None and math.isfinite(epoch) and math.floor(epoch) > self._epoch:
                self._epoch, self._since_turn = math.floor(epoch), 0
        if curve.distance is None:
            return ()
        if not curve.stands_out or self._is_small(curve):
            return (Verdict(curve.name, False),)
        if self._since_turn <= _AT_TURN and not observation.is_extreme:
            self._turns.add(self._epoch)
        return (self._describe(curve, context),)

    def _is_small(self, curve: Curve) -> bool:
        """Return True for a batch of a loss that is learned, far below what it was at first."""
        limits, level, start = self.thresholds, curve.level, curve.start
        if level is None or start is None or curve.lowest <= 0 or level > limits.learned * start:
            return False
        return curve.newest[1] - level < limits.of_start * start

    def _describe(self, curve: Curve, context: Context) -> Verdict:
        lasting = max(1, sum(curve.outliers))
        # The highest of those that stand out together.
        outliers = (curve.points[-1 - n] for n, out in enumerate(reversed(curve.outliers)) if out)
        position, value = max((curve.newest, *outliers), key=lambda point: point[1])
        level, width = curve.level or 0.0, curve.width or 0.0
        size = abs(level) if curve.lowest > 0 else curve.highest - curve.lowest
        is_lasting = lasting >= self.thresholds.lasting
        ratio = (value - level) / width if width > 0 else 0.0
        noise = f", {times(ratio)} times its usual noise" if width > 0 else ""
        words, jump = {"place": curve.at(position), "noise": noise}, context.rate.jump
        message = (
            "lasting" if is_lasting and value - level > self.thresholds.large * size else "batch"
        )
        if curve.is_shifting and jump is not None:
            message, words["jump"] = "jump", rate_rose(curve, jump)
        elif len(self._turns) > 1 and self._epoch in self._turns:
            message, words["turns"] = "epoch", str(len(self._turns))
        elif curve.start is not None and 0 <= level < 0.05 * curve.start < curve.start < value:
            message = "unlearned"
        evidence: dict[str, Any] = {"value": value, "level": level, "points": lasting}
        evidence |= {"ratio": ratio} if width > 0 else {}
        return self.found(message, curve.name, words=words, **evidence)


class Plateau(CurveRule):
    """The loss no longer falls by more than its noise.

    Two windows in a row with no measurable fall between them, several times over.

    A note, not a warning: every training ends on one. Only a loss that has fallen before is on a
    plateau. The loss of a game measures nothing.
    """

    name = "plateau"
    group = "loss"
    certainty = "inferred"
    experiment = (
        "Train on one batch alone: if its loss falls, the model can learn and the data or the "
        "rate holds it back."
    )
    healthy = "The loss falls within 2 × {window} points, or the schedule is at its end."
    reports = {
        "info": (
            "The loss does not fall by more than its noise from {window} points to the next, in "
            "{checks} checks in a row, and its noise cannot hide {hidden:percent} of its gain."
        )
    }
    messages = {
        "high_rate": Message(
            "The loss has not measurably fallen from {since} to {place}: {older}, then {newer}. "
            "The learning rate is still {lr}.",
            "Lower the learning rate 3 to 10 times and see whether the loss falls again.",
            "info",
        ),
        "low_rate": Message(
            "The loss has not measurably fallen from {since} to {place}: {older}, then {newer}.",
            "Stop here, or use more data or a larger model. Lower the learning rate if it is high.",
            "info",
        ),
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    not_in = MOVING_TARGETS
    release = 4

    class Thresholds(RuleThresholds):
        # Two windows of three hundred points, compared; three comparisons, fifty points apart.
        window: int = 300
        every: int = 50
        checks: int = 3
        # A fall below a thousandth of the level (or of the range covered) per window is none.
        share: float = 0.001
        # What noise may hide must be little of what was gained, or nobody knows whether it fell.
        hidden: float = 0.05
        cooldown: int = 1000

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.patience = thresholds.checks
        self.cooldown_steps = thresholds.cooldown

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest window with the one before it, every so many points."""
        limits, curve = self.thresholds, context.updated_curves.get("loss")
        if curve is None or curve.count % limits.every:
            return ()
        window, values = limits.window, curve.window(2 * limits.window)
        if len(values) < 2 * window or curve.start is None or not curve.width:
            return ()
        older, newer = fmean(values[:window]), fmean(values[window:])
        quarter = window // 4
        parts = [fmean(values[n : n + quarter]) for n in range(0, 2 * window, quarter)]
        noise = 2 * curve.width * math.sqrt(2 / window)
        is_flat = (
            curve.start - newer > curve.width
            and older - newer <= self._least_fall(curve, window)
            # It did not fall from its first points on, nor does it move to and fro, or up.
            and parts[0] - newer <= self._least_fall(curve, quarter)
            and max(parts) - min(parts) <= 2.5 * self._least_fall(curve, quarter)
        )
        is_known = older - newer + noise <= limits.hidden * curve.gained(newer)
        if not is_flat or not (is_known or context.is_open(self.name, curve.name)):
            return (Verdict(curve.name, False, extent=limits.every),)
        first, last = curve.points[-2 * window][0], curve.points[-1][0]
        return (
            self.found(
                "high_rate" if context.rate.is_near_peak(0.3) else "low_rate",
                curve.name,
                steps=steps_of(curve, first, last),
                words={"since": curve.at(first), "place": curve.at(last)},
                extent=2 * window + (limits.checks - 1) * limits.every,
                older=older,
                newer=newer,
                width=curve.width,
                lr=context.rate.latest or 0.0,
            ),
        )

    def _least_fall(self, curve: Curve, points: int) -> float:
        """The change that noise alone does not cause, but at least a thousandth of the level."""
        size = abs(curve.level or 0.0) if curve.lowest > 0 else curve.highest - curve.lowest
        by_noise = 2 * (curve.width or 0.0) * math.sqrt(1 / points + 1 / self.thresholds.window)
        return max(by_noise, self.thresholds.share * size)


class NeverFell(CurveRule):
    """The model has not learned anything. Gradients may not reach the weights, or labels may not
    match inputs.

    After hundreds of points the loss has not come below its first level.

    A loss that reaches zero, or that of a game, need not fall.
    """

    name = "never-fell"
    group = "loss"
    certainty = "inferred"
    experiment = "Train on one batch alone: a program without a fault brings its loss near 0."
    healthy = "The loss is lower after a few hundred points."
    reports = {
        "info": (
            "No fall beyond noise in {points} points and {steps} steps, and the points exclude a "
            "fall of {hidden_most:percent}. The evaluation loss has not fallen either."
        ),
        "warning": "The points exclude a fall of {hidden:percent}.",
    }
    messages = {
        "flat": Message(
            "The loss has not fallen from where it started: {first} at first, {now} at {place}.",
            "Check that gradients reach the weights (optimizer.step, requires_grad, the right "
            "parameters), that labels match inputs, that the learning rate is neither far too "
            f"high nor far too low, and {INPUTS_REACH_THE_OUTPUT} First overfit one batch as a "
            "test.",
            "info",
        )
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    not_in = MOVING_TARGETS

    class Thresholds(RuleThresholds):
        # Nothing learned in so many points is long past any warm-up.
        points: int = 300
        steps: int = 300
        # A fall that noise may hide, of the first level: where it is larger nobody knows.
        hidden_most: float = 0.1
        # A fall is real when it is three standard errors of the difference of two thirds, and half
        # a percent.
        errors: float = 3.0
        share: float = 0.005
        # A warning needs points that leave no room for a fall of this share.
        hidden: float = 0.01

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._fell: Curve | None = None  # the curve that has fallen

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the last third of the run with its first, every so many points."""
        curve, limits = context.updated_curves.get("loss"), self.thresholds
        if curve is None or curve.count % _EVERY or curve.count < limits.points:
            return ()
        if curve is self._fell and not context.is_open(self.name, curve.name):
            return ()
        if context.is_resumed or curve.lowest <= 0 or curve.start is None:
            return ()
        begin, position = curve.blocks[0].first, curve.points[-1][0]
        if curve.axis == "step" and position - begin < limits.steps - 1:
            return ()
        levels = [block.level for block in curve.blocks.all()]
        third = max(1, len(levels) // 3)
        first, last = levels[:third], levels[-third:]
        size, now = fmean(first) - fmean(last), curve.recent_level(20)
        squares = sum((v - fmean(part)) ** 2 for part in (first, last) for v in part)
        error = math.sqrt(squares / max(1, 2 * third - 2) * 2 / third)
        least = limits.share * median(first)
        # What fell within the first points is seen by the very first ones only.
        noise = max(3 * curve.width_at(min(curve.start, now)), least)
        lowest = min((a + b) / 2 for a, b in pairwise(levels))
        fell_at_once = curve.start - median(last) > noise or curve.start - lowest > noise
        if size > max(limits.errors * error, least) or fell_at_once or _evaluation_fell(context):
            self._fell = curve
            return (Verdict(curve.name, False, extent=_EVERY),)
        hidden = (size + limits.errors * error) / median(first)
        # What falls just now, or has risen far, is not known to stay where it is.
        if hidden > limits.hidden_most or not 0.98 < now / median(first) < 1.5:
            return ()
        return (
            self.found(
                "flat",
                curve.name,
                steps=steps_of(curve, begin, position),
                severity="warning" if hidden < limits.hidden else "info",
                words={"place": curve.at(position)},
                extent=curve.count,
                first=median(first),
                now=now,
                points=curve.count,
            ),
        )


def _evaluation_fell(context: Context) -> bool:
    """Whether the evaluation loss is clearly below its first: then the model learns.

    A loss of pairs, of an opponent or of a growing queue need not fall for that.
    """
    curve = context.curves.get("eval_loss")
    if curve is None or curve.first is None or len(curve.points) < 2:
        return False
    newest = max(value for _, value in list(curve.points)[-2:])
    return curve.first - newest > 0.02 * abs(curve.first)


# -- a loss that does not come back ----------------------------------------------------------------


_ALL = 0.9  # of the gain: what is left of it is noise
_ZERO = 0.01  # a first loss of a policy; another one so small is rare
_HIGH = 1.0  # a policy's loss, with normalised advantages, is below
_EARLY = 50  # points, before which there is rarely a checkpoint to resume from
_ROSE = "The loss rose from {best} to {level} between {since} and {place}, and has not recovered."


class Divergence(CurveRule):
    """The loss has risen and does not recover.

    The level of the loss is far above the best of the run, and does not fall.

    Far is relative to the loss, its gain, its noise, and the rises from which this run has
    recovered: the losses of adversarial networks oscillate normally. After a jump of the learning
    rate it is measured from the best level since. If the rate was never as high, a loss that has
    not come back to the level before the jump is lost too.

    A loss also rises by design: its terms get weight, its data gets harder, its opponent learns.
    So a second signal is needed: noise and gradients that grow, or evaluations that suffer.

    The loss of a policy starts at about zero and rises while the policy learns: such a rise is not
    judged, and no rise is while the reward is at its best. What counts there is the reward, which
    has fallen if much of it is lost and does not come back.
    """

    name = "divergence"
    group = "loss"
    healthy = "The loss returns to its best level soon after a rise."
    reports = {
        "warning": (
            "For {wait} points the loss does not fall and is far above its best level. The rise "
            "is at least {share:percent}, {of_gain:percent} of its gain, {widths:plain} widths and "
            "{over_worst:plain} times any rise it recovered from. In a game, with rewards or two "
            "players, it is {times_game:plain} times the best level. The loss is noisier than at "
            "its best and gradients are larger, or evaluations have lost half of their gain. "
            "{lost_points} points are enough if the loss has doubled and all gain is lost; "
            "{wait_balance} are needed if it never fell. A rise from about zero does not count, "
            "nor does one while the reward is at its best. Or for {wait} points the reward has "
            "lost {of_reward:percent} of its best level (of its gain, if rewards are negative)."
        ),
        "error": (
            "The same, and the loss is above its start. Not in a game. Or {of_gain_jump:percent} "
            "of the gain is lost since a jump to a new, higher learning rate."
        ),
    }
    messages = {
        "never_fell": Message(
            _ROSE,
            "The loss has never fallen. Check its sign first: a negated loss rises from the first "
            "step on. Check that optimizer.zero_grad() is called in each step. If both are right, "
            "start again with a lower learning rate.",
            "error",
        ),
        "early": Message(
            _ROSE,
            "All that was gained at first is lost. Check that optimizer.zero_grad() is called in "
            "each step; then start again with half the learning rate, or less.",
            "error",
        ),
        "rose": Message(
            _ROSE,
            "Stop, and resume from a checkpoint before the rise with half the learning rate or "
            "stronger gradient clipping.",
        ),
        "jump": Message(
            "{jump}; the loss has not recovered since: it was {best} and is {level} at {place}.",
            "Stop, resume from a checkpoint before the jump, and keep the learning rate that "
            "worked, or raise it slowly and by less.",
            "error",
        ),
        "reward": Message(
            "The reward fell from {best} to {level} between {since} and {place}, and has not "
            "recovered.",
            "Stop, and resume from a checkpoint before the fall with half the learning rate, "
            "stronger gradient clipping or a stronger penalty for leaving the reference policy.",
        ),
    }
    causes = frozenset({"divergence"})
    symptom_of = frozenset({"lost values", "instability"})
    release = 20

    class Thresholds(RuleThresholds):
        least: int = 80
        # A fifth above the best level is beyond what batches and schedules do to it, as is a
        # quarter of all that was gained, or 80 % of a level that is far below the start.
        share: float = 0.2
        of_gain: float = 0.25
        most: float = 0.8
        # Of the gain before a jump to a new, higher learning rate.
        of_gain_jump: float = 0.35
        widths: float = 5.0
        over_worst: float = 1.5
        # The losses of a game rise as both sides learn.
        times_game: float = 10.0
        # Points in a row: time for a harder stage of the data to show that it is learned, unless
        # the rise is more than was ever gained and doubles the loss.
        wait: int = 60
        lost_points: int = 10
        # A loss that has never fallen may find the balance of its terms first.
        wait_balance: int = 250
        # Points within which a run that is evaluated is evaluated twice.
        wait_evals: int = 150
        # Of the best reward: less is lost to harder prompts and to exploration.
        of_reward: float = 0.5

    thresholds: Thresholds

    def reset(self) -> None:
        self._in_row = 0
        self._reward: Course | None = None  # of the reward with its sign changed: it falls
        self._low_in_row = 0
        self._halfway = math.inf  # between the best level and the one that opened the finding

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the level of the loss, and that of the reward, with the best level."""
        if observation.is_extreme:
            return
        yield from self._judge_reward(observation, context)
        yield from self._judge_loss(context)

    def _judge_loss(self, context: Context) -> Iterable[Verdict]:
        curve, course = context.updated_curves.get("loss"), context.course
        if curve is None or course is None or not course.is_known:
            return ()
        if curve.count < self.thresholds.least:
            return ()
        if self._rises_from_zero(course, context) or self._is_rewarded():
            self._in_row = 0
            return (Verdict(curve.name, False),)
        jump = self._jump_that_lost(course, context)
        if jump is not None:
            since = sum(position >= jump.position for position, _ in curve.points)
            return (self._describe(course, context, jump)._replace(extent=since),)
        is_far = self._is_far(course, context)
        self._in_row = self._in_row + 1 if is_far else 0
        lasted = min(self._in_row, len(curve.points))
        risen_at = curve.points[-max(1, lasted)][0]
        is_far = is_far and not evaluation_is_fine(context.curves.get("eval_loss"), risen_at)
        # What is open closes when the loss is back, not when it falls for a moment.
        is_open = context.is_open(self.name, curve.name)
        if not is_far and is_open and course.level > self._halfway:
            return ()  # its best level is only the best since a restart of the learning rate
        if not is_far or not (is_open or self._begins(course, context, lasted, risen_at)):
            return (Verdict(curve.name, False),)
        if not is_open:
            self._halfway = course.level - course.height / 2
        return (self._describe(course, context)._replace(extent=lasted),)

    def _rises_from_zero(self, course: Course, context: Context) -> bool:
        """Whether the loss started at about zero and never fell, as that of a policy.

        Where no reward tells that there is a policy, its loss is below 1.
        """
        curve, start = course.curve, course.curve.start
        if start is None or (context.family.loss_falls and course.level >= _HIGH):
            return False
        width = curve.width_at(start)
        near = max(_ZERO, 2 * width) if curve.lowest <= 0 else _ZERO
        return abs(start) <= near and course.gained <= self.thresholds.widths * width

    def _is_rewarded(self) -> bool:
        """Whether the reward has risen, and is at its best."""
        reward = self._reward
        return reward is not None and not reward.is_hurt()

    def _follow_reward(self, observation: Observation) -> Course | None:
        """Return the course of the reward, if the record has a point of it."""
        values = observation.values
        if self._reward is None:
            name = reward_name(tuple(values), observation.kind)
            self._reward = None if name is None else Course(Curve(name, axis="step"))
        reward = self._reward
        value = math.nan if reward is None else values.get(reward.curve.name, math.nan)
        if reward is None or observation.step is None or not is_usable(value):
            return None
        reward.curve.push(observation.step, -value)
        reward.follow()
        return reward

    def _judge_reward(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Follow the first reward that a run logs, and compare its level with the best."""
        limits, at, reward = self.thresholds, observation.step, self._follow_reward(observation)
        if at is None or reward is None or reward.best is None:
            return ()
        curve = reward.curve
        if curve.count < limits.least:
            return ()
        # Rewards that are never negative are themselves what may be lost.
        most = reward.gained if curve.highest > 0 else -reward.best
        width = curve.width_at(reward.best)
        is_low = most > limits.widths * width and reward.height > max(
            limits.of_reward * most, limits.widths / 2 * width, limits.over_worst * reward.worst
        )
        self._low_in_row = self._low_in_row + 1 if is_low else 0
        is_open = context.is_open(self.name, curve.name)
        is_lost = self._low_in_row >= limits.wait and not reward.is_falling()
        if not is_low or not (is_open or is_lost):
            return (Verdict(curve.name, False),)
        return (
            self.found(
                "reward",
                curve.name,
                steps=(reward.best_at, at),
                words={"since": curve.at(reward.best_at), "place": curve.at(at)},
                extent=self._low_in_row,
                best=-reward.best,
                level=-reward.level,
                width=width,
            ),
        )

    def _jump_that_lost(self, course: Course, context: Context) -> RateJump | None:
        """Return the jump to a rate never tried before since which the loss has not come back."""
        limits, curve, jump = self.thresholds, course.curve, context.rate.jump
        best = course.before
        if best is None or jump is None or not jump.is_new or not context.family.loss_falls:
            return None
        gained, width = curve.gained(best), curve.width_at(best)
        is_lost = gained > limits.widths * width and course.level - best > max(
            limits.of_gain_jump * gained,
            limits.share * course.size,
            limits.widths / 2 * width,
            limits.over_worst * course.worst,
        )
        is_open = context.is_open(self.name, curve.name)
        if not is_lost or not (is_open or not course.is_falling()):
            return None
        return None if evaluation_is_fine(context.curves.get("eval_loss"), jump.position) else jump

    def _is_far(self, course: Course, context: Context) -> bool:
        limits, curve, best = self.thresholds, course.curve, course.best or 0.0
        share = limits.share if context.family.loss_falls else limits.times_game
        return course.height > max(
            share * course.size,
            curve.share_of_gain(limits.of_gain, best, most=limits.most),
            limits.widths * curve.width_at(best),
            limits.over_worst * course.worst,
        )

    def _begins(self, course: Course, context: Context, lasted: int, risen_at: int) -> bool:
        """Whether the loss has been far up for long enough, with a second signal."""
        limits, norm = self.thresholds, context.curves.get("norm")
        is_doubled = course.height > max(abs(course.best or 0.0), course.gained)
        enough = limits.lost_points if is_doubled else limits.wait
        if self._may_find_balance(course, norm):
            enough = limits.wait_balance
        if lasted < enough or course.is_falling():
            return False
        # A harder stage of a curriculum does not hurt evaluations: a run that has them gets time.
        evaluation = context.curves.get("eval_loss")
        if evaluation is not None and evaluation.count > 1 and lasted < limits.wait_evals:
            since = sum(position > risen_at for position, _ in evaluation.points)
            if since < 2:
                return False
        suffers = evaluation_suffers(context.curves.get("eval_loss"), course.best_at)
        if self._is_lost(course):
            return suffers or any(course.is_rougher(norm, course.best_at))
        if norm is None and suffers:
            return True
        return all(course.is_rougher(norm, course.best_at, by_level=True))

    def _may_find_balance(self, course: Course, norm: Curve | None) -> bool:
        """Whether a loss that never fell rises as one term of several does."""
        curve, best = course.curve, course.best or 0.0
        if curve.lowest <= 0 or course.level > self.thresholds.times_game * best:
            return False
        has_fallen = course.gained > curve.least_change(best)
        return not has_fallen and not course.is_outgrown(norm, course.best_at)

    def _is_lost(self, course: Course) -> bool:
        """Whether nothing is left of what was gained."""
        best = course.best or 0.0
        start = best if course.curve.start is None else course.curve.start
        return course.height > _ALL * (start - best)

    def _describe(self, course: Course, context: Context, jump: RateJump | None = None) -> Verdict:
        curve, best, since = course.curve, course.best or 0.0, course.best_at
        position, words = curve.points[-1][0], {}
        is_lost = jump is not None or self._is_lost(course)
        if jump is not None:
            message, words = "jump", {"jump": rate_rose(curve, jump)}
            best, since = course.before or 0.0, jump.position
        elif curve.start is not None and course.gained < curve.least_change(curve.start) / 2:
            message = "never_fell"
        elif is_lost and course.best_at < curve.blocks[0].first + _EARLY:
            message = "early"
        else:
            message = "rose"
        return self.found(
            message,
            curve.name,
            steps=steps_of(curve, since, position),
            severity="error" if is_lost and context.family.loss_falls else "warning",
            words={"since": curve.at(since), "place": curve.at(position), **words},
            best=best,
            level=course.level,
            width=curve.width or 0.0,
        )
