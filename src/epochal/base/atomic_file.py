"""Files that appear under their name complete, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_CHUNK_BYTES = 4 * 1024 * 1024
# What fsync answers for a folder where a file system does not support that.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def replaced_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` when the block ends.

    When the block raises, the temporary file is removed and `path` stays as it was. An ``OSError``
    about the temporary file names `path`. `durable` writes the contents to the disk before the
    rename and the name after it, so that a power cut leaves the old file or the new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        yield temporary
        if durable:
            _sync(temporary, os.O_RDWR)
        os.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
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
    """Write the names in a folder to the disk, so that new and renamed files survive a power cut.

    Does nothing on a file system that cannot do this for folders.
    """
    try:
        _sync(path, os.O_RDONLY)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that they survive a power cut.

    The name of one that is there is synced as well: whoever made it may have failed to do it.
    """
    if not folder.parent.is_dir():
        make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):  # a folder that this user cannot read
        sync_folder(folder.parent)


def sync_folders_above(folder: Path) -> None:
    """Write the name of a folder to the disk, and of all above it that this user may have made."""
    place = folder.resolve()
    device = place.stat().st_dev
    for above in place.parents:
        if above.stat().st_dev != device or not os.access(above, os.R_OK | os.W_OK):
            return
        sync_folder(above)


def sync_or_rewrite(path: Path, *, rewrites: bool = False) -> None:
    """Wait until a complete file is on the disk; write it again if the disk failed to take it.

    ``rewrites`` writes it again in any case: an earlier try has failed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if not rewrites:
            with contextlib.suppress(OSError):
                os.fsync(descriptor)
                return
        rewrite(descriptor, path)
    finally:
        os.close(descriptor)


def rewrite(source: int, path: Path, *, is_text: bool = False) -> int:
    """Write an open file again, as a new file under its name; returns its size in bytes.

    When `fsync` has failed, the kernel takes the data for written: another `fsync` of the same file
    succeeds and proves nothing. So only a new file can be trusted. Text has no NUL bytes; the file
    system shows them where it has lost the data itself.
    """
    mode, size = os.fstat(source).st_mode & 0o777, 0
    with replaced_file(path) as temporary:
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            while chunk := os.pread(source, _CHUNK_BYTES, size):
                if is_text and b"\0" in chunk:
                    raise OSError(errno.EIO, "the file system has lost a part of it", str(path))
                size += len(chunk)
                while chunk:
                    chunk = chunk[os.write(target, chunk) :]
            os.fsync(target)
        finally:
            os.close(target)
    sync_folder(path.parent)
    return size


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_folder(owner: object) -> Path:
    """A new folder outside the runs, which is deleted with the object it is for."""
    import shutil  # most processes never need one
    import tempfile
    import weakref

    folder = tempfile.mkdtemp(prefix="epochal-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
