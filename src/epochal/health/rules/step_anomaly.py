"""Steps that go back, repeat or leap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.recent import Recent
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

_SUBJECT = "step"


@dataclass(slots=True)
class _Tally:
    """How often something happened: the steps before and after it, the first and the last time."""

    count: int = 0
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (0, 0)

    def note(self, before: int, after: int) -> None:
        """Count one more."""
        self.last = (before, after)
        self.first = self.first if self.count else self.last
        self.count += 1

    @property
    def steps(self) -> tuple[int, int]:
        """From the first to the last."""
        return min(self.first), max(*self.first, *self.last)


class StepAnomaly(Rule):
    """The step of the training loss goes back or repeats without a resume, or leaps far ahead.

    However often that happens it is one finding, which counts; the record stays as it is, so the
    finding stays open.
    """

    name = "step-anomaly"
    group = "values"
    meaning = "The step decreased, did not change, or jumped. Two loops may write to one run."
    healthy = "Steps grow by about the same amount."
    reports = {
        "warning": (
            "A step decreases without a resume, stays the same for three records, or jumps by 20 "
            "usual increments. One finding counts all of them."
        )
    }
    kinds = frozenset({"step", "metrics"})
    every_rank = False
    replaces_text = True

    class Thresholds(RuleThresholds):
        # A stride this many times the usual one skipped something.
        jump: float = 20.0
        least: int = 20
        # A loss logged twice at a step may be a correction; at the third time the counter stands.
        repeats: int = 3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._last: int | None = None
        self._repeats = 0
        self._strides = Recent(200)
        self._leaps = _Tally()
        self._returns = _Tally()

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the stride from the last step to this one."""
        if observation.step is None or "loss" not in observation.roles:
            return ()
        thresholds = self.thresholds
        last, self._last = self._last, observation.step
        if last is None:
            return ()
        stride = observation.step - last
        self._repeats = self._repeats + 1 if stride == 0 else 0
        if stride < 0 or self._repeats >= thresholds.repeats:
            if stride < 0 or self._repeats == thresholds.repeats:
                self._returns.note(last, observation.step)
            return (self._backward(),)
        if self._leapt(stride):
            self._leaps.note(last, observation.step)
            return (self._forward(),)
        if stride > 0:
            self._strides.push(float(stride))
        return ()

    def forget_from(self, step: int, context: Context) -> None:
        """A resumed run goes back by right."""
        self._last = None
        for tally in (self._leaps, self._returns):
            if tally.count and tally.steps[1] >= step:
                tally.count = 0

    def _leapt(self, stride: int) -> bool:
        thresholds = self.thresholds
        if len(self._strides) < thresholds.least:
            return False
        usual = max(self._strides.median(), self._strides.highest() / 4)
        return stride > thresholds.jump * usual

    def _forward(self) -> Verdict:
        usual = self._strides.median()
        before, after = self._leaps.first
        often = f"{_times(self._leaps, 'at first ')}from {before:,} to {after:,}"
        return Verdict(
            _SUBJECT,
            True,
            "warning",
            f"The step jumped {often}; it usually grows by {usual:,.0f}.",
            steps=self._leaps.steps,
            evidence={"from": before, "to": after, "usual": usual, "count": self._leaps.count},
            advice="Check the step counter: records may be missing, or it counts something else.",
        )

    def _backward(self) -> Verdict:
        before, after = self._returns.first
        what = f"stays at {after:,}"
        if after < before:
            often = _times(self._returns, "at first ")
            what = f"went back {often}from {before:,} to {after:,}"
        return Verdict(
            _SUBJECT,
            True,
            "warning",
            f"The step {what} without a resume: later values hide earlier ones in every plot.",
            steps=self._returns.steps,
            evidence={"from": before, "to": after, "count": self._returns.count},
            advice=(
                "Give step= one counter for the whole run; start a second stage as a run of its "
                "own, or resume with resume_step=."
            ),
        )


def _times(tally: _Tally, first: str) -> str:
    """How often, where it was more than once."""
    return f"{tally.count:,} times, {first}" if tally.count > 1 else ""
