"""A figure is no longer a number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.finding import Finding, Severity
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

# Series that a watched model has one of for every tensor, and the figures of routers, which are all
# made of the same logits: one finding for all of them.
_FAMILIES = ("grads/", "params/", "activations/", "abs_max/", "update_ratio/", "moe/")
_MOST_NAMED = 4
_EARLY = 30  # steps, before which there is hardly a checkpoint to go back to
_LASTING = 3  # a loss scaler finds its scale within a step or two
_LASTING_FIRST = 10  # at first it halves a scale of 65,536 until nothing overflows


@dataclass(slots=True)
class _Beginning:
    """Where a series stopped having numbers, its last number, and in how many records since."""

    step: int | None
    last: tuple[float, int | None] | None
    records: int = 0


class NonFinite(Rule):
    """NaN or infinity in any series, reported at its first record.

    In the loss it is an error. In the gradient norm it may be a loss scaler at work, which skips
    such steps: a note, and a warning when it goes on. A series that never had a number is a note.
    """

    name = "nonfinite"
    group = "values"
    meaning = "A value overflowed or was not defined. Everything computed from it is lost."
    healthy = "Every value is a number. A loss scaler may skip single steps."
    reports = {
        "info": (
            "The gradient norm is NaN or infinite once or twice, as when a loss scaler skips "
            "steps. Or a metric never was a number."
        ),
        "warning": (
            "The norm is not a number three times in a row, or ten times from the first step on. "
            "Or another series that had numbers stops having them."
        ),
        "error": (
            "The loss is not a number. If the model is watched, the finding names the first "
            "tensors with such values."
        ),
    }
    wants_extremes = True  # numbers among skipped records end a row of those that are none
    causes = frozenset({"lost values"})
    kinds = frozenset({"step", "eval", "metrics", "moe", "abs-maxes", "epoch", "event"})
    release = 5
    replaces_text = True

    def __init__(self, thresholds: RuleThresholds) -> None:
        super().__init__(thresholds)
        self._last: dict[str, tuple[float, int | None]] = {}  # the last number, by subject
        self._in_row: dict[str, int] = {}  # records in a row without one, of what ever had none
        self._began: dict[str, _Beginning] = {}  # of what is open, by subject
        self._tensor: str | None = None  # the first tensor known to be bad, and where
        self._tensors: dict[str, None] = {}  # those known to be bad, in order

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check every value of a record."""
        if observation.kind == "event":
            self._note_event(observation.record)
            return ()
        if all(map(math.isfinite, observation.values.values())):
            bad = []
        else:
            bad = [name for name, value in observation.values.items() if not math.isfinite(value)]
            self._note_tensor(bad, observation)
        grouped = _grouped(bad, observation.rank)
        # A loss that is not a number explains every other value that is none.
        errors = {one.series for one in context.open.values() if _is_error(one)}
        verdicts = [
            self._bad(subject, grouped[subject], observation, context)
            for subject in grouped
            if not errors or subject in errors
        ]
        if self._in_row:
            verdicts.extend(self._recovered(observation, grouped))
        self._note_finite(observation)
        return verdicts

    # -- what was seen ----------------------------------------------------------------------------

    def _note_finite(self, observation: Observation) -> None:
        """Remember the last number of each series that is not one of a tensor's."""
        rank, step, last = observation.rank, observation.step, self._last
        for name, value in observation.values.items():
            if math.isfinite(value) and not name.startswith(_FAMILIES):
                last[name if rank <= 0 else _subject(name, rank)] = (value, step)

    def _note_tensor(self, bad: list[str], observation: Observation) -> None:
        tensors = [name for name in bad if name.startswith(_FAMILIES)]
        if tensors and self._tensor is None:
            first = tensors[0]
            self._tensor = (
                f"{first} (step {observation.step:,})" if observation.step is not None else first
            )
        self._tensors.update(dict.fromkeys(tensors))

    def _note_event(self, record: Mapping[str, object]) -> None:
        if record.get("name") == "nonfinite-gradient" and self._tensor is None:
            parameter, step = record.get("parameter"), record.get("at_step")
            where = f" (step {step:,})" if isinstance(step, int) else ""
            self._tensor = f"the gradient of {parameter}{where}"
            self._tensors[f"grads/{parameter}"] = None

    # -- what is said -----------------------------------------------------------------------------

    def _recovered(self, observation: Observation, bad: Mapping[str, list[str]]) -> list[Verdict]:
        found = {_subject(name, observation.rank) for name in observation.values}
        finite = sorted(subject for subject in self._in_row if subject in found - bad.keys())
        for subject in finite:
            self._in_row[subject] = 0
        if not any(self._in_row.values()):
            self._tensor, self._tensors = None, {}
        return [Verdict(subject, False) for subject in finite]

    def _bad(
        self, subject: str, names: list[str], observation: Observation, context: Context
    ) -> Verdict:
        in_row = self._in_row[subject] = self._in_row.get(subject, 0) + 1
        began = self._beginning(subject, observation, context)
        last = began.last
        value = observation.values[names[0]]
        word = "NaN" if math.isnan(value) else "infinite"
        where = f" at step {began.step:,}" if began.step is not None else ""
        who = _title(names[0], context)
        sentence = f"{who} became {word}{where}{_rank(observation.rank)}"
        if len(names) > 1:
            sentence += f", with {len(names) - 1:,} more like it"
        if last is not None:
            before = f" at step {last[1]:,}" if last[1] is not None else ""
            sentence += f"; the last number was {format_number(last[0])}{before}"
        if self._tensor is not None and not names[0].startswith(_FAMILIES):
            sentence += f". First seen in {self._tensor}"
        evidence: dict[str, float | int | str] = {"value": str(value), "series": names[0]}
        evidence["records"] = began.records
        if len(names) > 1:
            evidence["alike"] = len(names)
        if self._tensors:
            evidence["tensors"] = _listed(list(self._tensors))
        return Verdict(
            subject,
            True,
            _severity(names[0], in_row, context, had_number=last is not None),
            sentence + ".",
            evidence=evidence,
            advice=_advice(names[0], began.step, context, last=None if last is None else last[0]),
        )

    def _beginning(self, subject: str, observation: Observation, context: Context) -> _Beginning:
        """Where the current problem began; a single number in between does not end it."""
        began = self._began.get(subject)
        if began is None or not context.is_open(self.name, subject):
            began = self._began[subject] = _Beginning(observation.step, self._last.get(subject))
        began.records += 1
        return began


