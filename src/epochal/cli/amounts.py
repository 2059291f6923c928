"""Arguments that are an age (``30d``) or a size on disk (``50GB``)."""

from __future__ import annotations

import argparse
import re

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_AGES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SIZES = {"": 1, "b": 1} | {
    name: base**power
    for power, letter in enumerate("kmgt", 1)
    for name, base in ((letter, 1000), (f"{letter}b", 1000), (f"{letter}ib", 1024))
}


def age(text: str) -> float:
    """Seconds of an age such as ``30d``, ``12h`` or ``2w``."""
    return _amount(text, _AGES, "an age such as 30d, 12h or 2w")


def size(text: str) -> float:
    """Bytes of a size such as ``50GB`` or ``800MiB``."""
    return _amount(text, _SIZES, "a size such as 50GB or 800MiB")


def _amount(text: str, units: dict[str, float] | dict[str, int], what: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    factor = None if match is None else units.get(match[2].lower())
    if match is None or factor is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return float(match[1]) * factor
