"""The kinds of values that settings have: how each is read from variables, TOML and arguments.

A reader raises ``ValueError`` with the end of a sentence; whoever calls it knows where the value
stands and says that first.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

FALSE = frozenset({"0", "false", "no", "off"})
TRUE = frozenset({"1", "true", "yes", "on"})
VERBOSITIES = ("quiet", "normal", "verbose", "debug", "trace")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_AGES = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SIZES = {"": 1.0, "b": 1.0} | {
    name: float(base**power)
    for power, letter in enumerate("kmgt", 1)
    for name, base in ((letter, 1000), (f"{letter}b", 1000), (f"{letter}ib", 1024))
}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """How values of one kind are read, written for a child process, and described.

    ``from_text`` reads the text of a variable, never an empty one; ``checked`` reads a value of a
    TOML file or an argument of ``init``. ``merged`` combines a value of the settings with that of
    an argument. ``is_secret`` keeps values out of errors and of ``epochal config``.
    """

    accepts: str
    from_text: Callable[[str], Any]
    checked: Callable[[Any], Any]
    to_text: Callable[[Any], str] = str
    merged: Callable[[Any, Any], Any] = lambda _, argument: argument
    is_path: bool = False
    is_secret: bool = False


def choice(*names: str) -> Kind:
    """One of some words."""

    def read(text: Any) -> str:
        word = text.strip().lower() if isinstance(text, str) else text
        if word not in names:
            raise ValueError(f"is not known: use one of {', '.join(names)}.")
        return str(word)

    return Kind(accepts=", ".join(f"`{name}`" for name in names), from_text=read, checked=read)


def seconds(least: float = 0.0, most: float = math.inf) -> Kind:
    """A time in seconds."""
    return _measured("seconds", "a time", least, most)


def gigabytes() -> Kind:
    """A size in gigabytes."""
    return _measured("gigabytes", "a size", 0.0, math.inf)


def _measured(unit: str, what: str, least: float, most: float) -> Kind:
    wrong = f"is not {what}: use {unit}, 0 or more."

    def read(value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise ValueError(wrong)
        if not least <= value <= most:
            raise ValueError(f"is out of range: use {least:g} to {most:g} {unit}.")
        return float(value)

    def read_text(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(wrong) from None
        return read(value)

    bounds = f", {least:g} to {most:g}" if most < math.inf else ""
    return Kind(accepts=f"{unit}{bounds}", from_text=read_text, checked=read, to_text=repr)


def whole_number(least: int, most: int) -> Kind:
    """A whole number within bounds."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"is not a whole number from {least} to {most}.")
        return value

    def read_text(text: str) -> int:
        return read(int(text) if re.fullmatch(r"\s*[0-9]{1,18}\s*", text) else text)

    return Kind(accepts=f"{least} to {most}", from_text=read_text, checked=read)


def read_age(text: str) -> float:
    """Seconds of a time such as ``90s``, ``30m``, ``12h`` or ``30d``."""
    return _amount(text, _AGES, "a time such as 90s, 30m, 12h or 30d")


def read_size(text: str) -> float:
    """Bytes of a size such as ``50GB`` or ``800MiB``."""
    return _amount(text, _SIZES, "a size such as 50GB or 800MiB")


def _amount(text: str, units: dict[str, float], what: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    factor = None if match is None else units.get(match[2].lower())
    if match is None or factor is None:
        raise ValueError(f"is not {what}")
    return float(match[1]) * factor


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("is not a text, or is empty.")
    return str.__str__(value)  # also of NumPy's texts


def _path(value: Any) -> str:
    return _text(os.fspath(value) if isinstance(value, os.PathLike) else value)


def _url(value: Any) -> str | None:
    if value == "":
        return None
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        raise ValueError("is not an address such as https://host.")
    return value


def listed(value: Any) -> list[Any]:
    """Return the items of a list or another iterable; a single text, mapping or number as one."""
    is_list = isinstance(value, Iterable) and not isinstance(value, (str, Mapping))
    return list(value) if is_list else [value]


def _texts(value: Any) -> tuple[str, ...]:
    items = listed(value)
    if not all(isinstance(item, str) for item in items):
        raise ValueError("is not a list of texts.")
    return tuple(item.strip() for item in items if item.strip())


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is not a switch: use true or false.")  # noqa: TRY004
    return value


def _switch_text(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError("is not a switch: use 1/on or 0/off.")
    return word in TRUE


def _split(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _addresses(value: Any) -> tuple[str, ...]:
    found = _texts(value)
    if not all(address == "desktop" or "://" in address for address in found):
        raise ValueError("is not a list of addresses such as 'desktop' or 'json://host/path'.")
    return found


def _patterns(value: Any) -> Literal[False] | tuple[str, ...]:
    """The patterns to redact besides secrets; False for no redaction at all."""
    if isinstance(value, bool):
        return () if value else False
    found = _texts(value)
    for pattern in found:
        try:
            re.compile(pattern.removeprefix("!"))
        except re.error as error:
            raise ValueError(f"holds {pattern!r}, no regular expression: {error}.") from error
    return found


def _pattern_text(text: str) -> Literal[False] | tuple[str, ...]:
    word = text.strip().lower()
    return _patterns(word in TRUE if word in TRUE | FALSE else _split(text))


def _verbosity(value: Any) -> str:
    is_level = isinstance(value, int) and not isinstance(value, bool)
    if is_level and 0 <= value < len(VERBOSITIES):
        return VERBOSITIES[value]
    if isinstance(value, str) and value.strip().lower() in VERBOSITIES:
        return value.strip().lower()
    raise ValueError(f"is not a verbosity: use 0 to 4, or one of {', '.join(VERBOSITIES)}.")


TEXT = Kind(accepts="a text", from_text=str, checked=_text)
PATH = Kind(accepts="a path", from_text=str, checked=_path, to_text=os.path.abspath, is_path=True)
URL = Kind(accepts="an address", from_text=_url, checked=_url)
SECRET = Kind(accepts="a text", from_text=str, checked=_text, is_secret=True)
SWITCH = Kind(
    accepts="`true` or `false`",
    from_text=_switch_text,
    checked=_switch,
    to_text=lambda value: str(int(value)),
)
TEXTS = Kind(
    accepts="a list of texts",
    from_text=_split,
    checked=_texts,
    to_text=",".join,
    merged=lambda known, given: tuple(dict.fromkeys((*known, *given))),
)
ADDRESSES = Kind(
    accepts="a list of addresses",
    from_text=lambda text: tuple(text.split()),
    checked=_addresses,
    to_text=" ".join,
    is_secret=True,
)
PATTERNS = Kind(
    accepts="`false`, or a list of names and patterns",
    from_text=_pattern_text,
    checked=_patterns,
    to_text=lambda value: "0" if value is False else ",".join(value),
    merged=lambda known, given: given if given is False else (*(known or ()), *given),
)
VERBOSITY = Kind(
    accepts=f"0 to 4, or {', '.join(f'`{name}`' for name in VERBOSITIES)}",
    from_text=lambda text: _verbosity(int(text) if text.strip().isdecimal() else text),
    checked=_verbosity,
)
