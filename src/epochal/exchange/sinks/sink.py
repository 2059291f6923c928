"""The protocol of a sink: it receives the records of a run in order, each once.

A sink runs outside the training process. ``forward.py`` opens it with the facts of the run and its
last state, passes the records, and closes it with the status of the run. ``sinks.json`` in the
run's folder stores its state and position. A sink that failed is discarded, and a new one is opened
from the last state.

    holds            what its target can hold; other records are skipped, counted and reported
    labels           what its target gets of configuration, group, job type, tags and notes
    open(context)    start, or continue from ``context.state``; False: send everything again
    write(entry)     send or collect one record; after a crash the same records may come again
    flush()          send what was collected, durably; returns the state to continue from
    close(status)    the run ended with this status (None: unknown, or not yet); returns the state

Any method may raise or be slow: other sinks and the training continue. A record for which ``write``
raises is skipped, counted and reported as well, unless the error may pass (``may_pass``): then the
records since the last ``flush`` are sent again by a new sink. A new sink is one file in
``members/`` with its options, and its test ``tests/exchange/sinks/test_<name>.py``, whose
``MEMBER`` tells the conformance test how to read back what was sent. The training
process loads the sink's file to check options, so a sink imports its tracker in ``open``.
"""

from __future__ import annotations

import errno
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from epochal.errors import EpochalError
from epochal.journal.blobs import blob_bytes, store_blob
from epochal.journal.layout import RunFolder
from epochal.records import KINDS, Position, Record, finite, moment_of

# The kinds of which trackers get the numbers, as entries of ``Sink.holds``.
NUMBERS = tuple(
    kind.name
    for kind in KINDS.values()
    if any(one.series or any(inner.series for inner in one.fields) for one in kind.fields)
)
# How a run began, went on and ended: every sink gets these, and none of them is reported.
BOOKKEEPING = frozenset({"run", "resume", "finish", "heartbeat"})
# What a person says about a run in ``init``; the entries of ``Sink.labels``.
LABELS = ("config", "group", "job_type", "tags", "notes")


class SinkUnavailableError(EpochalError):
    """A sink cannot be used as things are: trying again will not help."""


class SinkBusyError(EpochalError):
    """Another process is sending this run to the same sink."""


class NotHeldError(EpochalError):
    """The target can hold such records, but not this one."""


class FileMissingError(EpochalError):
    """A record names a file that is not in the run's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a sink: one field per option, declared with :func:`option`.

    The names are flat, as people write them in a configuration file (``wandb_project``).
    """


def option(
    meaning: str, *, is_path: bool = False, may_be_count: bool = False, starts_sink: bool = False
) -> Any:
    """A field of :class:`SinkOptions`, a text that is None until it is given.

    ``meaning`` goes into the guide: what the option sets, then what applies without it. A path is
    made absolute when it is read. A count may be given as a whole number and becomes a text. An
    option that starts its sink needs no ``report_to``.
    """
    marks = {"meaning": meaning, "is_path": is_path, "starts_sink": starts_sink}
    marks["may_be_count"] = may_be_count
    return field(default=None, metadata=marks)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record on its way out, with what a sink would otherwise have to remember.

    ``step`` is the record's own, else the last one of the training; of an epoch, its number.
    ``node`` names the machine of telemetry that is not rank 0's.
    """

    position: Position
    record: Record
    step: int
    node: str | None = None

    @property
    def kind(self) -> str:
        """The kind of the record."""
        return str(self.record["log"])

    @property
    def content(self) -> str:
        """What ``Sink.holds`` calls the record: its kind, with a file's type or an event's name."""
        if self.kind in ("blob", "file"):
            return f"{self.kind}:{self.record.get('media_type')}"
        if self.kind == "event":
            return f"event:{self.record.get('name')}"
        # A kind that is not declared is held where its numbers are.
        return "metrics" if "m" in self.record and self.kind not in KINDS else self.kind

    @property
    def t(self) -> float:
        """When it was logged, in Unix seconds."""
        return moment_of(self.record)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What a sink is opened with; ``identity`` is the run's ``run.json``.

    ``is_live`` says that the companion sends the run beside its training. A live sink may leave
    out what is less important. If its state then has ``left_out``, ``epochal sync`` opens it even
    when nothing is new.
    """

    folder: RunFolder
    identity: Mapping[str, Any]
    options: Any
    state: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = False

    @property
    def config(self) -> dict[str, Any]:
        """The run's configuration."""
        config = self.identity.get("config")
        return dict(config) if isinstance(config, Mapping) else {}

    @property
    def created(self) -> float:
        """When the run was made, in Unix seconds; 0 where that is not known."""
        return finite(self.identity.get("created")) or 0.0

    def file(self, record: Mapping[str, Any]) -> Path:
        """The file of a sample; pixels are encoded first. Raises ``FileMissingError``."""
        path = self.folder.blobs / Path(str(record.get("file"))).name
        if not path.is_file():
            try:
                store_blob(self.folder, path.name, blob_bytes(self.folder, path.name))
            except FileNotFoundError as error:
                raise FileMissingError(f"{path} does not exist.") from error
        return path

    def table(
        self, record: Mapping[str, Any], sample: Callable[[Mapping[str, Any]], Any]
    ) -> tuple[list[str], list[list[Any]]]:
        """The columns and rows of a table; ``sample`` turns a sample in a cell into a value."""
        table = json.loads(self.file(record).read_bytes())
        rows = [
            [sample(cell) if isinstance(cell, dict) and "file" in cell else cell for cell in row]
            for row in table["data"]
        ]
        return table["columns"], rows

    def fact(self, name: str, otherwise: str) -> str:
        """A text of the run's identity."""
        value = self.identity.get(name)
        return value if isinstance(value, str) and value else otherwise


