"""``training.txt``: lines of ``step kind value``, for scripts that follow a training with ``tail``.

Rank 0's numbers on the step axis: ``train`` is the loss, ``val`` the evaluation's, ``hellaswag``
that score, and anything else goes by its name. The file is a run's own: one that another run left
is written over, one of an earlier attempt is gone on with.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from epochal.journal.layout import LOOP
from epochal.record import ROLE_GUESSES, axis_of, scalars_of
from epochal.reporting import PlainLogOptions
from epochal.series.plain_kind import plain_kind
from epochal.sinks.sink import Entry, SinkContext

_ROLES = {name: role for role, names in ROLE_GUESSES.items() for name in names}


class PlainLogSink:
    """Appends a line for every number."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._file: BinaryIO | None = None

    def open(self, context: SinkContext) -> bool:
        """Open the file; what was written after the last ``flush`` is taken off again."""
        options: PlainLogOptions = context.options
        path = Path(options.plain_log_file or context.folder.path / "training.txt")
        known = context.state.get("bytes") if context.state.get("file") == str(path) else None
        has_size = isinstance(known, int) and path.exists() and path.stat().st_size >= known
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.truncate(path, known if has_size and known is not None else 0)
        self._path, self._file = path, path.open("ab")
        return has_size or not context.state

    def write(self, batch: Sequence[Entry]) -> None:
        """Append the numbers of the records."""
        assert self._file is not None
        lines = [line for entry in batch for line in _lines(entry)]
        self._file.write("".join(lines).encode())
        self._file.flush()

    def flush(self) -> dict[str, Any]:
        """The file, and how much of it is ours for good."""
        assert self._file is not None
        self._file.flush()
        return {"file": str(self._path), "bytes": self._file.tell()}

    def close(self, status: str | None) -> dict[str, Any]:
        """Close the file; it is complete as it stands."""
        if self._file is None:
            return {}
        state = self.flush()
        self._file.close()
        self._file = None
        return state


def _lines(entry: Entry) -> Iterator[str]:
    if entry.position.writer != LOOP or axis_of(entry.record) != "step":
        return
    for name, value in scalars_of(entry.record):
        yield f"{entry.step} {plain_kind(name, role=_ROLES.get(name))} {float(value)!r}\n"
