"""Journals for tests: a writer with a plain header, and everything a folder holds."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from epochal.journal import writer as writing
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode, now
from epochal.journal.reader import read_journal
from epochal.journal.writer import PART_BYTES, JournalWriter
from epochal.records import FORMAT_VERSION, Record


def header(part: PartName) -> bytes:
    return encode({"log": "run", "t": 1.0, "v": FORMAT_VERSION, "writer": part.writer})


def open_writer(
    folder: Path,
    *,
    on_fault: Callable[[str], None] = lambda sentence: None,
    part_bytes: int = PART_BYTES,
) -> JournalWriter:
    run_folder = RunFolder(folder)
    run_folder.journal.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(
        run_folder,
        writer="loop",
        attempt=1,
        header=header,
        on_fault=on_fault,
        part_bytes=part_bytes,
    )
    writer.open()
    return writer


def append_step(writer: JournalWriter, step: int, *, at: float | None = None) -> None:
    moment = now() if at is None else at
    writer.append(encode({"log": "metrics", "t": moment, "step": step, "m": {"a": step}}), moment)


def records(folder: Path | RunFolder) -> list[Record]:
    run_folder = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    return [record for _, record in read_journal(run_folder)]


def steps(folder: Path | RunFolder) -> list[int]:
    return [record["step"] for record in records(folder) if record["log"] == "metrics"]


def of_kind(folder: Path | RunFolder, kind: str) -> list[Record]:
    return [record for record in records(folder) if record["log"] == kind]


def descriptor_of(path: Path) -> int:
    """The number of this process's own descriptor of a file; only one may be open."""
    wanted = os.stat(path)
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            status = os.fstat(number)
        except OSError:
            continue  # the one that listed the folder
        if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(number)
    (only,) = found
    return only


@contextlib.contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """A disk that has no space left for a file, until the block ends."""
    wanted, write = os.stat(path), os.write

    def refuse(descriptor: int, text: bytes) -> int:
        if os.path.samestat(os.fstat(descriptor), wanted):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, text)

    os.write = writing._write = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os.write = writing._write = write


@contextlib.contextmanager
def failing_sync(*paths: Path, times: int = 1) -> Iterator[list[Path]]:
    """A disk that fails so many calls of fsync, of some files or of all; gives the files synced.

    As Linux does, it reports what it could not write once.
    """
    sync, synced, left = os.fsync, list[Path](), [times]

    def fail(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if left[0] and (not paths or path in paths):
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)
        synced.append(path)

    os.fsync = fail  # type: ignore[assignment]
    try:
        yield synced
    finally:
        os.fsync = sync
