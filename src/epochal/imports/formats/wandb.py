"""W&B offline runs: the ``run-<id>.wandb`` log that every run writes, whole or torn.

History, configuration, system statistics, console output, alerts and the exit come from the log;
images and other media from the ``files`` folder beside it. A resumed run has a log for each
session. The later ones are separate runs, with the number of the log as a suffix of the id.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import FormatError
from epochal.imports import protobuf
from epochal.imports import wandb_log as wb
from epochal.imports.foreign import (
    Batch,
    FileSignature,
    Identity,
    batches_of,
    file_signature,
    stable_id,
)
from epochal.imports.protobuf import Field, WireError
from epochal.imports.values import Sorted, json_safe, plain_number, sort_values, unix_seconds
from epochal.imports.wandb_log import FILE_HEADER_BYTES, MAGIC, LogFile, media_records
from epochal.journal.layout import read_json
from epochal.journal.regular_file import read_regular, regular_only
from epochal.journal.search_bounds import SearchBounds
from epochal.records import Record

# First: a W&B folder may hold event files of TensorBoard.
ORDER = 10
_PLACES = ("*.wandb", "*/*.wandb", "wandb/*/*.wandb")
_OWN = "_wandb"
_GOALS = {1: "min", 2: "max"}


def find(path: Path, bounds: SearchBounds | None = None) -> WandbFolder | None:
    """The runs of a ``wandb`` folder, of the folder above it, of a run's folder or of one log."""
    if path.is_file():
        with open(path, "rb", opener=regular_only) as file:
            start = file.read(FILE_HEADER_BYTES)
        if not start.startswith(MAGIC):
            return None if path.suffix != ".wandb" or start else WandbFolder(path)
        return WandbFolder(path)
    return WandbFolder(path, bounds) if _logs(path, bounds) else None


class WandbFolder:
    """A folder with W&B logs."""

    label = "W&B"

    def __init__(self, path: Path, bounds: SearchBounds | None = None) -> None:
        self.path = path
        self._bounds = bounds
        self._runs: dict[Path, WandbRun] = {}

    def runs(self) -> Sequence[WandbRun]:
        """Every log there is, a run each."""
        logs = [self.path] if self.path.is_file() else _logs(self.path, self._bounds)
        self._runs = {log: self._runs.get(log) or WandbRun(log) for log in logs}
        seen: Counter[str] = Counter()
        for log, run in self._runs.items():
            seen[log.name] += 1
            run.number = seen[log.name]
        return list(self._runs.values())


