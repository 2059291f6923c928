"""A disk that loses what was not synced: what a power cut leaves of the files that a process wrote.

``SimulatedDisk`` starts a process with the library ``disk.c``, which notes every call that changes
a file below one folder. Each operation of ``operations.py`` runs in a fork of that process, in a
folder of its own. ``PowerCut`` then makes the folder that a restarted machine would find if the
power had failed after some of these calls. One operation gives as many power cuts as you like.

What was written before the last successful ``fsync`` of a file is there. A later write is there,
is missing, ends at the border of a sector, or is there although an earlier one is not. What was
written before an ``fsync`` that failed is lost or not, whatever is synced later. A name is there if
its folder was synced; of later changes of a folder, the first ones are there. The choice is made by
a seed.
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
import posixpath
import random
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).with_name("disk.c")
_SECTOR_BYTES = (512, 4096)
# So many of the seeds kill the process, and leave the power on.
_KILLS = 0.25
_HEAD = struct.Struct("=Ic3xiiQq4I")
_CREATES_NAMELESS = getattr(os, "O_TMPFILE", -1)
# SQLite writes it through memory, and makes it anew after a crash.
_NOT_SEEN = "-shm"


class Call(NamedTuple):
    """One call that changed files, or what a program acknowledged after it."""

    kind: str
    name: str
    path: str
    second: str
    inode: int
    number: int
    pid: int
    data: bytes


# The kinds of calls; see ``note`` in disk.c.
OPEN, WRITE, TRUNCATE, SYNC, SYNC_FAILED, SYNC_ALL = "o", "w", "t", "s", "e", "a"
RENAME, LINK, SYMLINK, REMOVE, MAKE_FOLDER = "r", "l", "y", "u", "m"
FAULT, NOTE = "f", "n"


def read_calls(log: Path) -> list[Call]:
    """Every call that the library noted, in the order in which they happened."""
    text, place, calls = log.read_bytes(), 0, []
    while place < len(text):
        size, kind, pid, _error, inode, number, *sizes = _HEAD.unpack_from(text, place)
        begin, pieces = place + _HEAD.size, []
        for length in sizes:
            pieces.append(text[begin : begin + length])
            begin += length
        path, second = (_normal(os.fsdecode(piece)) for piece in pieces[1:3])
        name, data = pieces[0].decode(), pieces[3]
        calls.append(Call(kind.decode(), name, path, second, inode, number, pid, data))
        place += size
    return calls


def _normal(path: str) -> str:
    return posixpath.normpath(path) if path else ""


# -- the process that is watched ------------------------------------------------------------------


class Fault(NamedTuple):
    """Calls that fail: which, how, after how many others, and how often (-1: for ever).

    ``call`` is ``write``, ``fsync``, ``read``, ``name`` for what opens files or changes names, or
    ``change`` for all but ``read``. A write without an error is cut short.
    """

    call: str
    error: int
    times: int = 1
    skip: int = 0
    path: str = ""


class Disk:
    """The disk as an operation sees it, in the watched process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)

    def fail(self, fault: Fault) -> None:
        """Let calls fail from now on."""
        call, path = fault.call.encode(), fault.path.encode()
        self._library.disk_fail(call, path, fault.error, fault.skip, fault.times)

    def work(self) -> None:
        """Let no call fail from now on."""
        self._library.disk_fail(b"", b"", 0, 0, 0)

    def acknowledge(self, *values: Any) -> None:
        """Note what the program was promised; a power cut after this must not lose it."""
        for value in values:
            self._library.disk_note(json.dumps(value).encode())

    def watch(self, folder: str, log: str) -> None:
        """Note calls below a folder, also those of processes that are started from now on."""
        os.environ.update(SIMULATED_DISK=folder, SIMULATED_DISK_LOG=log)
        self._library.disk_watch()


@dataclass(slots=True)
class Recording:
    """What an operation did to its folder."""

    operation: str
    fault: Fault | None
    folder: Path
    calls: list[Call]

    @property
    def acknowledged(self) -> list[Any]:
        """Everything that the program was promised."""
        return [json.loads(call.data) for call in self.calls if call.kind == NOTE]

    def seen(self) -> Counter[tuple[str, str]]:
        """How many calls there were, by their name and by the suffix of the file."""
        return Counter((call.name, posixpath.splitext(call.path)[1]) for call in self.calls)