class Sink(ABC):
    """Something that takes a run's records; used by one thread at a time.

    ``name`` is what ``report_to`` takes. ``summary`` says in the guide what the target gets.
    ``extra`` is the extra of Epochal that installs the tracker's package. ``holds`` lists what the
    target can hold, as ``Entry.content`` names it; ``*`` stands for any text. ``labels`` lists what
    it gets of ``LABELS``. What neither of them lists is reported as not sent.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    options: ClassVar[type[SinkOptions]] = SinkOptions
    extra: ClassVar[str | None] = None
    holds: ClassVar[tuple[str, ...]] = ("*",)
    labels: ClassVar[tuple[str, ...]] = LABELS

    @abstractmethod
    def open(self, context: SinkContext) -> bool:
        """Start, or continue after what was sent before.

        Returns False when the target lost earlier records, so everything is sent again. A sink
        that cannot know returns True.
        """

    @abstractmethod
    def write(self, entry: Entry) -> None:
        """Send a record, or collect it for ``flush``; raises if the target rejects it."""

    def may_pass(self, error: Exception) -> bool:
        """Whether the same record may be accepted later: the network or the disk failed."""
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        # Pillow raises OSError without a number for a file that is no image. The errors of
        # requests have no number either, and no response while there is no connection.
        has_no_answer = getattr(error, "response", error) is None
        is_for_good = getattr(error, "errno", None) in (None, errno.ENAMETOOLONG)
        return isinstance(error, OSError) and (not is_for_good or has_no_answer)

    @abstractmethod
    def flush(self) -> dict[str, Any]:
        """Send what was collected, durably; returns the state for the next ``open``."""

    @abstractmethod
    def close(self, status: str | None) -> dict[str, Any]:
        """End; ``status`` as in the run's ``finish`` record. The state, as ``flush`` gives it.

        What was collected since the last ``flush`` is dropped: it is sent again.
        """


class FileSink(Sink):
    """A sink whose target is one file, which is complete after each ``flush``."""

    _file: Any = None

    def close(self, status: str | None) -> dict[str, Any]:
        if self._file is None:
            return {}
        state = self.flush()
        self._file.close()
        self._file = None
        return state


@lru_cache(1024)
def is_held(holds: tuple[str, ...], content: str) -> bool:
    """Whether a list of contents has this one."""
    return content in BOOKKEEPING or any(fnmatchcase(content, pattern) for pattern in holds)


def require(package: str, sink: Sink) -> Any:
    """Import the package of a sink's tracker; raises with the command that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise SinkUnavailableError(
            f"{sink.name!r} needs the package {package!r}, which cannot be imported ({error}): "
            f"pip install 'epochal[{sink.extra}]'."
        ) from error