class WandbRun:
    """One run's log."""

    def __init__(self, path: Path) -> None:
        self.key = f"{path.parent.name}/{path.name}"
        self.number = 1
        self.path = path
        self.rewind()

    def rewind(self) -> None:
        """Begin at the first record again."""
        self._log = LogFile(self.path)
        self._identity: Identity | None = None
        # Time of the last row of history, and of the last record of any kind.
        self._t = self._latest = 0.0
        self._step = 0
        self._blobs: dict[str, Path] = {}
        self._summary: dict[str, Any] = {}
        self._logged: set[str] = set()
        self._unfinished: dict[str, str] = {}
        self._faults: list[str] = []

    @property
    def problems(self) -> Sequence[str]:
        """Places of the log that are damaged."""
        return [*self._log.problems, *self._faults]

    def signature(self) -> FileSignature:
        """Size and time of the log."""
        return file_signature(self.path)

    @property
    def identity(self) -> Identity:
        """The run's own header; names of files if the log is empty."""
        if self._identity is not None:
            return self._identity
        try:
            for _, data in LogFile(self.path).read():
                part = _kind(data)
                if part is not None and part.tag == wb.RUN:
                    self._identity = self._read_identity(data, part)
                    return self._identity
        except (OSError, WireError):
            pass  # reading the run itself says what is wrong
        name = self.path.stem.removeprefix("run-")
        return Identity(id=stable_id("wandb", self.path), name=name, project="wandb")

    def read_new(self) -> Iterator[Batch]:
        """What was written to the log since."""
        return batches_of(self._new_records())

    def _new_records(self) -> Iterator[Record]:
        try:
            for place, data in self._log.read():
                try:
                    yield from self._records(data)
                except WireError as error:
                    self._faults.append(f"{self.path} is damaged at byte {place}: {error}.")
        except OSError as error:
            self._faults.append(f"{self.path} cannot be read: {error.strerror or error}.")

    def blob(self, file: str) -> bytes:
        """The bytes of a media file."""
        return read_regular(self._blobs[file])

    # -- what the records become ------------------------------------------------------------------

    def _records(self, data: bytes) -> Iterator[Record]:
        part = wb.kind_of(data)
        if part is None:
            return
        if part.tag == wb.HISTORY:
            yield from self._history(data, part)
        elif part.tag == wb.SUMMARY:
            self._summary.update(wb.items_of(data, part, tag=1))
        elif part.tag == wb.STATS:
            yield from self._stats(data, part)
        elif part.tag in (wb.OUTPUT, wb.OUTPUT_RAW):
            yield from self._output(data, part)
        elif part.tag == wb.CONFIG:
            for key, value in wb.items_of(data, part, tag=1).items():
                if key != _OWN:
                    yield {"log": "option", "t": self._t, "name": key, "value": json_safe(value)}
        elif part.tag == wb.METRIC:
            yield from self._definition(data, part)
        elif part.tag == wb.ALERT:
            yield self._alert(data, part)
        elif part.tag == wb.PREEMPTING:
            yield {"log": "event", "t": self._t, "name": "preempting"}
        elif part.tag == wb.RUN:
            self._t = self._t or self.identity.created or 0.0
        elif part.tag == wb.EXIT:
            yield from self._exit(data, part)

    def _history(self, data: bytes, part: Field) -> Iterator[Record]:
        row = wb.items_of(data, part, tag=1)
        parts = protobuf.by_tag(data, part)
        if 2 in parts:
            number = next(
                (f.number for f in protobuf.fields(data, parts[2].start, parts[2].end)), 0
            )
            self._step = protobuf.signed(number)
        elif isinstance(step := row.get("_step"), int):
            self._step = step
        self._t = unix_seconds(row.get("_timestamp")) or self._t
        for name in ("_step", "_timestamp", "_runtime", _OWN):
            row.pop(name, None)
        found = sort_values(row, type_key="_type")
        if found.numbers:
            self._logged.update(found.numbers)
            yield {"log": "metrics", "t": self._t, "step": self._step, "m": found.numbers}
        yield from self._others(found)

    def _others(self, found: Sorted) -> Iterator[Record]:
        at: Record = {"t": self._t, "step": self._step}
        for name, text in found.texts.items():
            yield {"log": "text", **at, "name": name, "text": text}
        files = self.path.parent / "files"
        for name, value in found.objects.items():
            for record, path in media_records(name, value, files, t=self._t, step=self._step):
                if path is not None:
                    self._blobs.setdefault(record["file"], path)
                yield record

    def _stats(self, data: bytes, part: Field) -> Iterator[Record]:
        parts = protobuf.by_tag(data, part)
        t = wb.time_at(data, parts, 2) or self._t
        self._latest = max(self._latest, t)
        numbers = {
            f"system/{key}": number
            for key, value in wb.items_of(data, part, tag=3).items()
            if (number := plain_number(value)) is not None
        }
        if numbers:
            yield {"log": "system", "t": t, "m": numbers}

    def _output(self, data: bytes, part: Field) -> Iterator[Record]:
        """Whole lines; what comes before a newline waits for it."""
        parts = protobuf.by_tag(data, part)
        stream = "stdout" if 1 in parts and parts[1].number == 1 else "stderr"
        t = wb.time_at(data, parts, 2) or self._t
        self._latest = max(self._latest, t)
        text = self._unfinished.get(stream, "") + (wb.text_at(data, parts, 3) or "")
        *lines, self._unfinished[stream] = text.split("\n")
        for line in lines:
            yield {"log": "message", "t": t, "level": stream, "text": line}

    def _definition(self, data: bytes, part: Field) -> Iterator[Record]:
        parts = protobuf.by_tag(data, part)
        name = wb.text_at(data, parts, 1) or wb.text_at(data, parts, 2)
        if name is None:
            return
        record: Record = {"log": "define", "t": self._t, "name": name}
        goal = _GOALS.get(parts[8].number if 8 in parts else 0)
        for key, word in (("goal", goal), ("x", wb.text_at(data, parts, 4))):
            if word is not None:
                record[key] = word
        yield record

    def _alert(self, data: bytes, part: Field) -> Record:
        parts = protobuf.by_tag(data, part)
        record: Record = {"log": "event", "t": self._t, "name": "alert", "step": self._step}
        for key, tag in (("title", 1), ("text", 2), ("level", 3)):
            if (word := wb.text_at(data, parts, tag)) is not None:
                record[key] = word
        return record

    def _exit(self, data: bytes, part: Field) -> Iterator[Record]:
        t = max(self._t, self._latest)
        for stream, text in self._unfinished.items():
            if text:
                yield {"log": "message", "t": t, "level": stream, "text": text}
        self._unfinished.clear()
        own = {
            key: json_safe(value)
            for key, value in self._summary.items()
            if not key.startswith("_") and key not in self._logged and not isinstance(value, dict)
        }
        for name, value in own.items():
            yield {"log": "summary", "t": t, "name": name, "value": value}
        parts = protobuf.by_tag(data, part)
        code = protobuf.signed(parts[1].number) if 1 in parts else 0
        finish: Record = {"log": "finish", "t": t, "status": "failed" if code else "finished"}
        if code:
            finish["reason"] = f"exit code {code}"
        yield {**finish, "last_step": self._step}

    def _read_identity(self, data: bytes, part: Field) -> Identity:
        parts = protobuf.by_tag(data, part)
        config = {}
        if 4 in parts:
            items = wb.items_of(data, parts[4], tag=1)
            config = {key: json_safe(value) for key, value in items.items() if key != _OWN}
        facts: dict[str, Any] = {"source": str(self.path)}
        named = (("entity", 2), ("group", 6), ("job_type", 7), ("sweep", 12), ("host", 13))
        facts |= {key: text for key, tag in named if (text := wb.text_at(data, parts, tag))}
        facts |= _metadata(self.path.parent / "files" / "wandb-metadata.json")
        run_id = wb.text_at(data, parts, 1)
        again = f"-{self.number}" if self.number > 1 else ""
        tags = [f for f in protobuf.fields(data, part.start, part.end) if f.tag == 10]
        return Identity(
            id=f"{run_id}{again}" if run_id else stable_id("wandb", self.path),
            name=f"{wb.text_at(data, parts, 8) or run_id or self.path.stem}{again}",
            project=wb.text_at(data, parts, 3) or "wandb",
            created=wb.time_at(data, parts, 17),
            config=config,
            tags=tuple(protobuf.text(data, tag) for tag in tags),
            notes=wb.text_at(data, parts, 9),
            facts=facts,
        )


def _kind(data: bytes) -> Field | None:
    try:
        return wb.kind_of(data)
    except WireError:
        return None


def _metadata(path: Path) -> Mapping[str, Any]:
    """What the client noted about machine, command and code."""
    try:
        return {"metadata": read_json(path)}
    except (OSError, FormatError):
        return {}


def _logs(folder: Path, bounds: SearchBounds | None) -> list[Path]:
    """Every log below a folder, each once: ``latest-run`` is a link to one of them."""
    found = {Path(os.path.realpath(log)) for place in _PLACES for log in folder.glob(place)}
    allowed = (bounds or SearchBounds(folder)).chosen(found)
    return sorted(path for path in allowed if path.is_file())