class SimulatedDisk:
    """Runs operations over the simulated disk; made once for many of them."""

    def __init__(self, library: Path, module: str) -> None:
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "EPOCHAL_GIT": "0",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def record(self, operation: str, folder: Path, *, fault: Fault | None = None) -> Recording:
        """Run an operation in an empty folder; raises AssertionError with what it raised.

        Whatever has a name that begins with that of the folder is deleted first.
        """
        for old in folder.parent.glob(f"{folder.name}*") if folder.parent.exists() else ():
            old.unlink() if old.is_file() else shutil.rmtree(old)
        folder.mkdir(parents=True)
        folder = folder.resolve()
        log = folder.with_name(f"{folder.name}.log")
        task = {"operation": operation, "folder": str(folder), "log": str(log)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({**task, "fault": fault}), file=self._process.stdin, flush=True)
        failed = json.loads(self._process.stdout.readline() or '"the process died"')
        assert not failed, f"{operation} with {fault}: {failed}"
        return Recording(operation, fault, folder, read_calls(log))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def build(target: Path) -> str | None:
    """Build the library; None, or why it cannot be built here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        return "no C compiler makes a preloaded library here"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"the library cannot be built: {done.stderr}"


# -- what is left after a power cut ---------------------------------------------------------------


class _Fate(enum.Enum):
    """What happens to the writes of a file that were not synced."""

    LOST = "all are lost"
    KEPT = "all are there"
    BEGINNING = "the first ones are there, the next one to the border of a sector"
    REORDERED = "of each sector the write is there or not"


@dataclass(slots=True)
class _Change:
    """A write that was not synced, or with ``data`` None a new size."""

    offset: int
    data: bytes | None


@dataclass(slots=True, eq=False)
class _File:
    """What the disk has of a file, and what was written since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def fail_sync(self, chance: random.Random) -> None:
        """The pages count as written from now on, whether they are or not."""
        if chance.random() < 0.25:
            self.sync()
        # A new size is in the journal of the file system.
        for change in self.pending:
            if change.data is None:
                _apply(self.durable, change)
        self.pending.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """The contents that a restarted machine finds."""
        content, sector = bytearray(self.durable), chance.choice(_SECTOR_BYTES)
        fate = chance.choice(list(_Fate))
        if fate is _Fate.LOST or not self.pending:
            return bytes(content)
        num_whole = len(self.pending)
        if fate is _Fate.BEGINNING:
            num_whole = chance.randrange(len(self.pending))
        for change in self.pending[:num_whole]:
            for piece in _sectors(change, sector) if fate is _Fate.REORDERED else [change]:
                if fate is not _Fate.REORDERED or chance.random() < 0.5:
                    _apply(content, piece)
        if fate is _Fate.BEGINNING:
            pieces = list(_sectors(self.pending[num_whole], sector))
            for piece in pieces[: chance.randrange(len(pieces) + 1)]:
                _apply(content, piece)
        if fate is _Fate.REORDERED and chance.random() < 0.5:  # its size was written before
            whole = _File(bytearray(self.durable), list(self.pending))
            whole.sync()
            content.extend(bytes(max(0, len(whole.durable) - len(content))))
        return bytes(content)


def _apply(content: bytearray, change: _Change) -> None:
    if change.data is None:
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


def _sectors(change: _Change, sector: int) -> Iterator[_Change]:
    """The pieces of a write that a disk writes at once."""
    if change.data is None:
        yield change
        return
    begin, end = change.offset, change.offset + len(change.data)
    while begin < end:
        border = min(end, begin - begin % sector + sector)
        yield _Change(begin, change.data[begin - change.offset : border - change.offset])
        begin = border


@dataclass(slots=True, eq=False)
class _Folder:
    """The names in a folder as programs see them."""

    entries: dict[str, _Entry] = field(default_factory=dict)


_Entry = _File | _Folder | str  # the last is a symbolic link


