"""Values that are no numbers, and steps or times that go back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from epochal.health.context import Context
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, RuleThresholds, Verdict
from epochal.records.format import format_significant

# Series that a watched model has one of for every tensor, and those of routers, which are all made
# of the same logits: one finding for all of them.
_FAMILIES = ("grads/", "params/", "abs_max/", "update_ratio/", "moe/")
_MOST_NAMED = 4
# Before this many steps there is rarely a checkpoint to go back to.
_EARLY = 30
_TITLES = {"loss": "The loss", "norm": "The gradient norm", "eval_loss": "The evaluation loss"}
_SENTENCE = "{title} became {word}{where}{more}{before}{tensor}."
_ADVICE = {
    "gradient": (
        "With float16, a loss scaler skips single steps like this one. Otherwise lower the "
        "learning rate, clip gradients, or train in bfloat16."
    ),
    "router": (
        "Go back to the last checkpoint before it. Then compute the logits of the routers in 32 "
        "bits, add a z loss, and lower the learning rate of the routers."
    ),
    "negative": (
        "It happened within the first steps, from a loss below zero: check the sign of the loss "
        "first. Then check the initialisation and the inputs."
    ),
    "early": (
        "It happened in the first steps: check the initialisation, the inputs for values that are "
        "not finite or too large, and overflow in float16. Then lower the learning rate."
    ),
    "later": (
        "Go back to the last checkpoint before it. Lower the learning rate, clip gradients, and "
        "look for a division by zero, log(0) or overflow in float16."
    ),
}


@dataclass(slots=True)
class _Fault:
    """A series without numbers: since when, its last number, and for how many records."""

    name: str
    rank: int
    step: int | None
    last: tuple[float, int | None] | None
    in_row: int = 0
    records: int = 0


class _Tensor(NamedTuple):
    """A tensor with values that are no numbers, and the watched step that showed them."""

    name: str
    step: int | None

    def sentence(self, since: int | None) -> str:
        """Return the end of a sentence about a loss that is no number since a step.

        A step that was watched later says where the values are, not where they came from.
        """
        if since is not None and self.step is not None and self.step > since:
            return f". The next watched step, {self.step:,}, has such values in {self.name}"
        return f". First seen in {self.name}{_at(self.step, ' (step {:,})')}"


class NonFinite(Rule):
    """A value overflowed or was not defined. Everything computed from it is lost.

    NaN or infinity in any series, reported at its first record.
    """

    name = "nonfinite"
    group = "values"
    certainty = "fact"
    healthy = "Every value is a number. A loss scaler may skip single steps."
    reports = {
        "info": (
            "The gradient norm is NaN or infinite for a few records, as when a loss scaler skips "
            "steps. Or a metric never was a number."
        ),
        "warning": (
            "The norm is not a number {lasting} times in a row, or {lasting_first} times from the "
            "first step on. Or another series that had numbers stops having them."
        ),
        "error": (
            "The loss is not a number. If the model is watched, the finding names the first "
            "tensors with such values."
        ),
    }
    messages = {key: Message(_SENTENCE, advice) for key, advice in _ADVICE.items()}
    wants_extremes = True  # numbers among skipped records end a row of those that are none
    causes = frozenset({"lost values"})
    kinds = frozenset({"step", "eval", "metrics", "moe", "abs-maxes", "epoch", "event"})
    release = 5

    class Thresholds(RuleThresholds):
        # A loss scaler finds its scale within a step or two. At first it halves a scale of 65,536
        # until nothing overflows.
        lasting: int = 3
        lasting_first: int = 10

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        # By rank and name: the last number and its step.
        self._last: dict[int, dict[str, tuple[float, int | None]]] = {}
        self._faults: dict[str, _Fault] = {}  # by subject
        self._tensors: dict[str, _Tensor] = {}  # those that are not finite

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        values, rank, step = observation.values, observation.rank, observation.step
        if observation.kind == "event":
            self._note_event(observation.record)
            return
        bad: dict[str, list[str]] = {}
        if not all(map(math.isfinite, values.values())):
            for name in [name for name, value in values.items() if not math.isfinite(value)]:
                family = next((family for family in _FAMILIES if name.startswith(family)), name)
                bad.setdefault(family + observation.rank_suffix, []).append(name)
                if family != name:
                    self._tensors.setdefault(name, _Tensor(name, step))
            values = {name: value for name, value in values.items() if math.isfinite(value)}
        # A loss that is not a number explains every other value that is none.
        errors = {
            subject
            for (rule, subject), finding in context.open.items()
            if rule == self.name and finding.severity == "error"
        }
        errors |= bad.keys() & {context.role_names.get("loss", "") + observation.rank_suffix}
        for subject, names in bad.items():
            if not errors or subject in errors:
                yield self._found(subject, names, observation, context)
        for subject, fault in self._faults.items():
            if fault.rank == rank and fault.name in values and subject not in bad:
                fault.in_row = 0
                yield Verdict(subject, False)
                if not any(fault.in_row for fault in self._faults.values()):
                    self._tensors.clear()
        numbers = zip(values.values(), repeat(step), strict=False)
        self._last.setdefault(rank, {}).update(zip(values, numbers, strict=False))

    def _note_event(self, record: Mapping[str, object]) -> None:
        if record.get("name") == "nonfinite-gradient":
            parameter, step = record.get("parameter"), record.get("at_step")
            seen = _Tensor(f"the gradient of {parameter}", step if isinstance(step, int) else None)
            self._tensors.setdefault(f"grads/{parameter}", seen)

    def _found(
        self, subject: str, names: list[str], observation: Observation, context: Context
    ) -> Verdict:
        name, rank, value = names[0], observation.rank, observation.values[names[0]]
        fault = self._faults.get(subject)
        # A single number in between does not end a fault.
        if fault is None or not context.is_open(self.name, subject):
            last = self._last.get(rank, {}).get(name)
            fault = self._faults[subject] = _Fault(name, rank, observation.step, last)
        fault.in_row += 1
        fault.records += 1
        titles = (title for role, title in _TITLES.items() if context.role_names.get(role) == name)
        words = {
            "title": next(titles, name) + context.of_rank(rank),
            "word": "NaN" if math.isnan(value) else "infinite",
            "where": _at(fault.step, " at step {:,}"),
            "more": f", with {len(names) - 1:,} more like it" if len(names) > 1 else "",
            "before": "",
            "tensor": "",
        }
        if fault.last is not None:
            number = format_significant(fault.last[0])
            words["before"] = f"; the last number was {number}{_at(fault.last[1], ' at step {:,}')}"
        evidence: dict[str, Any] = {"value": str(value), "series": name}
        if self._tensors:
            shown, more = list(self._tensors)[:_MOST_NAMED], len(self._tensors) - _MOST_NAMED
            evidence["tensors"] = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
            if not name.startswith(_FAMILIES):
                words["tensor"] = next(iter(self._tensors.values())).sentence(fault.step)
        message, severity = self._message(fault, context)
        evidence |= {"records": fault.records, **context.rank_evidence(rank)}
        return self.found(message, subject, severity=severity, words=words, **evidence)

    def _message(self, fault: _Fault, context: Context) -> tuple[str, Severity]:
        limits, name, first = self.thresholds, fault.name, context.first_step
        is_tensor = name.startswith(_FAMILIES)
        if context.role_names.get("norm") == name or name.startswith("grads/"):
            is_first = fault.last is None and not is_tensor
            is_lasting = fault.in_row >= (limits.lasting_first if is_first else limits.lasting)
            return "gradient", "warning" if is_lasting else "info"
        is_loss, had_number = context.role_names.get("loss") == name, fault.last or is_tensor
        severity: Severity = "error" if is_loss else "warning" if had_number else "info"
        if name.startswith("moe/"):
            return "router", severity
        is_known = fault.step is not None and first is not None and not context.is_resumed
        if not is_known or (fault.step or 0) - (first or 0) > _EARLY:
            return "later", severity
        is_negative = is_loss and fault.last is not None and fault.last[0] < 0
        return "negative" if is_negative else "early", severity


def _at(number: int | None, template: str) -> str:
    return "" if number is None else template.format(number)


# -- the order of the log --------------------------------------------------------------------------


_ONE_COUNTER = "Give step= one counter. Make a second stage a run of its own, or use resume_step=."


class LogOrder(Rule):
    """The step went back or did not change: two loops may write to one run. Or the machine's clock
    was set back.

    The step or the time of the training loss goes back without a resume.

    However often a step goes back it is one finding, which stays open.
    """

    name = "log-order"
    group = "values"
    certainty = "fact"
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
