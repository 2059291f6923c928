"""The clock goes back, or leaps ahead."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.format import format_duration
from epochal.health.context import Context
from epochal.health.recent import Recent
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.thresholds import Thresholds

_SUBJECT = "clock"


class ClockAnomaly(Rule):
    """Times of one writer that go back, or leap ahead while the step's own timer saw nothing.

    A machine that slept leaps too. A gap before an evaluation, a save or a resume is none.
    """

    name = "clock-anomaly"
    kinds = frozenset({"step", "metrics"})
    release = 3

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._last: dict[str, float] = {}
        self._gaps: dict[str, Recent] = {}

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge the time from the writer's last record to this one."""
        last = self._last.get(seen.writer)
        self._last[seen.writer] = seen.t
        if last is None:
            return ()
        gap = seen.t - last
        subject = _SUBJECT if seen.rank <= 0 else f"{_SUBJECT} (rank {seen.rank})"
        if gap < -self.thresholds.curves.clock_back_s:
            return (self._backward(subject, -gap, seen),)
        gaps = self._gaps.setdefault(seen.writer, Recent(200))
        verdict = self._forward(subject, gap, gaps, seen)
        if not verdict.holds and gap >= 0:
            gaps.push(gap)
        return (verdict,)

    def cut(self, step: int, context: Context) -> None:
        """Between two attempts any time may pass."""
        self._last.clear()

    def _forward(self, subject: str, gap: float, gaps: Recent, seen: Seen) -> Verdict:
        thresholds = self.thresholds.curves
        if len(gaps) < thresholds.step_least or gap < thresholds.clock_ahead_s:
            return Verdict(subject, False)
        known_s = seen.values.get("train/duration_ms", 0.0) / 1000
        usual = max(gaps.highest(), known_s)
        if gap < thresholds.clock_ahead_ratio * gaps.median() or gap < 5 * usual:
            return Verdict(subject, False)
        return Verdict(
            subject,
            True,
            "warning",
            f"{format_duration(gap)} passed before step {seen.step or 0:,}, where "
            f"{format_duration(gaps.median())} is usual: the machine slept, or its clock was set.",
            evidence={"gap_s": gap, "usual_s": gaps.median()},
            advice="Rates and times left across the gap are wrong; nothing else is.",
        )

    def _backward(self, subject: str, back: float, seen: Seen) -> Verdict:
        where = f" at step {seen.step:,}" if seen.step is not None else ""
        return Verdict(
            subject,
            True,
            "warning",
            f"The clock went back by {format_duration(back)}{where}.",
            evidence={"back_s": back},
            advice="Let the machine keep its time with NTP; rates across this point are wrong.",
        )
