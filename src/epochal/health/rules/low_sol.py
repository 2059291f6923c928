"""A training far below what its hardware could do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import Thresholds
from epochal.series.window import RecentMedian

if TYPE_CHECKING:
    from epochal.health.context import Context

_SOL = "train/sol"


class LowSol(Rule):
    """The speed-of-light percentage of the steps stays low; a note, and a warning when very low."""

    name: ClassVar[str] = "low-sol"
    kinds: ClassVar[frozenset[str]] = frozenset({"step"})
    tells_growth: ClassVar[bool] = True
    every_rank: ClassVar[bool] = False
    patience = 5
    release = 5

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._recent = RecentMedian(thresholds.machine.sol_window)
        self._count = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Judge by the median of the last steps, so that pauses do not count."""
        limits = self.thresholds.machine
        sol = observation.values.get(_SOL)
        if sol is None:
            return
        self._count += 1
        if self._count <= limits.sol_skip:
            return
        self._recent.push(sol)
        level = self._recent.median()
        if level is None or self._count < limits.sol_skip + limits.sol_window:
            return
        if level >= limits.sol_share_pct:
            yield Verdict(_SOL, active=False)
            return
        yield Verdict(
            _SOL,
            active=True,
            severity="warning" if level < limits.sol_grave_pct else "info",
            sentence=f"The training runs at {level:.0f} % of the speed of light over the last "
            f"{limits.sol_window} records; from {limits.sol_share_pct:.0f} % on it is good.",
            evidence={"sol_pct": round(level, 1), "good_pct": limits.sol_share_pct},
            advice="See where the time goes (run.phase): input, exchange between ranks, small "
            "kernels. Larger batches, compilation and fused attention help most.",
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Measure anew: a new attempt compiles and warms up again."""
        self._recent = RecentMedian(self.thresholds.machine.sol_window)
        self._count = 0
