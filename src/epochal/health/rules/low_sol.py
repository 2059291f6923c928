"""A training far below what its hardware could do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.series.window import RecentMedian

if TYPE_CHECKING:
    from epochal.health.context import Context

_SOL = "train/sol"


class LowSol(Rule):
    """The speed-of-light percentage of the steps stays low; a note, and a warning when very low."""

    name = "low-sol"
    group = "speed"
    meaning = "The hardware could do the same work much faster."
    healthy = "60 % of the speed of light or more. 80 % is excellent."
    reports = {"info": "Below 60 % over 50 records.", "warning": "Below 25 %."}
    kinds = frozenset({"step"})
    replaces_text = True
    every_rank = False
    patience = 5
    release = 5

    class Thresholds(RuleThresholds):
        # 80 % of the speed of light is excellent; below 60 % something holds the hardware up.
        share_pct: float = 60.0
        # Below this it is no longer a matter of tuning kernels.
        grave_pct: float = 25.0
        window: int = 50
        # Compilation and warm-up of the clocks.
        skip: int = 20

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._recent = RecentMedian(thresholds.window)
        self._count = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check by the median of the last steps, so that pauses do not count."""
        limits = self.thresholds
        sol = observation.values.get(_SOL)
        if sol is None:
            return
        self._count += 1
        if self._count <= limits.skip:
            return
        self._recent.push(sol)
        level = self._recent.median()
        if level is None or self._count < limits.skip + limits.window:
            return
        if level >= limits.share_pct:
            yield Verdict(_SOL, active=False)
            return
        yield Verdict(
            _SOL,
            active=True,
            severity="warning" if level < limits.grave_pct else "info",
            sentence=f"The training runs at {level:.0f} % of the speed of light over the last "
            f"{limits.window} records; from {limits.share_pct:.0f} % on it is good.",
            evidence={"sol_pct": round(level, 1), "good_pct": limits.share_pct},
            advice="See where the time goes (run.phase): input, exchange between ranks, small "
            "kernels. Larger batches, compilation and fused attention help most.",
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Measure again: a new attempt compiles and warms up again."""
        self._recent = RecentMedian(self.thresholds.window)
        self._count = 0
