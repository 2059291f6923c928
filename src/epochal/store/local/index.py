"""Remembers the rows of runs between processes, so that ten thousand runs are listed at once.

The index lies beside the runs, in ``.epochal`` of each folder that holds some, for all who read
them. Where that folder cannot be written, it lies in the reader's cache. A row is valid only for
files that are as they were, and the index can be deleted at any time. It is a log, for the reasons
in ``docs/development/decisions/index-of-runs.md``:

    <folder>/.epochal/rows-<version>.<machine>-<user>      one writer's, read by all
    record   := c1 45 50 49, length u32, CRC-32 u32, payload      (little-endian)
    payload  := ``IndexEntry`` as msgpack; of several of one run the last one counts

A record that a kill cut short or another machine wrote over fails its checksum. The reader goes on
at the next mark, and that run is read anew.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import socket
import stat
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from epochal.store.packed import pack, packed_decoder
from epochal.store.row import Row

# Part of each file's name: an older Epochal goes on with its own.
VERSION = 11
FOLDER = ".epochal"
_MARK = b"\xc1EPI"
_HEAD = struct.Struct("<4sII")
_MAX_FILE_BYTES = 1 << 30
# A smaller file is not worth rewriting, however many of its rows are out of date.
_SMALL_BYTES = 1 << 20
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_TOO_MUCH = "a run whose configuration is nested too deeply is not kept in the index."


class Stamp(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What two stats say of a run that has ended; a third where it has labels.

    Times of the run's folder and of its journal folder, size and time of labels.json: all files
    that can still change make one of these change.
    """

    folder_ns: int
    journal_ns: int
    labels: tuple[int, int] | None


class IndexPlace(NamedTuple):
    """Where the index of a run lies: the folder around the run, and the run's name in it.

    ``is_beside``: that folder is ours to write to; an index of others' files is in the cache.
    """

    folder: str
    name: str
    is_beside: bool


class IndexEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The row of a run, and what it is valid for.

    ``signature`` is of all files and of the reader's rules; ``stamp`` is for a run that ended.
    """

    name: str
    rules: str
    signature: str
    stamp: Stamp | None
    row: msgspec.Raw


class Index:
    """Rows of runs by folder and name; without a cache folder it remembers nothing."""

    def __init__(self, cache: Path | None) -> None:
        self._cache = None if cache is None else str(cache / f"rows-{VERSION}")
        self._own = f"rows-{VERSION}.{_machine()}-{_user()}"
        self._entry = msgspec.msgpack.Decoder(IndexEntry)
        self._row = packed_decoder(Row)
        self._notices: Counter[str] = Counter()
        # By file of ours, how many rows it holds and how many of them are out of date.
        self._counts: dict[str, list[int]] = {}
        self._not_beside: set[str] = set()

    @property
    def notices(self) -> Mapping[str, int]:
        """What went wrong, in sentences, and how often."""
        return dict(self._notices)

    # -- reading ----------------------------------------------------------------------------------

    def entries(self, folder: str, *, rules: str, is_beside: bool) -> dict[str, IndexEntry]:
        """The newest entry of each run of a folder, by its name."""
        found: dict[str, IndexEntry] = {}
        if self._cache is None:
            return found
        for path in self._files(folder, is_beside=is_beside):
            counts = self._counts[path] = [0, 0]
            for entry in self._read(path):
                counts[0] += 1
                counts[1] += entry.name in found
                if entry.rules == rules:
                    found[entry.name] = entry
        return found

    def row(self, entry: IndexEntry) -> Row | None:
        """The row of an entry; None for one that is not of this version after all."""
        try:
            return self._row.decode(entry.row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._notices["a row of the index could not be read and is made anew."] += 1
            return None

    def _files(self, folder: str, *, is_beside: bool) -> Iterator[str]:
        """The files of all writers, this one's own last, which so has the last word."""
        yield from filter(os.path.lexists, [self._cache_file(folder)])
        if not is_beside:
            return
        beside = f"{folder}/{FOLDER}"
        try:
            names = [] if os.path.islink(beside) else os.listdir(beside)
        except OSError:  # there is none yet
            return
        own_last = sorted(names, key=lambda name: (name == self._own, name))
        start = f"rows-{VERSION}."
        yield from (f"{beside}/{name}" for name in own_last if name.startswith(start))

    def _read(self, path: str) -> Iterator[IndexEntry]:
        try:
            content = _content(path)
        except OSError as error:
            self._notices[f"the index {path} cannot be read: {error.strerror or error}."] += 1
            return
        at, end, head_size = 0, len(content), _HEAD.size
        unpack_head, decode = _HEAD.unpack_from, self._entry.decode
        while at + head_size <= end:
            mark, length, check = unpack_head(content, at)
            start = at + head_size
            payload = content[start : start + length]
            if mark == _MARK and len(payload) == length and zlib.crc32(payload) == check:
                at = start + length
                try:
                    entry = decode(payload)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
                yield entry
                continue
            # Cut short by a kill, or written over: go on at the next record that is whole.
            self._notices["a damaged record of the index was left out."] += 1
            at = content.find(_MARK, at + 1)
            if at < 0:
                return

    # -- writing ----------------------------------------------------------------------------------

    def entry(
        self, name: str, *, rules: str, signature: str, stamp: Stamp | None, row: Row
    ) -> IndexEntry | None:
        """An entry of this row; None for a row that cannot be kept."""
        try:
            row.pack()
            encoded = msgspec.Raw(pack(row))
        except RecursionError:
            self._notices[_TOO_MUCH] += 1
            return None
        return IndexEntry(name, rules, signature, stamp, encoded)

    def put(self, folder: str, entries: Iterable[IndexEntry], *, is_beside: bool) -> None:
        """Append entries, all in one write: beside the runs, or in the cache where that fails."""
        if self._cache is None:
            return
        records = [_record(pack(entry)) for entry in entries]
        if not records:
            return
        if is_beside and folder not in self._not_beside:
            try:
                self._append(f"{folder}/{FOLDER}", self._own, records)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    self._cannot_write(folder, error)
                self._not_beside.add(folder)
            else:
                return
        path = self._cache_file(folder)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._append(os.path.dirname(path), os.path.basename(path), records)
        except OSError as error:
            self._cannot_write(path, error)

    def _cannot_write(self, place: str, error: OSError) -> None:
        self._notices[f"the index of {place} cannot be written: {error.strerror or error}."] += 1

    def _append(self, folder: str, name: str, records: list[bytes]) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        # By descriptor, and no links: in a shared folder somebody else may have put one there.
        place = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _OPEN_FLAGS)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _OPEN_FLAGS
            file = os.open(name, flags, 0o666, dir_fd=place)
            try:
                os.write(file, b"".join(records))
                size = os.fstat(file).st_size
            finally:
                os.close(file)
            self._rewrite_if_old(place, f"{folder}/{name}", name, size)
        finally:
            os.close(place)

    def _rewrite_if_old(self, place: int, path: str, name: str, size: int) -> None:
        """Write a file anew when most of it is out of date.

        What another process appends meanwhile may be lost: its runs are then read once more.
        """
        rows, old = self._counts.get(path, (0, 0))
        if size < _SMALL_BYTES or old * 2 <= rows:
            return
        newest = {(entry.name, entry.rules): entry for entry in self._read(path)}
        records = b"".join(_record(pack(entry)) for entry in newest.values())
        temporary = f".{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OPEN_FLAGS
        file = os.open(temporary, flags, 0o666, dir_fd=place)
        try:
            os.write(file, records)
        finally:
            os.close(file)
        os.replace(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        self._counts[path] = [len(newest), 0]

    def _cache_file(self, folder: str) -> str:
        digest = hashlib.blake2b(os.fsencode(folder), digest_size=16).hexdigest()
        return f"{self._cache}/{digest}"


def _record(payload: bytes) -> bytes:
    return _HEAD.pack(_MARK, len(payload), zlib.crc32(payload)) + payload


def _content(path: str) -> bytes:
    """The bytes of a regular file, which is not a link."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _OPEN_FLAGS)
    with open(file, "rb", buffering=0) as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
            raise OSError(errno.EINVAL, "it is no regular file, or larger than a gibibyte", path)
        return opened.read()


def _machine() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", socket.gethostname())[:64] or "here"


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
