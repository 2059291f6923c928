"""Stores the samples of a run in its folder, up to the run's budget.

In the call, bytes are written as they come; encoding is left to the companion. When the call has
returned, the sample is in the kernel's hands, like a record.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from epochal.errors import UsageError
from epochal.format import format_bytes
from epochal.media.encode import Pixels
from epochal.media.files import RAW, blob_name, store_blob, store_pixels

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder

_WARN_SHARE = 0.8


class OverBudgetError(UsageError):
    """The samples of the run have reached its budget."""


class SampleStore:
    """The files of a run's samples; what ``epochal.media.types.Keep`` asks for.

    ``report`` takes a sentence for the user, an event and its fields.
    """

    def __init__(self, recorder: Recorder, report: Callable[..., None]) -> None:
        self.budget_bytes = 2 * 10**9
        self._recorder = recorder
        self._report = report
        self._used: int | None = None
        self._warned = False
        self._unsynced: set[str] = set()

    def file(self, data: bytes, media_type: str) -> str:
        """Store some bytes, and return the name of their file."""
        file = blob_name(media_type, data)
        self.reserve(len(data))
        store_blob(self._recorder.folder, file, data)
        self._unsynced.add(file)
        return file

    def pixels(self, pixels: Pixels) -> str:
        """Store pixels as they are, and return the name of the file that they become."""
        self.reserve(len(pixels.data))
        file = store_pixels(self._recorder.folder, pixels)
        self._unsynced.add(file)
        return file

    def note(self, sentence: str) -> None:
        """Print something that the user should know about a sample, once."""
        self._recorder.console.notice(sentence)

    def reserve(self, size: int) -> None:
        """Raise ``OverBudgetError`` if so many more bytes do not fit; warn before that."""
        used = (self._size_on_disk() if self._used is None else self._used) + size
        if used > self.budget_bytes * _WARN_SHARE:
            used = self._size_on_disk() + size  # pixels were counted before they were encoded
        limit = f"the limit of {format_bytes(self.budget_bytes)} (the setting samples_gb)"
        if used > self.budget_bytes:
            raise OverBudgetError(
                f"the samples and files of this run have reached {limit}. Further ones are skipped"
                " and counted; numbers are still recorded."
            )
        if used > self.budget_bytes * _WARN_SHARE and not self._warned:
            self._warned = True
            taken = f"the samples and files of this run take {format_bytes(used)} and approach"
            self._report(f"{taken} {limit}.", "samples-budget", bytes=used)
        self._used = used

    def sync(self) -> None:
        """Wait until the files stored so far are on the disk itself."""
        names, self._unsynced = self._unsynced, set()
        for name in names:
            for path in (name, f"{name}{RAW}"):
                try:
                    descriptor = os.open(self._recorder.folder.blobs / path, os.O_RDONLY)
                except OSError:
                    continue
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _size_on_disk(self) -> int:
        try:
            with os.scandir(self._recorder.folder.blobs) as entries:
                return sum(entry.stat().st_size for entry in entries if entry.is_file())
        except OSError:
            return 0
