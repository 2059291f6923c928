"""Advice: the loss is constant while the rate is high and the gradients do not change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.causes import OF_STANDSTILL
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.signals import AdviceThresholds, Signals

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "loss"  # the series it is shown at


class AdviceStuck(Rule):
    """A plateau that lasts, flat gradients and a rate that stays high: the steps jump to and fro.

    Gradients that have faded since it began are another matter, even where they are flat by now. A
    rate that moves is left alone: its schedule does what the advice would be.
    """

    name = "advice-stuck"
    group = "advice"
    meaning = "The steps are too large for further progress."
    healthy = "The learning rate falls while the loss is constant."
    reports = {
        "info": (
            "A plateau continues and the learning rate stays high. Gradients are constant and "
            "more than half as large as when the plateau began."
        ),
    }
    what_to_try = "Lower the learning rate now, or stop."
    silenced_by = ("nonfinite", "divergence")
    explained_by = OF_STANDSTILL
    kinds = frozenset({"step", "metrics"})
    every_rank = False

    class Thresholds(AdviceThresholds):
        # Of its peak: below it the schedule is at work already.
        lr_share: float = 0.3
        # Points of the gradient norm: medians of fifty stray by a few percent of it, so that flat
        # is a change of less than a sixth.
        flat_points: int = 50
        flat_share: float = 0.15
        # Points after a plateau was found: many end by themselves.
        points: int = 200
        # A rate that moves by more than this meanwhile is in the hands of its schedule.
        lr_moved: float = 0.03
        # Gradients at less than half of what they were, while the loss has all but stopped.
        faded_share: float = 0.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.cooldown_steps = thresholds.cooldown
        self._signals = Signals(points=2 * thresholds.flat_points)
        self._points = 0
        self._first_lr = 0.0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check one point."""
        limits, signals = self.thresholds, self._signals
        if not signals.observe(observation, context) or observation.step is None:
            return
        subject = context.role_names.get(_ROLE, _ROLE)
        plateau = context.open.get(("plateau", subject))
        if plateau is None or signals.lr is None:
            self._points = 0
            yield Verdict(subject, active=False)
            return
        if abs(signals.lr - self._first_lr) > limits.lr_moved * self._first_lr:
            self._points, self._first_lr = 0, signals.lr
        self._points += 1
        is_stuck = self._points >= limits.points and signals.rate_is_high(limits.lr_share)
        change = signals.norm_change(limits.flat_points) if is_stuck else None
        if change is None or abs(change - 1) > limits.flat_share:
            return
        since = plateau.steps[0] if plateau.steps is not None else observation.step
        left = signals.norm_since(since, limits.flat_points)
        if left is not None and left <= limits.faded_share:
            yield Verdict(subject, active=False)  # they have faded, and that is other advice
            return
        yield Verdict(
            subject,
            active=True,
            severity="info",
            sentence=f"The loss has not moved since step {since:,}, {self._size(left, change)}, "
            f"and the learning rate stays at {format_number(signals.lr)}.",
            steps=(since, observation.step),
            evidence={
                "lr": signals.lr,
                "peak_lr": signals.peak_lr,
                "norm_change": change if left is None else left,
            },
            advice="Begin to lower the rate now, or use a larger batch: steps of this size no "
            "longer reduce the loss. If the loss is low enough, stop here.",
        )

    def _size(self, left: float | None, change: float) -> str:
        """The size of the gradients since, or recently if they were not logged."""
        size = change if left is None else left
        if size < 1 - self.thresholds.flat_share:
            return f"the gradients are still {100 * size:.0f} % of what they were before"
        return "the gradients are as large as before"

    def forget_from(self, step: int, context: Context) -> None:
        """Start again."""
        self._signals.forget()
        self._points = 0
