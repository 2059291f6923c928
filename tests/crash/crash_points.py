"""Runs an operation again and again, with a fault at its first, second, … n-th file-system call.

Each time the operation runs in a forked child over a fresh copy of its folder. The test then opens
that folder as a restarted process would, and compares what it finds with what was acknowledged.

Calls that change files or wait for the disk are counted. Files that Python writes are written with
``os.write``, as the interpreter itself does. A statement of SQLite, a write of pyarrow and a
file of safetensors count as one call each. ``simulated_disk.py`` sees what they do inside.
"""

from __future__ import annotations

import _pyio  # type: ignore[import-not-found]
import enum
import errno
import gc
import itertools
import json
import os
import pathlib
import shutil
import sqlite3
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from epochal.errors import EpochalError

Result = TypeVar("Result")
# A module or class, the name of a function in it, and the id of that function.
_Reference = tuple[Any, str, int]

_CHANGES = (
    *("open", "write", "pwrite", "fsync", "fdatasync", "truncate", "ftruncate"),
    *("replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "rmdir"),
)
_WRITES = ("write", "pwrite")
_OPENED_TO_CHANGE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_OPEN = open
_STANDARD_MODULES = ("builtins", "io", "os", "pathlib", "shutil", "sqlite3", "tempfile")


class Fault(enum.Enum):
    """What happens at the n-th call; at ``TORN`` only writes are counted."""

    EXIT = "the process ends before"
    TORN = "the process ends after half of"
    FULL = "the disk is full at"
    BROKEN = "the disk fails at"


@dataclass(slots=True, repr=False)
class Crash:
    """One try: where its fault was, and what the operation had acknowledged."""

    folder: Path
    fault: Fault
    number: int
    call: str | None = None
    acknowledged: list[Any] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the operation had fewer calls, and ended without a fault."""
        return self.call is None

    def __repr__(self) -> str:
        where = "there was no fault" if self.call is None else f"{self.fault.value} {self.call}"
        return f"call {self.number}: {where}; acknowledged: {self.acknowledged}; {self.folder}"


class Child:
    """The process in which an operation runs."""

    def __init__(self, crash: Crash, pipe: int, references: Sequence[_Reference]) -> None:
        gc.disable()  # it would copy all memory that the child shares with the test
        self._fault, self._number, self._pipe = crash.fault, crash.number, pipe
        self._write = os.write
        self._is_counting = False
        self._num_calls = 0
        self._count_calls(references)

    @property
    def tries(self) -> int:
        """How often a call is tried: after ``BROKEN``, another process goes on."""
        return 2 if self._fault is Fault.FULL else 1

    def attempt(self, call: Callable[[], Result]) -> Result:
        """What a call returns whose file-system calls are counted.

        It is tried again after the disk was full, as if there were space by then.
        """
        for left in reversed(range(self.tries)):
            self._is_counting = True
            try:
                return call()
            except (OSError, EpochalError, sqlite3.Error):
                if self._number or (self._fault is Fault.FULL and not left):
                    raise  # there was no fault yet, or there is space again
                if not left:
                    os._exit(0)
            finally:
                self._is_counting = False
        raise AssertionError("unreachable")

    def acknowledge(self, *values: Any) -> None:
        """Tell the test that the caller has this answer."""
        self._tell({"acknowledged": values})

    def __enter__(self) -> Child:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> NoReturn:
        if error is not None:
            self._tell({"failed": "".join(traceback.format_exception(error))})
        os._exit(0)

    def _tell(self, message: Any) -> None:
        self._write(self._pipe, json.dumps(message).encode() + b"\n")

    def _count_calls(self, references: Sequence[_Reference]) -> None:
        """Put a counting function wherever there is a reference to the original."""
        counted = {name: self._counted(name) for name in _CHANGES if hasattr(os, name)}
        replaced = {id(getattr(os, name)): function for name, function in counted.items()}
        replaced |= {id(open): _open, id(sqlite3.connect): self._connect}
        for space, name, original in references:
            setattr(space, name, replaced[original])
        if "pyarrow.parquet" in sys.modules:
            writer = sys.modules["pyarrow.parquet"].ParquetWriter
            for name in ("__init__", "write_table", "close"):
                setattr(writer, name, self._counted_native(getattr(writer, name)))
        if "epochal.torch.checkpoint.file" in sys.modules:
            module: Any = sys.modules["epochal.torch.checkpoint.file"]
            module.save_file = self._counted_native(module.save_file)

    def _counted(self, name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def counted(*args: Any, **named: Any) -> Any:
            if name in _WRITES:
                file, data, *place = args
                self._pass(f"os.{name}", lambda: call(file, data[: len(data) // 2], *place))
            elif name != "open" or args[1] & _OPENED_TO_CHANGE:
                self._pass(f"os.{name}{args}")
            return call(*args, **named)

        return counted

    def _counted_native(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self._pass(call.__qualname__)
            return call(*args, **named)

        return counted

    def _connect(self, *args: Any, **named: Any) -> sqlite3.Connection:
        return _Connection(*args, **named, check=self._check_statement)

    def _check_statement(self, statement: str) -> None:
        if not statement.lower().startswith("select"):
            try:
                self._pass(f"the statement {statement!r}")
            except OSError as error:
                raise sqlite3.OperationalError(str(error)) from None

    def _pass(self, call: str, half: Callable[[], object] | None = None) -> None:
        """Count a call; the n-th has the fault. ``half`` does half of a write."""
        if not self._is_counting or (self._fault is Fault.TORN and half is None):
            return
        self._num_calls += 1
        if self._num_calls != self._number:
            return
        self._number = 0
        self._tell({"call": call})
        if half is not None and self._fault in (Fault.TORN, Fault.FULL):
            half()
        if self._fault in (Fault.EXIT, Fault.TORN):
            os._exit(0)
        code = errno.ENOSPC if self._fault is Fault.FULL else errno.EIO
        raise OSError(code, os.strerror(code))


class _Connection(sqlite3.Connection):
    """Statements by whichever way are statements of a cursor that is checked."""

    def __init__(self, *args: Any, check: Callable[[str], None], **named: Any) -> None:
        super().__init__(*args, **named)
        self.check = check

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_Cursor)

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        return self.cursor().executescript(*args)

    def commit(self) -> None:
        self.check("commit")
        super().commit()


class _Cursor(sqlite3.Cursor):
    connection: _Connection

    def execute(self, *args: Any) -> Any:
        self.connection.check(args[0])
        return super().execute(*args)

    def executemany(self, *args: Any) -> Any:
        self.connection.check(args[0])
        return super().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        self.connection.check(args[0])
        return super().executescript(*args)


def _open(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
    """Open a file; one that is written is an object in Python, which calls ``os.write``."""
    opened = _pyio.open if set(mode) & set("wax+") else _OPEN
    return opened(file, mode, *args, **named)


def _references() -> list[_Reference]:
    """Where Epochal and the standard library have functions that are counted."""
    originals = [getattr(os, name) for name in _CHANGES if hasattr(os, name)]
    wanted = {id(original) for original in (*originals, open, sqlite3.connect)}
    spaces: list[Any] = [
        module
        for name, module in list(sys.modules.items())
        if name in _STANDARD_MODULES or name.partition(".")[0] == "epochal"
    ]
    if hasattr(pathlib, "_NormalAccessor"):  # Python 3.10 has further references there
        spaces.append(pathlib._NormalAccessor)
    return [
        (space, name, id(value))
        for space in spaces
        for name, value in vars(space).items()
        if id(value) in wanted
    ]


def crashes(
    original: Path, operation: Callable[[Path, Child], object], *, every: int = 1
) -> Iterator[Crash]:
    """Yield the folder as each fault left it, and at last as the operation leaves it without one.

    ``operation`` gets a copy of the folder ``original`` that it may change. With ``every=5``, only
    every fifth call has a fault.
    """
    references = _references()
    for fault in Fault:
        for number in itertools.count(every, every):  # ends at the first one without a fault
            folder = original.with_name(f"{original.name}-{fault.name.lower()}-{number}")
            shutil.copytree(original, folder)
            crash = Crash(folder, fault, number)
            _run(crash, operation, references)
            yield crash
            shutil.rmtree(folder)
            if crash.is_complete:
                break


def _run(
    crash: Crash, operation: Callable[[Path, Child], object], references: Sequence[_Reference]
) -> None:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child needs no other thread
        child = os.fork()
    if child == 0:
        with Child(crash, writing, references) as process:
            operation(crash.folder, process)
    os.close(writing)
    with open(reading, "rb") as pipe:
        messages = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the process of the operation died: {crash}"
    for message in messages:
        crash.call = message.get("call", crash.call)
        crash.acknowledged += message.get("acknowledged", ())
    failed = [message["failed"] for message in messages if "failed" in message]
    assert not failed, f"{crash}\n{failed[0]}"
