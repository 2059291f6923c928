"""Segments of large unsealed parts, kept in the user's cache folder and never in a run's own.

They are copies: each is named after size and time of the journal part it was made of, so that one
of an older state is never taken for the part as it is. ``python -m epochal.store.cached`` makes
them in a process of its own, because that takes seconds and would hold up every answer meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from epochal.errors import EpochalError
from epochal.journal.layout import PartName, RunFolder, parse_part_name
from epochal.store.listing import FoundPart

LARGE_BYTES = 8 * 1024 * 1024
# A part that nobody wrote to for this long is copied even when it may still grow.
QUIET_S = 60.0
# Copies that nobody asked for in this time are deleted when another is made.
KEEP_S = 30 * 86400.0


class CachedSegments:
    """Finds copies, and with ``build`` has missing ones made, one at a time."""

    def __init__(self, folder: Path, *, build: bool = False) -> None:
        self._folder = folder / "segments"
        self._build = build
        self._builder: subprocess.Popen[bytes] | None = None
        self._tried: set[Path] = set()
        self._lock = threading.Lock()

    def find(self, found: FoundPart, name: PartName) -> Path | None:
        """The copy of a large part as it is now; one that is missing is made for the next time."""
        if found.stat.size < LARGE_BYTES:
            return None
        if time.time() - found.stat.mtime_ns / 1e9 < QUIET_S:
            return None
        path = self._path(found, name)
        with contextlib.suppress(OSError):
            os.utime(path)  # it is in use
        if path.exists():
            return path
        if self._build:
            with self._lock:
                self._start(found, path)
        return None

    def close(self) -> None:
        """Stop making copies."""
        if self._builder is not None and self._builder.poll() is None:
            self._builder.terminate()
            self._builder.wait()
        self._builder = None

    def _path(self, found: FoundPart, name: PartName) -> Path:
        said = f"{found.path} {found.stat.size} {found.stat.mtime_ns}"
        digest = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
        # A rank's part written aside has another attempt than in its run: the file's name counts.
        return self._folder / digest / f"{found.path.stem}.parquet"

    def _start(self, found: FoundPart, target: Path) -> None:
        if target in self._tried or (self._builder is not None and self._builder.poll() is None):
            return
        self._tried.add(target)
        command = [
            sys.executable,
            "-m",
            "epochal.store.cached",
            str(found.path),
            str(target.parent),
        ]
        with contextlib.suppress(OSError):  # no process to spare: the journal itself is read
            self._builder = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def make_copy(journal: Path, target: Path) -> None:
    """Seal a copy of one journal part into a folder, and delete copies nobody uses any more."""
    from epochal.segments.seal import seal_part

    name = parse_part_name(journal.name, ".jsonl")
    if name is None:
        raise EpochalError(f"{journal} is not a part of a journal.")
    seal_part(RunFolder(journal.parent.parent), name, into=target)
    for folder in target.parent.iterdir():
        used = [path.stat().st_mtime for path in folder.glob("*.parquet")]
        if used and time.time() - max(used) > KEEP_S:
            shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Make one copy: JOURNAL-PART FOLDER."""
    journal, target = map(Path, arguments)
    try:
        make_copy(journal, target)
    except (EpochalError, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        sys.stderr.write(f"epochal: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
