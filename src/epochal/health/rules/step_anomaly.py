"""Steps that go back or repeat."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, Verdict
from epochal.health.thresholds import RuleThresholds

_ONE_COUNTER = (
    "Give step= one counter for the whole run. Start a second stage as a run of its own, or resume "
    "with resume_step=."
)


class StepAnomaly(Rule):
    """The step of the training loss goes back or repeats without a resume.

    However often that happens it is one finding, which counts; the record stays as it is, so the
    finding stays open.
    """

    name = "step-anomaly"
    group = "values"
    meaning = "The step decreased or did not change. Two loops may write to one run."
    healthy = "Steps grow."
    reports = {
        "warning": "A step decreases without a resume, or stays the same for {repeats} records."
    }
    messages = {
        "back": Message(
            "warning",
            "The step went back {often}from {before} to {after} without a resume: later values "
            "hide earlier ones in every chart.",
            _ONE_COUNTER,
        ),
        "repeat": Message(
            "warning",
            "The step stays at {after}: later values hide earlier ones in every chart.",
            _ONE_COUNTER,
        ),
    }
    kinds = frozenset({"step", "metrics"})
    every_rank = False
    replaces_text = True

    class Thresholds(RuleThresholds):
        # A loss logged twice at a step may be a correction.
        repeats: int = 3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._last: int | None = None
        self._num_repeats = 0
        # By message: how often, the first steps before and after, and the largest step.
        self._seen: dict[str, tuple[int, tuple[int, int], int]] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the increment from the last step to this one."""
        step, last = observation.step, self._last
        if step is None or "loss" not in observation.roles:
            return
        self._last = step
        if last is None:
            return
        self._num_repeats = self._num_repeats + 1 if step == last else 0
        if step < last:
            yield self._noted("back", last, step)
        elif self._num_repeats == self.thresholds.repeats:
            yield self._noted("repeat", last, step)

    def forget_from(self, step: int, context: Context) -> None:
        """A resumed run may go back."""
        self._last = None
        self._seen = {key: seen for key, seen in self._seen.items() if seen[-1] < step}

    def _noted(self, message: str, before: int, after: int) -> Verdict:
        count, first, end = self._seen.get(message, (0, (before, after), 0))
        count, end = count + 1, max(end, before, after)
        self._seen[message] = (count, first, end)
        return self.found(
            message,
            "step",
            steps=(min(first), end),
            words={"often": f"{count:,} times, at first " if count > 1 else ""},
            before=first[0],
            after=first[1],
            count=count,
        )