def _is_error(finding: Finding) -> bool:
    return finding.rule == NonFinite.name and finding.severity == "error"


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _severity(name: str, in_row: int, context: Context, *, had_number: bool) -> Severity:
    if context.role_names.get("loss") == name:
        return "error"
    if context.role_names.get("norm") == name or name.startswith("grads/"):
        is_first = not had_number and not name.startswith(_FAMILIES)
        return "warning" if in_row >= (_LASTING_FIRST if is_first else _LASTING) else "info"
    return "warning" if had_number or name.startswith(_FAMILIES) else "info"


def _subject(name: str, rank: int) -> str:
    family = next((family for family in _FAMILIES if name.startswith(family)), None)
    return (family or name) + _rank(rank)


def _grouped(bad: list[str], rank: int) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name in bad:
        grouped.setdefault(_subject(name, rank), []).append(name)
    return grouped


def _rank(rank: int) -> str:
    return f" (rank {rank})" if rank > 0 else ""


def _title(name: str, context: Context) -> str:
    titles = {"loss": "The loss", "norm": "The gradient norm", "eval_loss": "The evaluation loss"}
    for role, title in titles.items():
        if context.role_names.get(role) == name:
            return title
    return name


def _advice(name: str, step: int | None, context: Context, *, last: float | None) -> str:
    if context.role_names.get("norm") == name or name.startswith("grads/"):
        return (
            "With float16 and a loss scaler single steps like this are skipped; otherwise lower "
            "the learning rate, clip gradients, or train in bfloat16."
        )
    if name.startswith("moe/"):
        return (
            "The routers' logits are no numbers: go back to the last checkpoint before it; compute "
            "them in 32 bits, add a z-loss, and lower the routers' learning rate."
        )
    first = context.first_step
    if step is not None and first is not None and step - first <= _EARLY and not context.is_resumed:
        if last is not None and last < 0 and context.role_names.get("loss") == name:
            return (
                "It came within the first steps, from a loss below zero: check its sign first, as "
                "a loss that is maximised has no end. Then check initialisation and inputs."
            )
        return (
            "It came within the first steps: check the initialisation, the inputs for values that "
            "are not finite or far too large, and overflow in float16; then lower the learning "
            "rate and warm it up."
        )
    return (
        "Go back to the last checkpoint before it; lower the learning rate, clip gradients, and "
        "look for a division by zero, log(0) or overflow in float16."
    )
