"""Turns what a user logs into plain JSON numbers.

The fast path of ``Run.log`` never comes here: Python floats and ints go straight to the encoder.
Numpy scalars, 0-d arrays and torch tensors arrive through :func:`plain_number`; nothing is imported
to tell them apart, they are recognised by what they can do.

The seam for tensors on an accelerator: with ``wait=False`` they are left where they are, so that a
record may hold them until their values have arrived. :func:`device_values` finds them in a record.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Protocol, SupportsFloat, TypeAlias

import msgspec

from epochal.base.guard import attempt
from epochal.errors import UsageError, ValueTypeError

Number = float | int | bool


class Array(Protocol):
    """Many numbers: an array of numpy, a tensor of torch, and what looks like them."""

    def tolist(self) -> Any:
        """The numbers as nested lists."""


# What calls of a run take for one number: a Python or numpy one, or a 0-d array or tensor.
Scalar: TypeAlias = SupportsFloat
# What they take for many.
Values: TypeAlias = "Array | Sequence[Scalar | Array | Sequence[Any]]"
# What they take as metrics: numbers; texts, arrays and samples, which have records of their own.
Metrics: TypeAlias = Mapping[str, Any]

# How deep configuration values may be nested, and how many are kept.
_DEEPEST = 20
_MOST_VALUES = 100_000
# Arrays of more elements are named, not listed.
_MOST_ELEMENTS = 100
# Python refuses to write whole numbers of more than 4,300 digits.
MOST_BITS = 14_000
# Of more values a histogram counts some, evenly: a prime number of them, so that they do not fall
# into step with the rows of a matrix.
MAX_COUNTED = 1_000_000
SAMPLE_SIZE = 999_983
_SINGLE = struct.Struct("<f")  # with a byte order it refuses what does not fit


class DeviceParts(msgspec.Struct, frozen=True):
    """Numbers and tensors of one list, some of them on an accelerator."""

    parts: tuple[Any, ...]
    is_cuda: bool = True


class DeviceReader(Protocol):
    """Copies values from an accelerator while the program goes on."""

    def defer(self, record: dict[str, Any]) -> None:
        """Hand the record on when the values it holds have arrived.

        The ``values`` of a ``histogram`` are counted where they are; a list of what was counted
        takes their place.
        """

    def flush(self) -> None:
        """Wait until every record has been handed on."""


def is_device_tensor(value: Any) -> bool:
    """Whether reading this value would wait for an accelerator."""
    return attempt(getattr, value, "is_cuda", False)[0] is True


def is_jax_array(value: Any) -> bool:
    """Whether a value is an array of JAX, computed or not, whose value can be waited for."""
    module = type(value).__module__
    return module.startswith(("jax.", "jaxlib.")) and hasattr(value, "copy_to_host_async")


def device_values(
    record: Mapping[str, Any], accept: Callable[[Any], bool] = is_device_tensor
) -> list[tuple[str | None, str, Any]]:
    """The tensors a record still holds: the mapping they are in (None for itself), name, tensor."""
    found = [(None, name, value) for name, value in record.items() if accept(value)]
    inner = [
        (field, name, value)
        for field in ("m", "values")
        if isinstance(record.get(field), Mapping)
        for name, value in record[field].items()
        if accept(value)
    ]
    return [*found, *inner]


def plain_number(value: Any, *, name: str, wait: bool = True) -> Number:
    """Give a Python, numpy or 0-d torch number back as a plain one, or say why it cannot be.

    ``wait=False`` leaves a tensor on an accelerator as it is.
    """
    kind = type(value)
    if kind is float or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return _printable_int(value, name=name)
    if isinstance(value, (str, bytes, list, tuple, type(None))):
        raise _not_a_number(name, value)
    size = element_count(value)
    if size is not None and size != 1:
        raise ValueTypeError(
            f"metric {name!r} holds {size} values, not one number; run.log({{name: values}})"
            " records many."
        )
    if not wait and is_device_tensor(value) and not value.is_complex():
        return value.reshape(())  # type: ignore[no-any-return]
    if not wait and is_jax_array(value) and value.dtype.kind != "c" and not value.is_ready():
        return value  # type: ignore[no-any-return]
    for read in ("item", "__float__"):
        reader = getattr(value, read, None)
        if reader is None:
            continue
        number = reader()
        if isinstance(number, float):
            return float(number)
        if isinstance(number, int):
            return number if isinstance(number, bool) else _printable_int(int(number), name=name)
        break
    raise _not_a_number(name, value)


def single(value: float) -> float:
    """The nearest number of 32 bits, for what is worked out from measured values.

    Seven digits are more than such a number is worth, and it takes half the room when it is sealed.
    One too large for 32 bits stays as it is.
    """
    try:
        nearest: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return value
    return nearest


def as_float(number: Number) -> float:
    """A plain number as a float; a whole number beyond every float is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def plain_float(value: Any, *, name: str) -> float:
    """A number as a float."""
    return as_float(plain_number(value, name=name))


def plain_int(value: Any, *, name: str) -> int:
    """A whole number as an int; 3.0 is one, 3.5 is not."""
    number = plain_number(value, name=name)
    if isinstance(number, float):
        if not number.is_integer():
            raise UsageError(f"{name}={number!r} is not a whole number.")
        return int(number)
    return int(number)