class _Names(NamedTuple):
    """A change of names in one or two folders: what is below each name afterwards.

    ``folders`` are those that have to agree on it: also a folder that is removed, as it is empty
    only after what was changed in it before.
    """

    changes: tuple[tuple[_Folder, str, _Entry | None], ...]
    folders: set[int]
    synced: set[int]  # those of them that were synced since


class _Replay:
    """The files and folders after some calls."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root = str(root)
        self._chance = chance
        self.top = _Folder()
        self._by_inode: dict[int, _File] = {}
        self._names: list[_Names] = []

    def apply(self, call: Call) -> None:
        match call.kind:
            case "o":
                self._open(call)
            case "w":
                self._by_inode[call.inode].pending.append(_Change(call.number, call.data))
            case "t":
                self._by_inode[call.inode].pending.append(_Change(call.number, None))
            case "s" | "e":
                self._sync(call)
            case "a":
                self._sync_all()
            case "r":
                self._rename(call)
            case "l":
                self._set(call.second, self._entry(call.path))
            case "y":
                self._set(call.path, os.fsdecode(call.data))
            case "u":
                self._set(call.path, None)
            case "m":
                self._set(call.path, _Folder())

    def apply_half(self, calls: Sequence[Call]) -> None:
        """Half of what a process was writing when it was killed."""
        for call in calls:
            if call.kind == WRITE and self._chance.random() < 0.5:
                self.apply(call._replace(data=call.data[: len(call.data) // 2]))

    def _open(self, call: Call) -> None:
        if call.number & _CREATES_NAMELESS == _CREATES_NAMELESS:
            self._by_inode[call.inode] = _File()
            return
        folder, name = self._parent(call.path)
        file = self._renamed_unseen(call, folder, name) or folder.entries.get(name)
        if file is None:
            self._set(call.path, file := _File())
        assert isinstance(file, _File), f"{call.path} is no file"
        self._by_inode[call.inode] = file
        if call.number & os.O_TRUNC:
            file.pending.append(_Change(0, None))

    def _renamed_unseen(self, call: Call, folder: _Folder, name: str) -> _File | None:
        """A file that is opened under a name that no call gave it.

        Rust's `tempfile`, which safetensors uses, renames by a system call of its own.
        """
        file = self._by_inode.get(call.inode)
        before = [old for old, entry in folder.entries.items() if entry is file is not None]
        if not before or name in before:
            return None
        old = posixpath.join(posixpath.dirname(call.path), before[0])
        self._rename(call._replace(path=old, second=call.path))
        return file

    def _sync(self, call: Call) -> None:
        if call.number and call.kind == SYNC:  # of a folder
            folder = self._entry(call.path)
            for change in self._names:
                change.synced.update(id(f) for f, _, _ in change.changes if f is folder)
        elif call.kind == SYNC:
            self._by_inode[call.inode].sync()
        elif not call.number:
            self._by_inode[call.inode].fail_sync(self._chance)

    def _sync_all(self) -> None:
        for file in self._by_inode.values():
            file.sync()
        for change in self._names:
            change.synced.update(id(folder) for folder, _, _ in change.changes)

    def _rename(self, call: Call) -> None:
        entry = self._entry(call.path)
        old, new = self._parent(call.path), self._parent(call.second)
        del old[0].entries[old[1]]
        new[0].entries[new[1]] = entry
        folders = {id(old[0]), id(new[0])}
        self._names.append(_Names(((*old, None), (*new, entry)), folders, set()))

    def _set(self, path: str, entry: _Entry | None) -> None:
        folder, name = self._parent(path)
        before = folder.entries.pop(name, None)
        if entry is not None:
            folder.entries[name] = entry
        folders = {id(folder), id(before)} if isinstance(before, _Folder) else {id(folder)}
        self._names.append(_Names(((folder, name, entry),), folders, set()))

    def _parent(self, path: str) -> tuple[_Folder, str]:
        above, name = posixpath.split(path)
        folder = self._entry(above)
        assert isinstance(folder, _Folder), f"{above} is no folder"
        return folder, name

    def _entry(self, path: str) -> _Entry:
        entry: _Entry = self.top
        if path == self._root:
            return entry
        for name in posixpath.relpath(path, self._root).split("/"):
            assert isinstance(entry, _Folder), f"{path} is below a file"
            entry = entry.entries[name]
        return entry

    # -- after the cut --

    def lose_names(self) -> None:
        """Undo changes of names that may be lost: of each folder, all that follow one of them."""
        needed: set[int] = set()
        must_stay: set[int] = set()
        for number in reversed(range(len(self._names))):
            change = self._names[number]
            if change.synced or change.folders & needed:
                needed |= change.folders
                must_stay.add(number)
        ended: set[int] = set()
        emptied = {id(f): f for change in self._names for f, _, _ in change.changes}
        for folder in emptied.values():
            folder.entries.clear()
        chance = self._chance.choice((0.0, 0.1, 0.5, 1.0))
        for number, change in enumerate(self._names):
            is_lost = change.folders & ended or self._chance.random() < chance
            if number not in must_stay and is_lost:
                ended |= change.folders
                continue
            for folder, name, entry in change.changes:
                if entry is None:
                    folder.entries.pop(name, None)
                else:
                    folder.entries[name] = entry

    def write(self, folder: _Folder, target: Path, *, is_cut: bool) -> None:
        target.mkdir()
        written: dict[int, Path] = {}
        self._write(folder, target, written, is_cut)

    def _write(self, folder: _Folder, target: Path, written: dict[int, Path], is_cut: bool) -> None:
        for name, entry in folder.entries.items():
            place = target / name
            if isinstance(entry, str):
                place.symlink_to(entry)
            elif isinstance(entry, _Folder):
                place.mkdir()
                self._write(entry, place, written, is_cut)
            elif id(entry) in written:
                os.link(written[id(entry)], place)
            else:
                if not is_cut:
                    entry.sync()
                place.write_bytes(entry.after_cut(self._chance))
                written[id(entry)] = place


@dataclass(slots=True)
class PowerCut:
    """The folder after a power cut, and what was acknowledged before it.

    Where only the process was killed, nothing is lost that was written.
    """

    folder: Path
    is_kill: bool
    moment: int
    acknowledged: list[Any]
    num_since: int  # calls since something was acknowledged

    def __str__(self) -> str:
        what = "The process was killed" if self.is_kill else "The power was cut"
        return f"{what} after call {self.moment}; acknowledged: {self.acknowledged[-3:]}"


def after_everything(recording: Recording, target: Path) -> None:
    """The folder if everything had been synced, which is the one that the program left."""
    replay = _Replay(recording.folder, random.Random(0))
    for call in recording.calls:
        replay.apply(call)
    replay.write(replay.top, target, is_cut=False)


def power_cut(recording: Recording, seed: str) -> PowerCut:
    """Replace the folder of a recording by what a seed leaves of it."""
    target = recording.folder
    shutil.rmtree(target)
    chance = random.Random(seed)
    moment = _moment(recording.calls, chance)
    is_kill = chance.random() < _KILLS
    calls = recording.calls[:moment]
    replay = _Replay(recording.folder, chance)
    for call in calls:
        if not (is_kill and call.kind == SYNC_FAILED):
            replay.apply(call)
    if is_kill:
        replay.apply_half(recording.calls[moment : moment + 1])
    else:
        replay.lose_names()
    replay.write(replay.top, target, is_cut=not is_kill)
    notes = [number for number, call in enumerate(calls) if call.kind == NOTE]
    done = [json.loads(calls[number].data) for number in notes]
    return PowerCut(target, is_kill, moment, done, moment - 1 - (notes or [-1])[-1])


def _moment(calls: Sequence[Call], chance: random.Random) -> int:
    """After the preparation: often right after something was acknowledged, or at the end."""
    begin = max((n for n, call in enumerate(calls) if call.kind == SYNC_ALL), default=-1) + 1
    notes = [number + 1 for number, call in enumerate(calls) if call.kind == NOTE]
    anywhere = chance.randrange(begin, len(calls) + 1)
    return chance.choice([*([chance.choice(notes)] if notes else []), anywhere, len(calls)])
