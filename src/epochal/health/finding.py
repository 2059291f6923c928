"""What a rule found: one sentence, what proves it, and what to try."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from epochal.health.course import RateJump
from epochal.health.curve import Curve
from epochal.journal.diagnosis import Certainty
from epochal.records import Record, moment_of
from epochal.records.format import format_bytes, format_duration, format_significant

Severity = Literal["info", "warning", "error"]
State = Literal["open", "closed"]
Evidence = Mapping[str, bool | int | float | str]

# What most findings do not have.
_OPTIONAL = frozenset({"under", "experiment", "apart"})
SEVERITIES: tuple[str, ...] = get_args(Severity)  # from mild to grave


class Evaluated(NamedTuple):
    """How many of the records of steps and metrics the rules saw."""

    evaluated: int
    records: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is or was wrong with a run; the same ``id`` from opening to closing.

    ``steps`` are the first and the last step it was seen at, None for what has no step; ``t`` is
    the time of this statement, in Unix seconds. ``certainty`` says what it rests on; ``under`` is
    the id of the finding that it is a consequence of. ``experiment`` would confirm or refute it,
    and ``apart`` says by rule what tells that cause from this one.
    """

    id: str
    rule: str
    severity: Severity
    sentence: str
    series: str | None
    steps: tuple[int, int] | None
    evidence: Evidence
    advice: str
    state: State
    t: float
    certainty: Certainty = "measured"
    under: str | None = None
    experiment: str = ""
    apart: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> Record:
        """The finding as a journal record of kind ``finding``."""
        record: Record = {"log": "finding", "t": self.t}
        record |= {one.name: getattr(self, one.name) for one in fields(self)}
        record["steps"] = None if self.steps is None else list(self.steps)
        record["evidence"] = {key: _plain(value) for key, value in self.evidence.items()}
        return {name: value for name, value in record.items() if value or name not in _OPTIONAL}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Finding | None:
        """The finding in a journal record; None if there is no valid one."""
        if record.get("log") != "finding":
            return None
        absent: Record = {"series": None, "steps": None, "evidence": {}, "advice": ""}
        given = {"state": "open", **absent, **record, "t": moment_of(record)}
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError:
            return None


def dedup_key(record: Record) -> tuple[str, ...]:
    """What makes a finding new to its readers: it closed, changed its rank or went on."""
    steps = record.get("steps")
    until = steps[-1] if isinstance(steps, (list, tuple)) and steps else None
    fields = (record.get(name) for name in ("id", "state", "severity", "under"))
    return (*map(str, fields), str(until))


def finding_id(rule: str, subject: str, opened: float) -> str:
    """Twelve hexadecimal digits from the rule, its subject and the step or time of opening."""
    import hashlib  # OpenSSL takes half a MiB, and many runs have no finding

    return hashlib.sha256(f"{rule}\0{subject}\0{opened!r}".encode()).hexdigest()[:12]


def is_more_severe(severity: Severity, than: Severity) -> bool:
    """Whether the first severity is more severe than the second."""
    return SEVERITIES.index(severity) > SEVERITIES.index(than)


def _plain(value: float | str) -> float | str:
    # JSON has no words for these numbers; as a text they can still be read.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# What to check where a model's output does not depend on its input.
INPUTS_REACH_THE_OUTPUT = (
    "that inputs reach the output: no ReLU that is always 0, no initialisation near 0."
)
# The series of the gradient norm after clipping.
CLIPPED = "train/norm_clipped"


def steps_of(curve: Curve, first: int, last: int) -> tuple[int, int] | None:
    """Return a range as a finding's steps; None on an axis that is not of steps."""
    return (min(first, last), max(first, last)) if curve.axis == "step" else None


def rate_rose(curve: Curve, jump: RateJump) -> str:
    """Return the beginning of a sentence about a jump of the learning rate."""
    return (
        f"The learning rate rose {times(jump.factor)} times at {curve.at(jump.position)}, "
        f"from {format_significant(jump.before)} to {format_significant(jump.after)}"
    )


def times(ratio: float) -> str:
    """Format a factor in few digits: ``3.4``, ``28``, ``1,200``."""
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def percent(share: float) -> str:
    """Format a share as per cent: ``12 %``, ``0.4 %``."""
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"


_FORMATS: dict[str, Callable[[Any], str]] = {
    "times": times,
    "percent": percent,
    "bytes": format_bytes,
    "duration": format_duration,
    "plain": lambda value: f"{value:g}",
}


class _Formatter(string.Formatter):
    """Formats numbers as findings show them; the part after ``:`` may name another format."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        if format_spec or isinstance(value, (str, bool)):
            return format(value, format_spec)
        return f"{value:,}" if isinstance(value, int) else format_significant(value)


_FORMATTER = _Formatter()


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fill a template such as ``"The loss rose {ratio:times} times at step {step}."``."""
    return _FORMATTER.vformat(template, (), values)
