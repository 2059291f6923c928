"""Advice: the loss stalls because the gradients have faded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.signals import Signals
from epochal.health.thresholds import Thresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "norm"  # the series it is shown at


class AdviceFading(Rule):
    """A loss that has just stopped falling, with gradients half as large as shortly before.

    Gradients also shrink while a loss falls fast in health, so the loss must have stopped, and the
    rate must not be the reason for it.
    """

    name: ClassVar[str] = "advice-fading"
    kinds: ClassVar[frozenset[str]] = frozenset({"step", "metrics"})
    every_rank: ClassVar[bool] = False

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.cooldown_steps = thresholds.machine.advice_cooldown
        limits = thresholds.machine
        points = 2 * limits.advice_fading_points + limits.advice_fading_apart
        self._signals = Signals(points=points)

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge one point."""
        limits, signals = self.thresholds.machine, self._signals
        if not signals.observe(seen, context) or seen.step is None:
            return
        subject = context.role_names.get(_ROLE, _ROLE)
        if signals.phase != "plateau":
            yield Verdict(subject, holds=False)
            return
        # Sooner it may be a bend, later both halves of the norms lie on the plateau.
        points = limits.advice_fading_points
        is_fresh = points // 2 <= signals.phase_points < 2 * points
        if not is_fresh or not signals.has_converged:
            return
        change = signals.norm_change(points, apart=limits.advice_fading_apart)
        is_high = signals.rate_is_high(limits.advice_lr_share)
        if change is None or change > limits.advice_fading_share or not is_high:
            return
        yield Verdict(
            subject,
            holds=True,
            severity="info",
            sentence=f"The loss stopped falling at step {signals.phase_step:,} while the gradients "
            f"shrank to {100 * change:.0f} % of what they were: the training runs out of signal.",
            steps=(signals.phase_step, seen.step),
            evidence={"norm_change": change, "points": signals.phase_points},
            advice="Look for saturated outputs, too strong weight decay or a loss scaled down; if "
            "the training data is learned by heart, stop or add data.",
        )

    def cut(self, step: int, context: Context) -> None:
        """Begin anew."""
        self._signals.forget()
