"""The newest readings of a machine, in a file that is overwritten in place.

The journal stores means of ten seconds. This file has the current readings, for the live page. One
write of constant length overwrites it every second. It is deleted when the run has ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from epochal.journal.layout import RunFolder
from epochal.journal.line import encode_json

_BLOCK = 4096


class LiveFile:
    """One node's readings beside one run; ``wall`` gives Unix seconds."""

    def __init__(
        self, folder: RunFolder, *, node: str, rank: int, wall: Callable[[], float]
    ) -> None:
        self._path = folder.live / f"{node}.json"
        self._who = {"node": node, "rank": rank}
        self._wall = wall
        self._gpus: dict[int, dict[str, Any]] = {}
        self._host: dict[str, Any] = {}

    def see_gpu(self, gpu: int, fields: Mapping[str, Any]) -> None:
        """Store the current reading of a GPU; missing fields keep their last value."""
        self._gpus.setdefault(gpu, {}).update(self._read_now(fields))

    def see_host(self, fields: Mapping[str, Any]) -> None:
        """Store the current reading of the machine."""
        self._host.update(self._read_now(fields))

    def write(self) -> None:
        """Put everything known into the file; raises ``OSError``."""
        gpus = [{"id": gpu, **fields} for gpu, fields in sorted(self._gpus.items())]
        readings = {"t": round(self._wall(), 3), **self._who, "gpus": gpus, "system": self._host}
        text = encode_json(readings)
        # A run that was deleted is not brought back.
        self._path.parent.mkdir(exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # A text covers all of a longer one: a reader never meets the rest of an older one.
            size = max(os.fstat(file).st_size, (len(text) // _BLOCK + 1) * _BLOCK)
            os.write(file, text.ljust(size - 1) + b"\n")
        finally:
            os.close(file)

    def close(self) -> None:
        """Take the file away."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        with contextlib.suppress(OSError):  # another node's is still there
            self._path.parent.rmdir()

    def _read_now(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The readings and their times; the file itself is written more often."""
        known = {name: value for name, value in fields.items() if value is not None}
        return {**known, "t": round(self._wall(), 3)} if known else {}