def nonfinite_word(value: float) -> Literal["nan", "inf", "-inf"] | None:
    """``nan``, ``inf`` or ``-inf`` for a value JSON cannot hold, else None."""
    if math.isfinite(value):
        return None
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def split_nonfinite(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The same values with null where JSON has no number, and the words for those places."""
    words = {
        name: str(nonfinite_word(value))
        for name, value in values.items()
        if isinstance(value, float) and value - value != 0
    }
    clean = {**values, **dict.fromkeys(words)} if words else dict(values)
    return clean, words


def as_pairs(metrics: Any, *, argument: str) -> dict[str, Any]:
    """A mapping, or an iterable of (name, value) pairs, as a dict in the given order."""
    if isinstance(metrics, Mapping):
        return dict(metrics)
    if isinstance(metrics, (str, bytes)) or not isinstance(metrics, Iterable):
        raise ValueTypeError(
            f"{argument} must be a dict or (name, value) pairs, not {type(metrics).__name__}."
        )
    pairs: dict[str, Any] = {}
    for item in as_list(metrics, argument=argument):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise ValueTypeError(f"{argument} must hold (name, value) pairs; {item!r} is not one.")
        pairs[item[0]] = item[1]
    return pairs


def as_list(values: Any, *, argument: str) -> list[Any]:
    """Return what an iterable argument holds, and raise for anything else."""
    found: tuple[list[Any] | None, Exception | None] = attempt(list, values)
    if found[0] is None:
        wrong = ValueTypeError(f"{argument} must be a list, not {type(values).__name__}.")
        raise wrong from found[1]
    return found[0]


def flat_items(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a nested mapping under dotted names; an empty mapping is a value."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat_items(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def text_of(value: Any) -> str | None:
    """Return a text as a plain one, also one of NumPy or of an enumeration; None for the rest."""
    return str.__str__(value) if issubclass(type(value), str) else None


def shown_text(value: Any) -> str:
    """Return any value as text; a value without one is named by its type."""
    text = text_of(value)
    text = attempt(str, value)[0] if text is None else text
    return f"<{type(value).__name__}>" if text is None else text


def plain_json(value: Any) -> Any:
    """A configuration value as JSON can hold it; what it cannot becomes a text that names it.

    A value inside itself, one nested too deeply, and what comes after very many values are named
    by their types.
    """
    return _PlainJson().of(value)


class _PlainJson:
    """One conversion: which containers are being converted, and how many values are left."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._left = _MOST_VALUES

    def of(self, value: Any) -> Any:
        plain, error = attempt(self._of, value)
        return _named_type(value) if error is not None else plain

    def _of(self, value: Any) -> Any:
        self._left -= 1
        while isinstance(value, Enum):
            value = value.value
        if value is None or isinstance(value, bool):
            return value
        # Subclasses (numpy has some) are made plain: the encoder takes none.
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int(value) if value.bit_length() <= MOST_BITS else _named_type(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else nonfinite_word(value)
        if isinstance(value, Mapping):
            return self._inner(value, lambda: {self._key(k): self.of(v) for k, v in value.items()})
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._inner(value, lambda: [self.of(v) for v in value])
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
            names = value.__dataclass_fields__
            return self._inner(value, lambda: {n: self.of(getattr(value, n)) for n in names})
        return self._other(value)

    def _inner(self, value: Any, convert: Callable[[], Any]) -> Any:
        place = id(value)
        if place in self._inside or len(self._inside) >= _DEEPEST or self._left < 0:
            return _named_type(value)
        self._inside.add(place)
        try:
            return convert()
        finally:
            self._inside.discard(place)

    def _other(self, value: Any) -> Any:
        if element_count(value) in (None, 1) and hasattr(value, "item"):
            number = value.item()
            if isinstance(number, (bool, int, float, str, type(None))):
                return self.of(number)
        count = element_count(value)
        is_here = hasattr(value, "tolist") and str(getattr(value, "device", "cpu")) == "cpu"
        if count is not None and count <= _MOST_ELEMENTS and is_here:
            return self.of(value.tolist())
        return str(value) if hasattr(value, "__fspath__") else repr(value)

    def _key(self, key: Any) -> str:
        text, error = attempt(str, key)
        return text if text is not None and error is None else _named_type(key)


def _named_type(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _printable_int(value: int, *, name: str) -> int:
    if value.bit_length() > MOST_BITS:
        raise ValueTypeError(
            f"metric {name!r} is a whole number of {value.bit_length()} bits: at most {MOST_BITS}"
            " can be written."
        )
    return value


def element_count(value: Any) -> int | None:
    """How many elements an array-like has; None for things that are not array-like."""
    count = getattr(value, "numel", None)
    if callable(count):
        return int(count())
    size = getattr(value, "size", None)
    return size if isinstance(size, int) else None


def _not_a_number(name: str, value: Any) -> ValueTypeError:
    return ValueTypeError(f"metric {name!r} is of type {type(value).__name__}, not a number.")


def is_step_name(name: str) -> bool:
    """Whether a metric is named after steps, as an axis that programs log themselves is."""
    return "step" in name.rpartition("/")[2].lower()


def whole_step(value: Any) -> int | None:
    """A step that was logged as a metric; None for what is no whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if is_whole else None
