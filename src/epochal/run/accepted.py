"""Reads the values of calls: records what it can, and notes the rest instead of raising.

Among metrics a text becomes a ``text`` record, an array or a list of numbers a ``histogram``, and a
picture, a figure or a table a sample. None and anything else is left out. The first such value of
each name is printed and recorded as the event ``value-dropped``; all are counted. ``strict`` raises
instead, for tests.

A :class:`ValuePolicy` belongs to a run and counts; a :class:`CallValues` reads one call.
:class:`PendingValues` keeps records whose values are not there yet, while the program goes on.
"""

from __future__ import annotations

import queue
import threading
from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from epochal.base.guard import attempt, describe
from epochal.base.torch_hooks import torch_hooks
from epochal.errors import EpochalError, UsageError, ValueTypeError
from epochal.exchange.media.types import may_be_sample
from epochal.records import Field, Record
from epochal.records.values import (
    MOST_BITS,
    DeviceReader,
    Number,
    as_pairs,
    device_values,
    element_count,
    is_device_tensor,
    is_jax_array,
    plain_float,
    plain_int,
    plain_json,
    plain_number,
    text_of,
)
from epochal.run.console.messages import printable

T = TypeVar("T")
Report = Callable[..., object]

# Names are counted one by one up to this many; the values of all further names together.
MAX_NAMES = 100
OTHER_NAMES = "(other names)"
# Deeper metrics are a mistake, such as a dict that holds itself.
MAX_DEPTH = 32
MAX_MAPPINGS = 10_000
MAX_PENDING = 4096  # one more waits until the oldest is read
_LONGEST_NAME = 200
_LONGEST_REASON = 500
# Fields that every record has.
_RESERVED = frozenset({"log", "t", "v", "nonfinite"})


class ValuePolicy:
    """Decides whether a value that cannot be recorded raises; else counts and reports it.

    ``report`` is called for the first one of each name: a sentence, an event and its fields.
    """

    def __init__(self, report: Report, *, strict: bool = False) -> None:
        self.strict = strict
        self._report = report
        self._lock = threading.Lock()
        # How many values of each name were left out.
        self.dropped: dict[str, int] = {}

    def read(self, name: str, call: Callable[..., T], value: Any, /, **options: Any) -> T | None:
        """Return ``call(value, **options)``; note the value and return None if that raises."""
        found, error = attempt(call, value, **options)
        if error is not None:
            self.drop(name, value, error)
        return found

    def step(self, value: Any) -> int | None:
        """Return a step as a whole number; note what is not one and return None."""
        if type(value) is int and value.bit_length() <= MOST_BITS:
            return value
        found, error = attempt(plain_int, value, name="step")
        if error is not None:
            self.drop("step=", value, error, then="The record gets the step it has without it.")
        return found

    def drop(self, name: str, value: Any, error: Exception | str, *, then: str = "") -> None:
        """Leave a value out, and note it; raise if ``strict``."""
        if isinstance(error, (str, EpochalError)):
            reason = str(error)
        else:
            reason = f"{printable(name)!r} cannot be read: {describe(error)}."
        if self.strict:
            if isinstance(error, EpochalError):
                raise error
            raise ValueTypeError(reason) from (error if isinstance(error, Exception) else None)
        name = name[:_LONGEST_NAME]
        with self._lock:
            if name not in self.dropped and len(self.dropped) >= MAX_NAMES:
                name = OTHER_NAMES
            count = self.dropped[name] = self.dropped.get(name, 0) + 1
        if count > 1:
            return
        reason = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"
        sentence = f"{reason} {then or 'It is left out.'} (Reported once for {printable(name)!r}.)"
        kind = type(value).__name__
        self._report(sentence, "value-dropped", name_of=name, type=kind, reason=reason)


