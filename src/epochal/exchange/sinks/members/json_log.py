"""``training.json``: a JSON array of every record, valid whenever it is read.

Local time in ISO form stands in the place of ``t``. A file that exists is gone on with.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.exchange.sinks.sink import Entry, FileSink, SinkContext, SinkOptions, option
from epochal.journal.array import ArrayFile, with_iso_time


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLogOptions(SinkOptions):
    """The place of the file."""

    log_file: str | None = option(
        "the file; default: `training.json` in the run's folder", is_path=True, starts_sink=True
    )


class JsonLogSink(FileSink):
    """Appends records to one JSON array."""

    name = "json_log"
    summary = "A JSON array of all records, with `time` in ISO format, valid after each record."
    options = JsonLogOptions
    holds = ("*",)
    labels = ()

    def open(self, context: SinkContext) -> bool:
        """Open the array; what was written after the last ``flush`` is taken off again."""
        options: JsonLogOptions = context.options
        path = Path(options.log_file or context.folder.path / "training.json")
        known = context.state.get("bytes") if context.state.get("file") == str(path) else None
        if isinstance(known, int):
            # Gone: the file is written anew, from the first record on.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_size > known:
                    os.truncate(path, known)
        else:
            known = None
        is_gone = known is not None and not path.exists()
        self._file = ArrayFile(path)
        return not is_gone and (known is not None or not context.state)

    def write(self, entry: Entry) -> None:
        self._file.append(with_iso_time(entry.record))

    def flush(self) -> dict[str, Any]:
        """The file, and how much of it is ours for good."""
        self._file.path.stat()  # a file that is gone is a fault
        return {"file": str(self._file.path), "bytes": self._file.place}
