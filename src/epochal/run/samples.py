"""Stores the samples of a run in its folder, up to the run's budget.

In the call, bytes are written as they come; encoding is left to the companion. When the call has
returned, the sample is in the kernel's hands, like a record.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from epochal.base.atomic_file import sync_folder, sync_or_rewrite
from epochal.errors import UsageError
from epochal.journal.blobs import (
    RAW,
    Pixels,
    blob_name,
    copy_blob,
    new_digest,
    store_blob,
    store_pixels,
)
from epochal.journal.layout import RunFolder
from epochal.records.format import format_bytes
from epochal.run.writing import RunWriter

_WARN_SHARE = 0.8
_PIECE_BYTES = 1 << 20
_MOST_NOTES = 20
# How often the files are measured, near the budget and before. Thousands of them take a while.
_MEASURE_NEAR_S, _MEASURE_S = 1.0, 10.0
# Of a name in ``blobs/``; hubs take no other characters.
_SUFFIX = re.compile(r"\.[a-z0-9]{1,10}")


class OverBudgetError(UsageError):
    """The samples of the run have reached its budget."""


class SampleStore:
    """The files of a run's samples; what ``epochal.exchange.media.types.Keep`` asks for.

    ``report`` takes a sentence for the user, an event and its fields.
    """

    def __init__(self, recorder: RunWriter, report: Callable[..., None]) -> None:
        self.budget_bytes = 2 * 10**9
        self._recorder = recorder
        self._report = report
        self._used = math.inf  # until it is measured
        self._measured_at = -math.inf
        self._warned = False
        self._noted: set[str] = set()
        patch = (recorder.identity.get("git") or {}).get("patch")  # stored before the run was open
        self._unsynced: set[str] = set() if patch is None else {patch}
        self._failed: set[str] = set()  # of them, those that the disk has failed to store

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

    def copy(self, source: BinaryIO, suffix: str) -> tuple[str, int]:
        """Copy an open file, and return the name and the size of the copy.

        The name is made of the bytes that were copied: the source may be changed meanwhile.
        """
        size, digest = os.fstat(source.fileno()).st_size, new_digest()
        self.reserve(size)
        blobs = self._recorder.folder.blobs
        blobs.mkdir(parents=True, exist_ok=True)
        temporary = blobs / f".{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            with open(temporary, "wb") as copy:
                # As many bytes as the source had: it may grow meanwhile.
                while piece := source.read(min(size - copy.tell(), _PIECE_BYTES)):
                    digest.update(piece)
                    copy.write(piece)
                size = copy.tell()
            ending = suffix.lower()
            is_plain = _SUFFIX.fullmatch(ending) is not None and ending != RAW
            file = digest.hexdigest()[:32] + (ending if is_plain else ".bin")
            if not (blobs / file).exists():
                os.replace(temporary, blobs / file)
        finally:
            temporary.unlink(missing_ok=True)
        self._unsynced.add(file)
        return file, size

    def note(self, sentence: str) -> None:
        """Print something that the user should know about a sample, whatever its numbers, once."""
        plain = re.sub(r"[\d,]", "", sentence)
        if plain not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(plain)
            self._recorder.console.notice(sentence)

    def copy_to(self, folder: RunFolder) -> None:
        """Have all files in the folder of another run, too."""
        own = self._recorder.folder
        try:
            names = os.listdir(own.blobs) if own.blobs.is_dir() else ()
            for name in names:
                copy_blob(name.removesuffix(RAW), own, folder)
        except OSError as error:
            self._report(
                f"the samples of {own.path} could not be copied to {folder.path}: {error}",
                "blob-lost",
                reason=str(error),
            )

    def reserve(self, size: int) -> None:
        """Raise ``OverBudgetError`` if so many more bytes do not fit; warn before that."""
        at, near = time.monotonic(), self.budget_bytes * _WARN_SHARE
        wait_s = _MEASURE_NEAR_S if self._used + size > near else _MEASURE_S
        if at >= self._measured_at + wait_s:
            # Pixels are encoded meanwhile, and other ranks store files, too.
            self._used, self._measured_at = self._size_on_disk(), at
        used = self._used + size
        limit = f"the limit of {format_bytes(self.budget_bytes)} (the setting samples_gb)"
        if used > self.budget_bytes:
            raise OverBudgetError(
                f"with another {format_bytes(size)}, the samples and files of this run would exceed"
                f" {limit}. What does not fit is skipped and counted; numbers are still recorded."
            )
        if used > near and not self._warned:
            self._warned = True
            taken = f"the samples and files of this run take {format_bytes(used)} and approach"
            self._report(f"{taken} {limit}.", "samples-budget", bytes=used)
        self._used = used

    def sync(self) -> None:
        """Wait until the files stored so far are on the disk itself; raises OSError if one is not.

        A file that the disk fails to store is written again, and tried again at the next call.
        """
        blobs = self._recorder.folder.blobs
        names = tuple(self._unsynced)
        if not names:
            return
        for name in names:
            for path in (blobs / f"{name}{RAW}", blobs / name):  # encoded from the first
                try:
                    sync_or_rewrite(path, rewrites=name in self._failed)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._report_failure(name, error)
                    raise
            self._failed.discard(name)
        sync_folder(blobs)
        sync_folder(blobs.parent)
        self._unsynced.difference_update(names)

    def _report_failure(self, name: str, error: OSError) -> None:
        if name not in self._failed:
            self._failed.add(name)
            failed = f"the disk failed to store blobs/{name}: {error.strerror or error}"
            self._report(f"{failed}. Each flush() tries it again.", "sync-failed", reason=failed)

    def _size_on_disk(self) -> int:
        try:
            with os.scandir(self._recorder.folder.blobs) as entries:
                return sum(entry.stat().st_size for entry in entries if entry.is_file())
        except OSError:
            return 0
