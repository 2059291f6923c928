"""What a run folder offers to those who copy it: the state of its parts and files, and pieces.

A run may be copied while it is written: a line without its end is not offered yet. Nothing is
changed here.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from epochal.errors import FormatError, RunNotFoundError, UsageError
from epochal.journal.layout import PartName, RunFolder, parse_part_name, read_json
from epochal.shipping.protocol import (
    BATCH_BYTES,
    CHUNK_BYTES,
    FileKind,
    PartState,
    RunState,
    SegmentState,
    is_file_name,
)

_BLOCK_BYTES = 1 << 20
_MOST_KNOWN = 4096
_MOST_STEM = 200


@dataclass(slots=True)
class _Counted:
    """A part as far as it was counted; ``marks`` are line numbers and where these lines begin."""

    inode: int
    lines: int = 0
    end: int = 0
    last_start: int = 0
    marks: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])


class PartCounts:
    """Counts the whole lines of parts; what was counted before is not read again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Path, _Counted] = OrderedDict()
        self._sealed: OrderedDict[Path, tuple[tuple[int, int], SegmentState]] = OrderedDict()

    def state(self, path: Path) -> PartState:
        """How many whole lines a part has, and the checksum of the last."""
        with self._lock, open(path, "rb", opener=_no_link) as file:
            known = self._count(path, file.fileno())
            file.seek(known.last_start)
            return PartState(known.lines, zlib.crc32(file.read(known.end - known.last_start)))

    def whole(self, path: Path) -> tuple[int, int]:
        """How many whole lines a part has, and where they end; nothing where there is no file."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._lock,
            open(path, "rb", opener=_no_link) as file,
        ):
            known = self._count(path, file.fileno())
            return known.lines, known.end
        return 0, 0

    def lines(self, path: Path, first: int) -> bytes:
        """Whole lines from an ordinal on, about as many as fit in one batch; none past the end."""
        with self._at_line(path, first) as file:
            block = b"" if file is None else file.read(BATCH_BYTES)
            if file is not None and not block.endswith(b"\n"):
                block += file.readline()
            return block[: block.rfind(b"\n") + 1]

    def end_of(self, path: Path, num_lines: int) -> tuple[int | None, int]:
        """Where a number of lines ends, and the checksum of the last; None past the end."""
        if num_lines == 0:
            return 0, 0
        with self._at_line(path, num_lines - 1) as file:
            if file is None:
                return None, 0
            crc = zlib.crc32(file.readline())
            return file.tell(), crc

    @contextlib.contextmanager
    def _at_line(self, path: Path, ordinal: int) -> Iterator[BinaryIO | None]:
        """A part, open where a whole line of it begins; None where there is no such line."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            try:
                file = stack.enter_context(open(path, "rb", opener=_no_link))
            except FileNotFoundError:
                yield None
                return
            known = self._count(path, file.fileno())
            if ordinal >= known.lines:
                yield None
                return
            marked, offset = known.marks[bisect_right(known.marks, (ordinal, known.end)) - 1]
            file.seek(offset)
            for _ in range(ordinal - marked):
                file.readline()
            yield file

    def sealed(self, path: Path) -> SegmentState:
        """How large a segment is, and how many lines it holds; none if it cannot be read."""
        from epochal.journal.segments.read import Segment  # pyarrow: only where there are segments

        with self._lock:
            status = path.stat()
            seen = (status.st_ino, status.st_mtime_ns)
            known = self._sealed.get(path)
            if known is None or known[0] != seen:
                lines = 0
                with contextlib.suppress(FormatError), Segment(path) as segment:
                    lines = segment.num_records + segment.num_damaged
                known = self._sealed[path] = (seen, SegmentState(status.st_size, lines))
                if len(self._sealed) > _MOST_KNOWN:
                    self._sealed.popitem(last=False)
            return known[1]

    def _count(self, path: Path, descriptor: int) -> _Counted:
        status = os.fstat(descriptor)
        known = self._known.get(path)
        if known is None or known.inode != status.st_ino or status.st_size < known.end:
            known = self._known[path] = _Counted(status.st_ino)
        self._known.move_to_end(path)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        position = known.end
        while block := os.pread(descriptor, _BLOCK_BYTES, position):
            num_lines = block.count(b"\n")
            if num_lines:
                last = block.rfind(b"\n") + 1
                begin = block.rfind(b"\n", 0, last - 1) + 1
                known.last_start = position + begin if begin else known.end
                known.lines, known.end = known.lines + num_lines, position + last
                if known.end - known.marks[-1][1] >= _BLOCK_BYTES:
                    known.marks.append((known.lines, known.end))
            position += len(block)
        return known


def state_of(folder: RunFolder, counts: PartCounts) -> RunState:
    """What there is of a run; its id is the one that it recorded."""
    identity = read_json(folder.identity)
    parts: dict[str, PartState] = {}
    for name in folder.parts():
        with contextlib.suppress(FileNotFoundError):  # sealed meanwhile
            parts[name.stem] = counts.state(folder.part_path(name))
    segments: dict[str, SegmentState] = {}
    for name in folder.sealed_parts():
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            path = folder.sealed_path(name)
            segments[path.name] = counts.sealed(path)
    return RunState(
        id=str(identity.get("id", "")),
        project=str(identity.get("project", "")),
        folder="/".join(folder.path.parts[-2:]),
        parts=parts,
        segments=segments,
        blobs=sizes(folder.blobs, "blobs"),
        labels=json_or_empty(folder.labels),
        identity=identity,
        live=list(sizes(folder.live, "live")),
    )


def piece_of(folder: RunFolder, kind: FileKind, name: str, *, offset: int) -> bytes:
    """A piece of a file from an offset on; raises ``RunNotFoundError`` where there is no file."""
    if not is_file_name(kind, name):
        raise UsageError(f"{name!r} is not a name of a file in {kind}.")
    path = folder.path / kind / name
    if path.is_symlink() or not path.is_file():
        raise RunNotFoundError(f"there is no {kind}/{name} in this run.")
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(CHUNK_BYTES)


def named_part(stem: str) -> PartName:
    """The name of a part; anything else raises ``UsageError``, because it becomes a path."""
    is_short = len(stem) <= _MOST_STEM
    name = parse_part_name(f"{stem}.jsonl", ".jsonl") if is_short else None
    if name is None or name.stem != stem:
        raise UsageError(f"{stem!r} is not the name of a part of a journal.")
    return name


def sizes(folder: Path, kind: FileKind) -> dict[str, int]:
    """The files of a kind in a folder, with their sizes in bytes."""
    found: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if is_file_name(kind, entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    found[entry.name] = entry.stat().st_size
    return dict(sorted(found.items()))


def json_or_empty(path: Path) -> dict[str, Any]:
    """A JSON object in a file; an empty one where it cannot be read."""
    try:
        return read_json(path)
    except (FileNotFoundError, FormatError):
        return {}


def _no_link(path: str, flags: int) -> int:
    """Open a file that is not a link: a link could lead to any file of the machine."""
    return os.open(path, flags | os.O_NOFOLLOW)
