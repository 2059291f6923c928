"""Advice: the loss stands still while the rate is high and the gradients stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from epochal.format import format_number
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.signals import Signals
from epochal.health.thresholds import Thresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_SUBJECT = "plateau"


class AdviceStuck(Rule):
    """A long plateau, flat gradients and a rate near its peak: the steps jump to and fro.

    Only where the loss fell before: what never fell has another rule.
    """

    name: ClassVar[str] = "advice-stuck"
    kinds: ClassVar[frozenset[str]] = frozenset({"step", "metrics"})
    every_rank: ClassVar[bool] = False

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.cooldown_steps = thresholds.machine.advice_cooldown
        self._signals = Signals(points=2 * thresholds.machine.advice_flat_points)

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge one point."""
        limits, signals = self.thresholds.machine, self._signals
        if not signals.observe(seen, context) or seen.step is None:
            return
        if signals.phase != "plateau":
            yield Verdict(_SUBJECT, holds=False)
            return
        is_stuck = (
            signals.has_converged
            and signals.phase_points >= limits.advice_stuck_points
            and signals.lr is not None
            and signals.rate_is_high(limits.advice_lr_share)
        )
        change = signals.norm_change(limits.advice_flat_points) if is_stuck else None
        if change is None or abs(change - 1) > limits.advice_flat_share:
            return
        yield Verdict(
            _SUBJECT,
            holds=True,
            severity="info",
            sentence=f"The loss has not moved since step {signals.phase_step:,}, the gradients are "
            f"as large as ever, and the learning rate is still {format_number(signals.lr or 0.0)}.",
            steps=(signals.phase_step, seen.step),
            evidence={
                "points": signals.phase_points,
                "lr": signals.lr or 0.0,
                "peak_lr": signals.peak_lr,
                "norm_change": change,
            },
            advice="Begin to lower the rate now, or use a larger batch: steps of this size no "
            "longer get down. If the loss is as low as you hoped, stop here.",
        )

    def cut(self, step: int, context: Context) -> None:
        """Begin anew."""
        self._signals.forget()
