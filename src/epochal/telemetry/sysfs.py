"""The kernel's small text files about one device, read again and again.

A file that is not there is ``None`` and no fault. One that cannot be read is ``None`` and counted;
one that the driver refuses for good is not asked again.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection
from pathlib import Path

Read = Callable[[Path], str]

# Not EPERM: amdgpu says that while a GPU is being reset.
_REFUSALS = frozenset({errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODATA, errno.ENOSYS})
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})


def read_text(path: Path) -> str:
    """The text of a file; what is not text in it is replaced, to be found out as no number."""
    return path.read_text(encoding="utf-8", errors="replace")


class SysfsFiles:
    """Reads the files of one device, which ``called`` names; counts what goes wrong.

    ``absent`` are the errors that only say a thing is not there.
    """

    def __init__(
        self, called: str, *, read: Read = read_text, absent: Collection[int] = ABSENT
    ) -> None:
        self.called = called
        self.failures = 0
        self.last_failure: str | None = None
        self._read = read
        self._absent = absent
        self._refused: set[Path] = set()

    def text(self, path: Path) -> str | None:
        """The text of a file without surrounding white space; None if it is empty."""
        if path in self._refused:
            return None
        try:
            return self._read(path).strip() or None
        except OSError as error:
            if error.errno in _REFUSALS:
                self._refused.add(path)
            elif error.errno not in self._absent:
                self.count(f"{path.name}: {error.strerror or error}")
            return None

    def number(
        self, path: Path, *, least: int | None = None, greatest: int | None = None
    ) -> int | None:
        """The whole number in a file; anything else, or one out of bounds, counts as a fault."""
        text = self.text(path)
        if text is None:
            return None
        value = int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None
        is_low = value is not None and least is not None and value < least
        is_high = value is not None and greatest is not None and value > greatest
        if value is None or is_low or is_high:
            self.count(f"{path.name} says {text[:40]!r}")
            return None
        return value

    def hexadecimal(self, path: Path) -> int | None:
        """The hexadecimal number in a file, with or without 0x; anything else counts as a fault."""
        text = self.text(path)
        if text is None:
            return None
        if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,32}", text):
            self.count(f"{path.name} says {text[:40]!r}")
            return None
        return int(text, 16)

    def count(self, what: str) -> None:
        """Count one fault, described in words."""
        self.failures += 1
        self.last_failure = f"{self.called}, {what}"
