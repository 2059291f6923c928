"""Reads the values of calls: records what it can, and notes the rest instead of raising.

A text in place of a number becomes a ``text`` record, an array or a list of numbers a
``histogram``. None and anything else is left out. The first value of each name is printed and
recorded as the event ``value-converted`` or ``value-dropped``; all are counted. ``strict`` raises
instead, for tests.

A :class:`ValuePolicy` belongs to a run and counts; a :class:`CallValues` reads one call.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from epochal.console.stream import printable
from epochal.errors import EpochalError, UsageError, ValueTypeError
from epochal.guard import attempt, describe
from epochal.records import Field, Record
from epochal.values import (
    MOST_BITS,
    Number,
    as_pairs,
    element_count,
    is_device_tensor,
    plain_float,
    plain_int,
    plain_number,
)

T = TypeVar("T")
Report = Callable[[str, str, dict[str, Any]], object]

DROPPED, CONVERTED = "value-dropped", "value-converted"
# So many names are told apart; what bad values of more names there are is counted together.
MAX_NAMES = 100
OTHER_NAMES = "(other names)"
# Deeper metrics are a mistake, such as a dict that holds itself.
MAX_DEPTH = 32
MAX_MAPPINGS = 10_000
_LONGEST_NAME = 200
_THEN = {
    "text": "It is recorded as a text.",
    "histogram": "They are recorded as a histogram.",
    "name": "Its text is the name.",
    "step": "Its number is the step.",
}
_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
# Fields that every record has.
_RESERVED = frozenset({"log", "t", "v", "nonfinite"})


class ValuePolicy:
    """Decides whether a value that cannot be recorded raises; else counts and reports it.

    ``report`` is called for the first one of each name: a sentence, the event, its fields.
    """

    def __init__(self, report: Report, *, strict: bool = False) -> None:
        self.strict = strict
        self._report = report
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}

    @property
    def dropped(self) -> int:
        """How many values were left out."""
        return sum(self.counts(DROPPED).values())

    @property
    def converted(self) -> int:
        """How many values were recorded as something else."""
        return sum(self.counts(CONVERTED).values())

    def counts(self, event: str) -> dict[str, int]:
        """How many values of each name were dropped or converted."""
        with self._lock:
            return {name: n for (kind, name), n in self._counts.items() if kind == event}

    def repeated(self) -> dict[str, dict[str, int]]:
        """Return the counts if one of them is above 1; the first of each name has its own event."""
        found = {"dropped": self.counts(DROPPED), "converted": self.counts(CONVERTED)}
        return found if any(n > 1 for counts in found.values() for n in counts.values()) else {}

    def read(self, told: str, call: Callable[..., T], value: Any, /, **options: Any) -> T | None:
        """Return ``call(value, **options)``; note the value and return None if that raises."""
        found, error = attempt(call, value, **options)
        if error is not None:
            self.drop(told, value, error)
        return found

    def step(self, value: Any) -> int | None:
        """Return a step as a whole number; note what is not one and return None."""
        if type(value) is int and value.bit_length() <= MOST_BITS:
            return value
        found, error = attempt(plain_int, value, name="step")
        if error is None:
            return found
        if not self.strict and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
            self.convert("step=", value, to="step", reason=f"step={value!r} is a text.")
            return int(value)
        self.drop("step=", value, error, then="The record is at the step it would have without.")
        return None

    def drop(self, name: str, value: Any, error: Exception | str, *, then: str = "") -> None:
        """Leave a value out, and note it; raise if ``strict``."""
        if self.strict:
            raise ValueTypeError(error) if isinstance(error, str) else error
        reason = _reason(name, error)
        self._note(DROPPED, name, reason, then or "It is left out.", type=type(value).__name__)

    def convert(self, name: str, value: Any, *, to: str, reason: str, **facts: Any) -> None:
        """Note that a value is recorded as another type."""
        kind = type(value).__name__
        self._note(CONVERTED, name, reason, _THEN[to], type=kind, to=to, **facts)

    def _note(self, event: str, name: str, reason: str, then: str, **fields: Any) -> None:
        name = name[:_LONGEST_NAME]
        with self._lock:
            names = len(self._counts)
            key = (event, name)
            if key not in self._counts and names >= MAX_NAMES:
                key = (event, OTHER_NAMES)
            count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == 1:
            sentence = f"{reason} {then} (Said once for {printable(key[1])!r}.)"
            self._report(sentence, event, {"name_of": key[1], **fields, "reason": reason})


class CallValues:
    """Reads the values of one call. Texts and arrays are kept for records of their own.

    ``prefix`` is put before the names of fields, as in the names of series.
    """

    __slots__ = ("_mappings", "_prefix", "_wait", "arrays", "policy", "texts")

    def __init__(self, policy: ValuePolicy, *, prefix: str = "") -> None:
        self.policy = policy
        self.texts: list[tuple[str, str]] = []
        self.arrays: list[tuple[str, Any]] = []
        self._prefix = prefix
        self._mappings = 0
        self._wait = False

    def number(self, value: Any, *, name: str, wait: bool = False) -> Number | None:
        """Read a number; without ``wait`` a tensor on an accelerator stays there."""
        if type(value) is float:
            return value
        return self._number(value, name=name, full=f"{self._prefix}{name}", wait=wait)

    def whole(self, value: Any, *, name: str) -> int | None:
        """Read a whole number."""
        if type(value) is int and value.bit_length() <= MOST_BITS:
            return value
        return self._sorted(value, plain_int, name=name)

    def amount(self, value: Any, *, name: str) -> float | None:
        """Read a finite number of at least 0, such as a duration."""
        return self._sorted(value, finite_float, name=name)

    def put(self, record: Record, fields: Mapping[str, Any]) -> None:
        """Add the numbers among some fields to a record; None is absent."""
        for name, value in fields.items():
            number = None if value is None else self.number(value, name=name)
            if number is not None:
                record[name] = number

    def put_declared(
        self, record: Record, field: Field, value: Any, *, name: str | None = None
    ) -> None:
        """Add one field to a record, read as its declared type; None is absent.

        ``name`` is the name in notices, if that is not the name of the field.
        """
        if value is None:
            return
        found = _READERS[field.type](self, value, name=name or field.name)
        if found is not None:
            record[field.name] = found

    def own(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the caller without names that every record uses."""
        own = dict(fields)
        for name in sorted(_RESERVED & fields.keys()):
            taken = UsageError(f"{name!r} is a field of every record: choose another name.")
            self.policy.drop(name, own.pop(name), taken)
        return own

    def name(self, value: Any) -> str | None:
        """A name as a text that is not empty."""
        if type(value) is str and value:
            return value
        if isinstance(value, str) and value:
            return str.__str__(value)
        return self._odd_name(value, "a name must be a non-empty text")

    def text(self, value: Any, *, name: str) -> str | None:
        """Read a text; another value is converted to text if it can be."""
        if isinstance(value, str):
            return str.__str__(value)
        wrong = ValueTypeError(f"text {name!r} must be a str, not {type(value).__name__}.")
        shown = attempt(_own_text, value)[0]
        if self.policy.strict or shown is None:
            self.policy.drop(name, value, wrong)
            return None
        self.policy.convert(name, value, to="text", reason=str(wrong))
        return shown

    def metrics(
        self, metrics: Any, *, argument: str = "metrics", wait: bool = False
    ) -> dict[str, Number]:
        """Flatten nested metrics, or (name, value) pairs, to dotted names.

        Raises for what is neither.
        """
        self._wait = wait
        flat: dict[str, Number] = {}
        given = metrics if isinstance(metrics, Mapping) else as_pairs(metrics, argument=argument)
        self._flatten(given, "", set(), flat)
        return flat

    # -- inner ------------------------------------------------------------------------------------

    def _number(self, value: Any, *, name: str, full: str, wait: bool) -> Number | None:
        found, error = attempt(plain_number, value, name=name, wait=wait)
        if error is not None:
            self._sort_out(value, full, error)
        return found

    def _sorted(self, value: Any, read: Callable[..., T], *, name: str) -> T | None:
        found, error = attempt(read, value, name=name)
        if error is not None:
            self._sort_out(value, f"{self._prefix}{name}", error)
        return found

    def _sort_out(self, value: Any, name: str, error: Exception) -> None:
        """Keep a text or an array for its own record; drop anything else."""
        kind = None if self.policy.strict else attempt(_sample_kind, value)[0]
        if kind == "text":
            self.texts.append((name, str.__str__(value)))
        elif kind == "histogram":
            self.arrays.append((name, value))
        else:
            self.policy.drop(name, value, error)

    def _flatten(
        self, metrics: Mapping[Any, Any], prefix: str, inside: set[int], flat: dict[str, Number]
    ) -> None:
        if type(metrics) is dict:
            items = list(metrics.items())
        else:
            items = self.policy.read(prefix.rstrip(".") or "metrics", _pairs, metrics) or []
        inside.add(id(metrics))
        for key, value in items:
            name = key if type(key) is str and key else self._metric_name(key)
            if name is None:
                continue
            name = f"{prefix}{name}"
            if type(value) is float:
                flat[name] = value
            elif not issubclass(type(value), Mapping):
                number = self._number(value, name=name, full=name, wait=self._wait)
                if number is not None:
                    flat[name] = number
            elif self._may_enter(value, inside):
                self._flatten(value, f"{name}.", inside, flat)
            else:
                deep = f"metric {name[:_LONGEST_NAME]!r} holds itself, or is nested too deeply."
                self.policy.drop(name, value, ValueTypeError(deep))
        inside.discard(id(metrics))

    def _may_enter(self, metrics: Mapping[Any, Any], inside: set[int]) -> bool:
        self._mappings += 1
        is_new = id(metrics) not in inside
        return is_new and len(inside) < MAX_DEPTH and self._mappings <= MAX_MAPPINGS

    def _metric_name(self, key: Any) -> str | None:
        if type(key) is int:
            return str(key)  # as the fast path of ``Run.log`` writes it
        if isinstance(key, str) and key:
            return str.__str__(key)
        return self._odd_name(key, "a metric name must be a non-empty text")

    def _odd_name(self, value: Any, rule: str) -> str | None:
        text = attempt(_own_text, value)[0]
        if self.policy.strict or not text:
            shown = (
                repr(value)
                if value is None or isinstance(value, str)
                else f"a {type(value).__name__}"
            )
            self.policy.drop("(no name)", value, ValueTypeError(f"{rule}, not {shown}."))
            return None
        name = text[:_LONGEST_NAME]
        reason = f"{rule}, not a {type(value).__name__}."
        self.policy.convert(name, value, to="name", reason=reason)
        return name


