"""``training.txt``: lines of ``step kind value``, for scripts that follow a training with ``tail``.

Rank 0's numbers on the step axis: ``train`` is the loss, ``val`` the evaluation's, ``hellaswag``
that score, and other series have their own names. A file of another run is overwritten. A file of
an earlier attempt is continued, without the steps that are repeated. If the option names a folder,
the file in it has the name of the run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import replaced_file
from epochal.exchange.sinks.sink import NUMBERS, Entry, FileSink, SinkContext, SinkOptions, option
from epochal.journal.layout import LOOP
from epochal.records import GUESSED_ROLE, KINDS, axis_of, scalars_of
from epochal.series.goals import plain_kind

_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLogOptions(SinkOptions):
    """The place of the file, and which series it has."""

    plain_log_file: str | None = option(
        "a file, or a folder that exists; default: `training.txt` in the run's folder", is_path=True
    )
    plain_log_kinds: str | None = option("the kinds to write, such as `train,val`; default: all")


class PlainLogSink(FileSink):
    """Appends a line for every number."""

    name = "plain_log"
    summary = "Lines of `step kind value`, for awk and gnuplot."
    options = PlainLogOptions
    holds = tuple(kind for kind in NUMBERS if KINDS[kind].axis == "step")

    _path: Path
    _kinds: frozenset[str] | None

    def open(self, context: SinkContext) -> bool:
        """Open the file; what was written after the last ``flush`` is taken off again."""
        options: PlainLogOptions = context.options
        path = Path(options.plain_log_file or context.folder.path / "training.txt")
        path = path / f"{context.folder.path.name}.txt" if path.is_dir() else path
        chosen = options.plain_log_kinds
        self._kinds = None if chosen is None else frozenset(k.strip() for k in chosen.split(","))
        known = context.state.get("bytes") if context.state.get("file") == str(path) else None
        has_size = isinstance(known, int) and path.exists() and path.stat().st_size >= known
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.truncate(path, known if has_size and known is not None else 0)
        _end_line(path)
        self._path, self._file = path, path.open("ab")
        return has_size or not context.state

    def write(self, entry: Entry) -> None:
        if entry.kind == "resume" and entry.position.writer == LOOP:
            self._forget(entry.step)
        self._file.write("".join(_lines(entry, self._kinds)).encode())

    def flush(self) -> dict[str, Any]:
        """The file, and how much of it is ours for good."""
        self._file.flush()
        return {"file": str(self._path), "bytes": self._file.tell()}

    def _forget(self, step: int) -> None:
        """Drop the lines from a step on: a later attempt makes those steps again."""
        self._file.close()
        with (
            replaced_file(self._path) as temporary,
            self._path.open("rb") as old,
            temporary.open("wb") as new,
        ):
            new.writelines(line for line in old if int(line.split(b" ", 1)[0]) < step)
        self._file = self._path.open("ab")


def _end_line(path: Path) -> None:
    """Cut a line that is not whole: after `_forget`, what was confirmed may end inside one."""
    if path.exists():
        with path.open("r+b") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE)
            file.seek(start)
            whole, newline, _ = file.read().rpartition(b"\n")
            file.truncate(start + len(whole) + len(newline))


def _lines(entry: Entry, kinds: frozenset[str] | None) -> Iterator[str]:
    if entry.position.writer != LOOP or axis_of(entry.record) != "step":
        return
    for name, value in scalars_of(entry.record):
        kind = plain_kind(name, role=GUESSED_ROLE.get(name))
        if kinds is None or kind in kinds:
            yield f"{entry.step} {kind} {float(value)!r}\n"
