"""Files that appear under their name complete, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def replaced_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` when the block ends.

    When the block raises, the temporary file is removed and `path` stays as it was. An ``OSError``
    about the temporary file names `path`. `durable` writes the contents to the disk before the
    rename, so that a power cut leaves the old file or the new one; see also `sync_folder`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if durable:
            _sync(temporary, os.O_RDWR)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


@contextlib.contextmanager
def new_text_file(path: str | Path) -> Iterator[TextIO]:
    """Yield a UTF-8 text file that replaces `path` when the block ends; makes its folders."""
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    # newline="": the writer's line ends are the same on every platform.
    with (
        replaced_file(target) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as out,
    ):
        yield out


@contextlib.contextmanager
def between_processes(path: Path, *, waits: bool = True) -> Iterator[None]:
    """Hold the lock file `path`, so that one process at a time runs the block; makes the file.

    Without `waits`, ``BlockingIOError`` is raised where another process holds it. Without effect
    on disks that have no such locks. The file stays: deleting it would let two
    processes hold two locks of one name.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except OSError as error:  # a file system without locks, or another process has it
            if isinstance(error, BlockingIOError) and not waits:
                raise
        yield
    finally:
        os.close(descriptor)


def has_locks(descriptor: int) -> bool:
    """Whether the disk of an open file has the locks that SQLite uses; network disks may not."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    return True


def folder_has_locks(folder: Path | str) -> bool:
    """Whether the disk of a folder has these locks; True for one that cannot be written."""
    import tempfile  # which a training does not need

    try:
        # A file of its own: closing a file that SQLite has open would end the locks of SQLite.
        with tempfile.TemporaryFile(dir=folder) as file:
            return has_locks(file.fileno())
    except OSError:
        return True


def sync_folder(path: Path) -> None:
    """Write the names in a folder to the disk, so that renames survive a power cut."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