class CallValues:
    """Reads the values of one call; ``samples`` has the texts and arrays among its metrics.

    ``prefix`` is put before the names of fields, as in the names of series.
    """

    __slots__ = ("_mappings", "_prefix", "_wait", "policy", "samples")

    def __init__(self, policy: ValuePolicy, *, prefix: str = "") -> None:
        self.policy = policy
        self.samples: list[tuple[str, Any]] = []
        self._prefix = prefix
        self._mappings = 0
        self._wait = False

    def field(self, field: Field, value: Any, *, name: str = "") -> Any:
        """Read a value as the declared type of its field; None, noted, if it is not one.

        A number on an accelerator stays there, except for a duration, which gives a rate.
        """
        kind = field.type
        if kind == "number" and type(value) is float:
            return value
        name = name or field.name
        if kind == "number":
            return self._read(name, value, plain_number, wait=name == "duration_ms")
        if kind == "count":
            if type(value) is int and value.bit_length() <= MOST_BITS:
                return value
            return self._read(name, value, plain_int)
        if kind == "amount":
            return self.amount(value, name=name)
        if kind == "text":
            return self.text(value, name=name)
        return self.metrics(value, argument=name) or None if field.series else plain_json(value)

    def amount(self, value: Any, *, name: str) -> float | None:
        """Read a finite number of at least 0, such as a duration."""
        return self._read(name, value, finite_float)

    def own(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the caller without names that every record uses."""
        own = dict(fields)
        for name in sorted(_RESERVED & fields.keys()):
            taken = UsageError(f"{name!r} is a field of every record: choose another name.")
            self.policy.drop(name, own.pop(name), taken)
        return own

    def name(self, value: Any) -> str | None:
        """Read a name: a text that is not empty, or anything else by its text."""
        text = self._text(value)
        if not text:
            is_empty = value is None or text_of(value) is not None
            shown = repr(value) if is_empty else f"a {type(value).__name__}"
            wrong = ValueTypeError(f"a name must be a non-empty text, not {shown}.")
            self.policy.drop("(no name)", value, wrong)
        return text or None

    def text(self, value: Any, *, name: str) -> str | None:
        """Read a text, or anything else by its text."""
        text = self._text(value)
        if text is None:
            kind = type(value).__name__
            self.policy.drop(name, value, ValueTypeError(f"{name!r} must be a text, not a {kind}."))
        return text

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

    def _text(self, value: Any) -> str | None:
        text = text_of(value)
        if text is not None or self.policy.strict:
            return text
        return text_of(attempt(_own_text, value)[0])

    def _read(self, name: str, value: Any, read: Callable[..., T], **options: Any) -> T | None:
        found, error = attempt(read, value, name=name, **options)
        if error is not None:
            self.policy.drop(f"{self._prefix}{name}", value, error)
        return found

    def _flatten(
        self, metrics: Mapping[Any, Any], prefix: str, inside: set[int], flat: dict[str, Number]
    ) -> None:
        if type(metrics) is dict:
            items = list(metrics.items())
        else:
            where = prefix.rstrip(".") or "metrics"
            items = self.policy.read(where, lambda given: list(given.items()), metrics) or []
        inside.add(id(metrics))
        for key, value in items:
            name: str | None = key
            if type(key) is not str or not key:  # a whole number as ``Run.log`` writes it
                name = self.name(str(key) if type(key) is int else key)
            if name is None:
                continue
            name = f"{prefix}{name}"
            if type(value) is float:
                flat[name] = value
            elif issubclass(type(value), Mapping):
                self._mappings += 1
                is_new = id(value) not in inside
                if is_new and len(inside) < MAX_DEPTH and self._mappings <= MAX_MAPPINGS:
                    self._flatten(value, f"{name}.", inside, flat)
                else:
                    deep = f"metric {name[:_LONGEST_NAME]!r} holds itself, or is nested too deeply."
                    self.policy.drop(name, value, ValueTypeError(deep))
            else:
                number, error = attempt(plain_number, value, name=name, wait=self._wait)
                if number is not None:
                    flat[name] = number
                elif attempt(_is_sample, value)[0]:
                    self.samples.append((name, value))
                elif error is not None:
                    self.policy.drop(name, value, error)
        inside.discard(id(metrics))


def strict_values() -> CallValues:
    """Values of a call that raises for what cannot be recorded."""
    return CallValues(ValuePolicy(lambda *_, **__: None, strict=True))


def finite_float(value: Any, *, name: str) -> float:
    """A number that must be finite and not negative, such as a duration."""
    number = plain_float(value, name=name)
    if not 0 <= number < float("inf"):
        raise UsageError(f"{name}={number!r} must be a finite number, 0 or more.")
    return number


def _own_text(value: Any) -> str | None:
    """Return the text of a value; None if it has none, or if reading it would wait for a GPU."""
    has_one = any(vars(base).keys() & {"__str__", "__repr__"} for base in type(value).__mro__[:-1])
    return None if value is None or not has_one or is_device_tensor(value) else str(value)


def _is_sample(value: Any) -> bool:
    """Whether a value is a text, a sample or many values, which have records of their own."""
    if isinstance(value, (str, list, tuple, range, array)):
        return isinstance(value, str) or len(value) > 0
    if may_be_sample(value):
        return True
    return hasattr(value, "__array__") and element_count(value) != 0


# -- values that come later ------------------------------------------------------------------------


class PendingValues:
    """The records of a run that wait for values; a reader is made when the first one comes.

    A tensor of torch on a GPU is copied beside the training, by ``open_reader`` of
    `epochal.torch.hooks`. JAX computes asynchronously on every device, and asking for a value waits
    for it: its arrays are read in a thread. Arrays never change, so the value is the one that was
    logged; one that was donated to a later computation is lost, and the run says so.

    ``then`` takes a record whose values have come, ``lost`` how many never will, and why.
    """

    def __init__(self, then: Callable[[Record], None], lost: Callable[[int, str], None]) -> None:
        self._calls = then, lost
        self._lock = threading.Lock()
        self._readers: dict[Callable[..., DeviceReader], DeviceReader] = {}

    def defer(self, record: Record) -> bool:
        """Keep a record until its values have come; False for one that has them all."""
        is_of_jax = bool(device_values(record, is_jax_array))
        if not is_of_jax and not device_values(record):
            return False
        make = ArrayReader if is_of_jax else torch_hooks().open_reader
        with self._lock:
            if make not in self._readers:
                self._readers[make] = make(*self._calls)
        self._readers[make].defer(record)
        return True

    def flush(self) -> None:
        """Wait until every record has been handed on."""
        for reader in list(self._readers.values()):
            reader.flush()


class ArrayReader:
    """Hands records on when their arrays are computed; safe to use from several threads."""

    def __init__(self, then: Callable[[Record], None], lost: Callable[[int, str], None]) -> None:
        self._then = then
        self._lost = lost
        self._records: queue.Queue[Record] = queue.Queue(MAX_PENDING)
        name = "epochal-array-values"
        threading.Thread(target=self._read, name=name, daemon=True).start()

    def defer(self, record: Record) -> None:
        """Hand the record on when the arrays it holds are computed."""
        for _, _, value in device_values(record, is_jax_array):
            attempt(value.copy_to_host_async)
        self._records.put(record)

    def flush(self) -> None:
        """Wait until every record has been handed on."""
        self._records.join()

    def _read(self) -> None:
        while True:
            record = self._records.get()
            _, error = attempt(self._hand_on, record)
            if error is not None:
                attempt(self._lost, 1, describe(error).partition("\n")[0])
            self._records.task_done()

    def _hand_on(self, record: Record) -> None:
        filled = dict(record)
        for inner, name, value in device_values(record, is_jax_array):
            if inner is not None and filled[inner] is record[inner]:
                filled[inner] = dict(record[inner])
            target = filled if inner is None else filled[inner]
            target[name] = plain_number(value, name=name)
        self._then(filled)