# How a field of a declared type is read; what it holds besides numbers and texts is built apart.
_READERS: Mapping[str, Callable[..., Any]] = {
    "number": CallValues.number,
    "count": CallValues.whole,
    "amount": CallValues.amount,
    "text": CallValues.text,
}


def strict_values() -> CallValues:
    """Values of a call that raises for what cannot be recorded."""
    return CallValues(ValuePolicy(lambda *_: None, strict=True))


def shown_text(value: Any) -> str:
    """Return any value as text; a value without one is named by its type."""
    if isinstance(value, str):
        return str.__str__(value)  # a plain one, also of NumPy's texts and of enumerations
    text = attempt(str, value)[0]
    return f"<{type(value).__name__}>" if text is None else text


def finite_float(value: Any, *, name: str) -> float:
    """A number that must be finite and not negative, such as a duration."""
    number = plain_float(value, name=name)
    if not 0 <= number < float("inf"):
        raise UsageError(f"{name}={number!r} must be a finite number, 0 or more.")
    return number


def _pairs(metrics: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(key, value) for key, value in metrics.items()]


def _own_text(value: Any) -> str | None:
    """Return the text of a value; None if it has none, or if reading it would wait for a GPU."""
    has_one = any(vars(base).keys() & {"__str__", "__repr__"} for base in type(value).__mro__[:-1])
    return None if value is None or not has_one or is_device_tensor(value) else str(value)


def _sample_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    if isinstance(value, (list, tuple, range, array)):
        return "histogram" if len(value) else None
    is_many = hasattr(value, "__array__") and element_count(value) != 0
    return "histogram" if is_many else None


def _reason(name: str, error: Exception | str) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, EpochalError):
        return str(error)
    return f"{printable(name)!r} cannot be read: {describe(error)}."
