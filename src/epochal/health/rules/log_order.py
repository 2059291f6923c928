"""Steps or times of the log that go back."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, RuleThresholds, Verdict

_ONE_COUNTER = "Give step= one counter. Make a second stage a run of its own, or use resume_step=."


class LogOrder(Rule):
    """The step went back or did not change: two loops may write to one run. Or the machine's clock
    was set back.

    The step or the time of the training loss goes back without a resume.

    However often a step goes back it is one finding, which stays open.
    """

    name = "log-order"
    group = "values"
    healthy = "Steps and times grow."
    reports = {
        "warning": (
            "A step decreases without a resume, or stays the same for {repeats} records. Or the "
            "time goes back by more than {back_s:duration}."
        )
    }
    messages = {
        "back": Message(
            "The step went back from {before} to {after}: later values hide earlier ones.",
            _ONE_COUNTER,
        ),
        "repeat": Message(
            "The step stays at {after}: later values hide earlier ones in every chart.",
            _ONE_COUNTER,
        ),
        "clock": Message(
            "The clock{whose} went back by {went_back_s:duration}{at}.",
            "Set up NTP on the machine. Rates and times left across this point are wrong.",
        ),
    }
    kinds = frozenset({"step", "metrics"})
    release = 3

    class Thresholds(RuleThresholds):
        # A loss logged twice at a step may be a correction.
        repeats: int = 3
        # Clocks are set by some milliseconds all the time; a second is noticed in plots and rates.
        back_s: float = 1.0

    thresholds: Thresholds

    def reset(self) -> None:
        """A resumed run may go back."""
        self._last: int | None = None
        self._num_repeats = 0
        self._times: dict[str, float] = {}  # the last time, by writer

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare step and time of a loss with those of the last one."""
        if "loss" not in observation.roles:
            return
        yield self._judge_time(observation, context)
        step, last = observation.step, self._last
        if step is None or observation.rank > 0:
            return
        self._last = step
        self._num_repeats = self._num_repeats + 1 if step == last else 0
        if last is not None and step < last:
            yield self.found("back", "step", steps=(step, last), before=last, after=step)
        elif self._num_repeats == self.thresholds.repeats:
            yield self.found("repeat", "step", steps=(step, step), after=step)

    def _judge_time(self, observation: Observation, context: Context) -> Verdict:
        t, writer, subject = observation.t, observation.writer, "clock" + observation.rank_suffix
        back_s = self._times.get(writer, t) - t
        self._times[writer] = t
        if back_s <= self.thresholds.back_s:
            return Verdict(subject, False)
        at = "" if observation.step is None else f" at step {observation.step:,}"
        words = {"whose": context.of_rank(observation.rank), "at": at}
        evidence = context.rank_evidence(observation.rank)
        return self.found("clock", subject, words=words, went_back_s=back_s, **evidence)
