"""Runs in text files, which are read as they grow and named after their files."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar

from epochal.exchange.imports.foreign import FileRun, Files, Identity, R, stable_id
from epochal.exchange.imports.values import plain_number, sort_values, unix_seconds
from epochal.journal.regular_file import regular_only
from epochal.records import Record

# Converts rows of names and values to records.
#
# A row with ``log`` is a record of Epochal, or of a ``training.json``. Any other row is metrics.
# The step and the time are found by their usual names. Rows with epochs and no steps become
# epochs. Every other number is a metric of its own name.

STEP_NAMES = ("step", "_step", "global_step", "steps", "iteration", "iter", "train_step", "it")
TIME_NAMES = ("t", "time", "timestamp", "_timestamp", "wall_time", "wall time", "ts", "datetime")
EPOCH_NAMES = ("epoch",)
# What a row says it is when it holds the configuration of the run.
_CONFIG_TYPES = frozenset({"config", "hparams", "args", "hyperparameters"})
_MAX_FLOAT_STEP = 2**53


class RowReader:
    """Converts rows to records, one by one; ``t`` is for rows without a time."""

    def __init__(self, *, t: float) -> None:
        self._t = t
        self._step = -1
        self._epoch_shift: int | None = None
        self._texts: dict[str, str] = {}

    def records(self, row: Mapping[str, Any]) -> Iterator[Record]:
        """The records of one row."""
        if isinstance(row.get("log"), str):
            yield self._logged(row)
        elif row.get("type") in _CONFIG_TYPES:
            for name, value in row.items():
                if name != "type":
                    yield {"log": "option", "t": self._t, "name": name, "value": value}
        else:
            yield from self._metrics(dict(row))

    def _logged(self, row: Mapping[str, Any]) -> Record:
        t = unix_seconds(row.get("t", row.get("time")))
        self._t = self._t if t is None else t
        rest = {key: value for key, value in row.items() if key not in ("log", "t", "time")}
        return {"log": row["log"], "t": self._t, **rest}

    def _metrics(self, row: dict[str, Any]) -> Iterator[Record]:
        self._t = self._pop_time(row)
        step = whole(_pop(row, STEP_NAMES))
        at: Record
        if step is None and (epoch := self._pop_epoch(row)) is not None:
            at = {"epoch": epoch}
            duration = plain_number(row.pop("duration_s", None))
            if duration is not None:
                at["duration_s"] = duration
        else:
            self._step = self._step + 1 if step is None else step
            at = {"step": self._step}
        found = sort_values(row)
        if found.numbers:
            kind = "epoch" if "epoch" in at else "metrics"
            yield {"log": kind, "t": self._t, **at, "m": found.numbers}
        for name, text in found.texts.items():
            if self._texts.get(name) != text:
                self._texts[name] = text
                step = at.get("step", at.get("epoch"))
                yield {"log": "text", "t": self._t, "step": step, "name": name, "text": text}

    def _pop_time(self, row: dict[str, Any]) -> float:
        for name in list(row):
            if name.lower() in TIME_NAMES:
                t = unix_seconds(row[name])
                # Seconds since the start are a metric: no run was recorded in 1970.
                if t is not None and t > 1e8:
                    del row[name]
                    return t
        return self._t

    def _pop_epoch(self, row: dict[str, Any]) -> int | None:
        """The number of completed epochs: some count from 0, ours from 1."""
        name = next((name for name in row if name.lower() in EPOCH_NAMES), None)
        epoch = None if name is None else whole(row[name])
        if name is None or epoch is None:
            return None
        del row[name]
        if self._epoch_shift is None:
            self._epoch_shift = int(epoch == 0)
        return epoch + self._epoch_shift


def whole(value: Any) -> int | None:
    """A whole number of 64 bits; 3.0 is one."""
    number = plain_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < _MAX_FLOAT_STEP else None
    return number


def _pop(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Remove the first column of these names from a row, if it is a whole number."""
    lower = {name.lower(): name for name in row}
    for name in names:
        if name in lower and whole(row[lower[name]]) is not None:
            return row.pop(lower[name])
    return None


# A last line without a newline is taken as complete when nothing was written for so long.
_SETTLED_S = 5.0
# Names that say nothing about a run: its folder's name is taken instead.
_GENERIC = frozenset({"training", "metrics", "log", "logs", "history", "results", "train", "data"})


class TextFileRun(FileRun, ABC):
    """A run whose records are the rows of one text file; ``offset`` is how far it was read."""

    kind: ClassVar[str]

    def __init__(self, path: Path, key: str | None = None) -> None:
        super().__init__(path, key or f"{path.parent.name}/{path.name}")

    def rewind(self) -> None:
        super().rewind()
        self.offset = 0
        self._rows = RowReader(t=self.changed)

    @property
    def identity(self) -> Identity:
        """Named after the file, or after its folder where the file has a name of no use."""
        return self._named("")

    def _named(self, key: str) -> Identity:
        own, folder = self.path.stem, self.path.parent
        if own.lower() in _GENERIC and folder.name:
            own, folder = folder.name, folder.parent
        return Identity(
            id=stable_id(self.kind, self.path, key),
            name=key or own,
            project=folder.name or "imported",
            facts={"source": str(self.path)},
        )

    def _new_records(self) -> Iterator[Record]:
        for row in self._objects():
            yield from self._rows.records(row)

    @abstractmethod
    def _objects(self) -> Iterator[dict[str, Any]]:
        """The whole rows that follow the offset, which it moves; says what is damaged."""

    def _read_rest(self) -> bytes:
        """What follows the offset; nothing, and a problem, when the file cannot be read."""
        try:
            with open(self.path, "rb", opener=regular_only) as file:
                size = os.fstat(file.fileno()).st_size
                if size < self.offset:
                    self._said.say_shorter(self.offset)
                    self.offset = size
                file.seek(self.offset)
                return file.read()
        except OSError as error:
            self._said.say(f"{self.path} cannot be read: {error.strerror or error}.")
            return b""

    @property
    def changed(self) -> float:
        """When the file was last written to, in Unix seconds; 0 when that is unknown."""
        try:
            return float(self.path.stat().st_mtime)
        except OSError:
            return 0.0

    @property
    def is_settled(self) -> bool:
        """Whether nothing was written to it for some seconds."""
        return time.time() - self.changed > _SETTLED_S


class TextFiles(Files[R]):
    """Text files of one format, which have these suffixes and whose beginning shows it."""

    suffixes: ClassVar[Set[str]]
    peek_bytes: ClassVar[int] = 64 * 1024

    def files(self) -> Sequence[Path]:
        found = [file for file in super().files() if file.suffix.lower() in self.suffixes]
        return [file for file in found if self.is_ours(beginning(file, self.peek_bytes))]

    @staticmethod
    @abstractmethod
    def is_ours(start: bytes) -> bool:
        """Whether a file that begins so has the format."""


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    with open(path, "rb", opener=regular_only) as file:
        return file.read(size)
