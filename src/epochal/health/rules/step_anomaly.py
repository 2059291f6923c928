"""Steps that go back, repeat or leap."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.recent import Recent
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.thresholds import Thresholds

_SUBJECT = "step"


class StepAnomaly(Rule):
    """The step of the training loss goes back or repeats without a resume, or leaps far ahead."""

    name = "step-anomaly"
    kinds = frozenset({"step", "metrics"})
    every_rank = False
    release = 5

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._last: int | None = None
        self._repeats = 0
        self._strides = Recent(200)

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge the stride from the last step to this one."""
        if seen.step is None or "loss" not in seen.roles:
            return ()
        thresholds = self.thresholds.curves
        last, self._last = self._last, seen.step
        if last is None:
            return ()
        stride = seen.step - last
        self._repeats = self._repeats + 1 if stride == 0 else 0
        if stride < 0 or self._repeats >= thresholds.step_repeats:
            return (self._backward(last, seen.step),)
        verdict = self._forward(last, seen.step, stride)
        if stride > 0 and not verdict.holds:
            self._strides.push(float(stride))
        return (verdict,)

    def cut(self, step: int, context: Context) -> None:
        """A resumed run goes back by right."""
        self._last = None

    def _forward(self, last: int, step: int, stride: int) -> Verdict:
        thresholds = self.thresholds.curves
        if len(self._strides) < thresholds.step_least:
            return Verdict(_SUBJECT, False)
        usual = self._strides.median()
        if stride <= thresholds.step_jump * max(usual, self._strides.highest() / 4):
            return Verdict(_SUBJECT, False)
        return Verdict(
            _SUBJECT,
            True,
            "warning",
            f"The step leapt from {last:,} to {step:,}, where it usually grows by {usual:,.0f}.",
            steps=(last, step),
            evidence={"from": last, "to": step, "usual": usual},
            advice="Check the step counter: records may be missing, or it counts something else.",
        )

    def _backward(self, last: int, step: int) -> Verdict:
        what = f"went back from {last:,} to {step:,}" if step < last else f"stands at {step:,}"
        return Verdict(
            _SUBJECT,
            True,
            "warning",
            f"The step {what} without a resume: later values hide earlier ones in every plot.",
            steps=(step, last),
            evidence={"from": last, "to": step},
            advice=(
                "Give step= one counter for the whole run; start a second stage as a run of its "
                "own, or resume with resume_step=."
            ),
        )
