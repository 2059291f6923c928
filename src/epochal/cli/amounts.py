"""Arguments that are an age (``30d``) or a size on disk (``50GB``)."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from epochal.settings.kinds import read_age, read_size


def age(text: str) -> float:
    """Seconds of an age such as ``30d``, ``12h`` or ``2w``."""
    return _argument(text, read_age)


def size(text: str) -> float:
    """Bytes of a size such as ``50GB`` or ``800MiB``."""
    return _argument(text, read_size)


def _argument(text: str, read: Callable[[str], float]) -> float:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error
