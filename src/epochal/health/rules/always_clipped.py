"""Nearly every step is clipped: the limit sets the step, not the gradient."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.evaluations import is_adaptive
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CLIPPED, percent, times
from epochal.health.thresholds import RuleThresholds

# Optimizers whose steps do not depend on the scale of the gradients.
_SCALE_FREE = ("adam", "rmsprop", "lion", "adagrad", "adafactor")
_EVERY = 10  # steps between two looks at the window


class AlwaysClipped(Rule):
    """The norm after clipping is below the one before it at nearly all of the newest steps."""

    name = "always-clipped"
    group = "gradients"
    meaning = "The clipping limit, not the gradient, sets the size of every step."
    healthy = "Norms mostly below the limit."
    reports = {
        "info": "95 % of 100 steps are clipped.",
        "warning": (
            "The same after 500 step records, with norms 8 times the limit. Not with an optimizer "
            "that divides by the size of gradients, such as Adam: its steps hardly change."
        ),
    }
    needs = (
        "The gradient norm before and after clipping. If the norm is always the same round "
        "number, it was logged after clipping: log the norm before clipping too."
    )
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

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._ratios: deque[float] = deque(maxlen=thresholds.window)
        self._count = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest steps."""
        norm, clipped = observation.roles.get("norm"), observation.values.get(CLIPPED)
        if norm is None or clipped is None or not (norm >= 0 and clipped >= 0):
            return ()
        self._ratios.append(norm / clipped if clipped > 0 else 1.0)
        self._count += 1
        if self._count % _EVERY or len(self._ratios) < self.thresholds.window:
            return ()
        share = sum(ratio > 1.0001 for ratio in self._ratios) / len(self._ratios)
        name = context.role_names["norm"]
        if share < self.thresholds.share:
            return (Verdict(name, False),)
        typical = median(self._ratios)
        is_grave = typical >= self.thresholds.grave and self._count >= self.thresholds.early
        is_grave = is_grave and not is_adaptive(context.config, _SCALE_FREE)
        return (
            Verdict(
                name,
                True,
                "warning" if is_grave else "info",
                f"Gradients were clipped at {percent(share)} of the last {len(self._ratios)} "
                f"steps, typically {times(typical)} times down to {format_number(clipped)}.",
                evidence={"share": share, "ratio": typical, "limit": clipped},
                advice=(
                    "Raise the clipping limit to about the usual norm, or lower the learning rate "
                    "if the norms are larger than they should be."
                ),
            ),
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Start again: a resumed run may clip otherwise."""
        self._ratios.clear()
