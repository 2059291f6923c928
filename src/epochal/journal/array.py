"""A log file that is one JSON array, valid after every record.

The file ends with a closing bracket and, while it is open, with blanks. An append is one write at
the position of that bracket: comma, record, bracket, blanks. The file grows by blanks alone. A
reader that reads on behind the earlier end gets only blanks, so it has a complete array. Opening an
existing file appends to it. If a crash left a torn tail, opening repairs it and keeps every whole
record.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from epochal.errors import FormatError
from epochal.journal.line import decode_json, encode_json
from epochal.journal.regular_file import close_if_same, file_id, status_if_same
from epochal.records import Record

_END = b"\n]"
_SPACE = b" \t\r\n"
# More than nearly every record is long; for a longer one blanks are added first.
_ROOM = b" " * 2048


def with_iso_time(record: Mapping[str, Any]) -> Record:
    """A record with ``time`` in local ISO form, to the microsecond, in the place of ``t``.

    A time that no calendar has stays as it was written.
    """
    try:
        time = datetime.fromtimestamp(record["t"]).isoformat(timespec="microseconds")
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return dict(record)
    return {
        "time" if name == "t" else name: time if name == "t" else value
        for name, value in record.items()
    }


class ArrayFile:
    """One JSON array on disk that grows by whole records; one writer at a time.

    ``place`` is the byte at which the next record goes.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._file_id = file_id(self._fd)
        try:
            self.place, self._is_empty = self._find_end()
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record; raises OSError when it cannot, and leaves the array as it was."""
        if self._fd >= 0 and status_if_same(self._fd, self._file_id) is None:
            self._reopen()
        separator = b"\n" if self._is_empty else b",\n"
        text = separator + encode_json(record)
        try:
            if len(text) > len(_ROOM):
                end = self.place + len(_END) + len(_ROOM)
                _write_all(self._fd, b" " * (len(text) - len(_ROOM)), end)
            _write_all(self._fd, text + _END + _ROOM, self.place)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.place)
                os.pwrite(self._fd, _END, self.place)
            raise
        self.place += len(text)
        self._is_empty = False

    def close(self) -> None:
        """Take the blanks away and close the file."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                if status_if_same(self._fd, self._file_id) is None:
                    self._reopen()
                os.ftruncate(self._fd, self.place + len(_END))
            close_if_same(self._fd, self._file_id)
            self._fd = -1

    def _reopen(self) -> None:
        """Open the file again: the program has closed its descriptor, or given it to another."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        if file_id(descriptor) != self._file_id:
            os.close(descriptor)
            raise OSError(f"{self.path} is another file by now.")
        self._fd = descriptor

    def _find_end(self) -> tuple[int, bool]:
        """Where the next record goes, and whether it is the first."""
        with open(self._fd, "rb", closefd=False) as file:
            text = file.read()
        if not text.strip():
            os.pwrite(self._fd, b"[", 0)
            self._end_at(1)
            return 1, True
        if _is_array(text):
            inner = text.rstrip(_SPACE)[:-1].rstrip(_SPACE)
            self._end_at(len(inner))
            return len(inner), inner.endswith(b"[")
        return self._repair(text)

    def _repair(self, text: bytes) -> tuple[int, bool]:
        """Keep every whole record of an array whose end is missing or torn."""
        if not text.lstrip(_SPACE).startswith(b"["):
            raise FormatError(f"{self.path} exists and is not a JSON array: choose another file.")
        kept = text
        while (cut := kept.rfind(b"}")) >= 0:
            kept = kept[: cut + 1]
            if _is_array(kept + _END):
                self._end_at(len(kept))
                return len(kept), False
            kept = kept[:cut]
        place = text.index(b"[") + 1
        self._end_at(place)
        return place, True

    def _end_at(self, place: int) -> None:
        os.pwrite(self._fd, _END + _ROOM, place)
        os.ftruncate(self._fd, place + len(_END) + len(_ROOM))


def _is_array(text: bytes) -> bool:
    try:
        return isinstance(decode_json(text), list)
    except ValueError:
        return False


def _write_all(descriptor: int, text: bytes, place: int) -> None:
    if os.pwrite(descriptor, text, place) != len(text):
        raise OSError("only part of a record fitted")
