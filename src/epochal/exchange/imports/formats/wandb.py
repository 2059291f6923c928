"""W&B offline runs: the ``run-<id>.wandb`` log that every run writes, whole or torn.

History, configuration, system statistics, console output, alerts and the exit come from the log;
images and other media from the ``files`` folder beside it. A resumed run has a log for each
session, and a run in shared mode one for each writer. The later ones are separate runs, with the
number of the log as a suffix of the id.

W&B counts rows, and programs log their step as a metric that ``define_metric`` makes the axis of
others. Such a metric is the step of the imported run (``_step_axis``).
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

from epochal.errors import FormatError
from epochal.exchange.imports.foreign import FileRun, Files, Identity, Problems, stable_id
from epochal.exchange.imports.media import MediaReader
from epochal.exchange.imports.protobuf import Field, WireError, message
from epochal.exchange.imports.values import json_safe, json_value, plain_number, unix_seconds
from epochal.journal.layout import read_json
from epochal.journal.regular_file import regular_only
from epochal.records import Record
from epochal.records.values import is_step_name, whole_step

MAGIC = b":W&B"
FILE_HEADER_BYTES = 7
_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_READ_BYTES = 128 * _BLOCK


class LogFile:
    """One log; ``offset`` is where the next record begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = FILE_HEADER_BYTES
        self.problems = Problems(path)
        # After damage, chunks of the record that was lost are passed over in silence.
        self._is_lost = False

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Every whole record since the last reading, each with the place it begins at.

        A record cut at the end of the file is left for the next call. Raises ``OSError``.
        """
        with open(self.path, "rb", opener=regular_only) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self.offset and size >= FILE_HEADER_BYTES:
                self.problems.say_shorter(self.offset)
                self.offset = size
            place, begun, parts = self.offset, self.offset, list[bytes]()
            buffer, base = b"", place
            while place < size:
                room = _BLOCK - place % _BLOCK
                if room < _HEADER.size:
                    place += room
                    continue
                if place + min(room, size - place) > base + len(buffer):
                    file.seek(place)
                    buffer, base = file.read(_READ_BYTES), place
                chunk = self._chunk(buffer, place - base, room, at_end=size - place)
                if chunk is None:
                    if place + room > size:
                        return  # being written, or cut by the end of the process
                    self._lose(place)
                    parts, place = [], place + room
                    self.offset = place
                    continue
                kind, data = chunk
                if kind in (_FULL, _FIRST):
                    begun, parts, self._is_lost = place, [], False
                elif not parts:
                    if not self._is_lost:
                        self._lose(place)
                    place += _HEADER.size + len(data)
                    self.offset = place
                    continue
                parts.append(data)
                place += _HEADER.size + len(data)
                if kind in (_FULL, _LAST):
                    self.offset = place
                    yield begun, b"".join(parts)
                    parts = []

    def _chunk(
        self, buffer: bytes, place: int, room: int, *, at_end: int
    ) -> tuple[int, bytes] | None:
        """The type and data of a chunk; None when it is cut or does not agree with its checksum."""
        header = buffer[place : place + _HEADER.size]
        if len(header) < _HEADER.size:
            return None
        check, length, kind = _HEADER.unpack(header)
        if _HEADER.size + length > min(room, at_end) or not _FULL <= kind <= _LAST:
            return None
        start = place + _HEADER.size
        checked = buffer[start - 1 : start + length]  # the type is part of it
        return (kind, checked[1:]) if zlib.crc32(checked) == check else None

    def _lose(self, place: int) -> None:
        self._is_lost = True
        self.problems.say_damage(place, "a chunk does not agree with itself")


# First: a W&B folder may hold event files of TensorBoard.
ORDER = 10
_OWN = "_wandb"
_GOALS = {1: "min", 2: "max"}
_FINISHED = {"status": "finished"}
_NO_STEP = -1
# The axis of Lightning and of Epochal's own sink, which log it in every row.
_USUAL_AXIS = "trainer/global_step"
# What a record is, by the field that it has.
_KINDS = {2: "history", 3: "summary", 4: "output", 5: "config", 6: "files", 7: "stats"}
_KINDS |= {8: "artifact", 10: "alert", 12: "metric", 13: "output", 17: "run", 18: "exit"}
_KINDS |= {23: "preempting"}


class WandbRun(FileRun):
    """One run's log."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, f"{path.parent.name}/{path.name}")

    def rewind(self) -> None:
        super().rewind()
        self._log = LogFile(self.path)
        self._media = MediaReader(self.path.parent / "files", self._blobs)
        self._said = self._log.problems
        self._identity: Identity | None = None
        # Time of the last row of history, and of the last record of any kind.
        self._t = self._latest = 0.0
        self._step = 0
        self._num_rows = 0
        # The metric that is the step of the run; "" where W&B's own is, None until that is known.
        self._axis: str | None = None
        self._summary: dict[str, Any] = {}
        self._logged: dict[str, float] = {}  # the last value of each metric
        self._unfinished: dict[str, str] = {}

    def learn(self, number: int, /) -> None:
        """Take the number of the log among those of the run."""
        self.number = number

    @property
    def identity(self) -> Identity:
        """The run's own header; names of files if the log is empty."""
        if self._identity is not None:
            return self._identity
        try:
            for _, data in LogFile(self.path).read():
                with contextlib.suppress(WireError):
                    kind, part = _part(data)
                    if kind == "run":
                        self._identity = self._read_identity(part)
                        return self._identity
        except OSError:
            pass  # reading the run itself says what is wrong
        name = self.path.stem.removeprefix("run-")
        return Identity(id=stable_id("wandb", self.path), name=name, project="wandb")

    def _new_records(self) -> Iterator[Record]:
        try:
            for place, data in self._log.read():
                try:
                    yield from self._records(data)
                except WireError as error:
                    self._said.say_damage(place, str(error))
        except OSError as error:
            self._said.say(f"{self.path} cannot be read: {error.strerror or error}.")

    # -- what the records become ------------------------------------------------------------------

    def _records(self, data: bytes) -> Iterator[Record]:
        kind, part = _part(data)
        if (read := getattr(self, f"_{kind}_records", None)) is not None:
            yield from read(part)
        elif kind == "summary":
            self._summary.update(_items(part.each(1)))
        elif kind == "stats":
            items = _items(part.each(3)).items()
            numbers = {f"system/{key}": plain_number(value) for key, value in items}
            numbers = {key: number for key, number in numbers.items() if number is not None}
            t = self._time(part)
            if numbers:
                yield {"log": "system", "t": t, "m": numbers}
        elif kind == "config":
            own = _items(part.each(1)).get(_OWN)
            for key, value in own.items() if isinstance(own, dict) else ():
                if isinstance(value, dict):
                    self._media.about.setdefault(key, {}).update(value)
            for key, value in _config(part).items():
                yield {"log": "option", "t": self._t, "name": key, "value": value}
        elif kind == "alert":
            at: Record = {"log": "event", "t": self._t, "name": "alert", "step": self._step}
            yield {**at, **_texts(part, title=1, text=2, level=3)}
        elif kind == "preempting":
            yield {"log": "event", "t": self._t, "name": "preempting"}
        elif kind == "run":
            self._t = self._t or self.identity.created or 0.0

    def _time(self, part: Field) -> float:
        t = part[2].seconds or self._t
        self._latest = max(self._latest, t)
        return t

    def _history_records(self, part: Field) -> Iterator[Record]:
        row = _items(part.each(1))
        own = part[2][1].signed if 2 in part else row.get("_step")
        # In shared mode the server numbers the rows, and the log has none of the numbers.
        own = own if own or "_step" in row else self._num_rows
        self._num_rows += 1
        if not (axis := self._step_axis()):
            self._step = own if isinstance(own, int) else self._step
        elif (step := whole_step(row.get(axis))) is not None:
            self._step = step
            if is_step_name(axis):
                del row[axis]
                self._logged[axis] = step
        self._t = unix_seconds(row.get("_timestamp")) or self._t
        for name in ("_step", "_timestamp", "_runtime", _OWN):
            row.pop(name, None)
        for record in self._media.row_records(row, {"t": self._t, "step": self._step}):
            self._logged.update(record.get("m", {}))
            yield record

    def _files_records(self, part: Field) -> Iterator[Record]:
        """The files that ``wandb.save`` kept; those of media and W&B's own are left out."""
        for item in part.each(1):
            path = item[1].text
            if not item[3].number and not path.startswith("media/"):
                yield self._media.file(path, path, {"t": self._t, "step": self._step})

    def _artifact_records(self, part: Field) -> Iterator[Record]:
        """The files of an artifact; those of a table come with its row of history."""
        client_id, name = part[15].text, part[5].text
        contents = {
            entry[1].text: (entry[6].text, entry[2].text)
            for entry in part[12].each(4)
            if 6 in entry
        }
        self._media.artifacts[client_id] = contents
        if part[4].text == "run_table":
            return
        for path in contents:
            at: Record = {"t": self._t, "step": self._step}
            find = partial(self._media.artifact_file, client_id)
            yield self._media.file(f"{name}/{path}", path, at, find)

    def _output_records(self, part: Field) -> Iterator[Record]:
        """Whole lines; what comes before a newline waits for it."""
        stream, t = "stdout" if part[1].number == 1 else "stderr", self._time(part)
        text = self._unfinished.get(stream, "") + part[3].text
        *lines, self._unfinished[stream] = text.split("\n")
        for line in lines:
            yield {"log": "message", "t": t, "level": stream, "text": line}

    def _metric_records(self, part: Field) -> Iterator[Record]:
        name, axis = part[1].text or part[2].text, self._step_axis()
        goal = _GOALS.get(part[8].number)
        more = {**({"goal": goal} if goal else {}), **_texts(part, x=4)}
        if axis and more.get("x") == axis:
            del more["x"]  # every metric has the step
        if name and (more or not axis or name not in ("*", axis)):
            yield {"log": "define", "t": self._t, "name": name, **more}

    def _step_axis(self) -> str:
        """The metric that is the step; "" where it is W&B's number of the row."""
        if self._axis is None:
            axis, num_rows = _find_step_axis(self.path)
            if not axis and not num_rows:
                return ""  # a log that was only begun: definitions may follow
            self._axis = axis
        return self._axis

    def _exit_records(self, part: Field) -> Iterator[Record]:
        code = part[1].signed
        t = max(self._t, self._latest)
        for stream, text in self._unfinished.items():
            if text:
                yield {"log": "message", "t": t, "level": stream, "text": text}
        self._unfinished.clear()
        for name, value in self._summary.items():
            # W&B itself keeps the last value of each metric; another one was set.
            is_last = name in self._logged and _is_same(value, self._logged[name])
            if not (name.startswith("_") or is_last or isinstance(value, dict)):
                yield {"log": "summary", "t": t, "name": name, "value": json_safe(value)}
        status = {"status": "failed", "reason": f"exit code {code}"} if code else _FINISHED
        yield {"log": "finish", "t": t, **status, "last_step": self._step}

    def _read_identity(self, part: Field) -> Identity:
        run_id = part[1].text
        again = f"-{self.number}" if self.number > 1 else ""
        metadata: dict[str, Any] = {}
        with contextlib.suppress(OSError, FormatError):
            metadata["metadata"] = read_json(self.path.parent / "files" / "wandb-metadata.json")
        return Identity(
            id=f"{run_id}{again}" if run_id else stable_id("wandb", self.path),
            name=f"{part[8].text or run_id or self.path.stem}{again}",
            project=part[3].text or "wandb",
            created=part[17].seconds,
            config=_config(part[4]),
            tags=tuple(tag.text for tag in part.each(10)),
            notes=part[9].text or None,
            facts={
                "source": str(self.path),
                **_texts(part, entity=2, group=6, job_type=7, sweep=12, host=13),
                **metadata,
            },
        )


class WandbFolder(Files[WandbRun]):
    """The runs of a ``wandb`` folder, of the folder above it, of a run's folder or of one log."""

    label = "W&B"
    patterns = ("*.wandb", "*/*.wandb", "wandb/*/*.wandb")
    run_type = WandbRun

    def files(self) -> Sequence[Path]:
        """Every log, each once: ``latest-run`` is a link to one of them."""
        if self.path.is_file():
            with open(self.path, "rb", opener=regular_only) as file:
                start = file.read(FILE_HEADER_BYTES)
            is_log = start.startswith(MAGIC) or (not start and self.path.suffix == ".wandb")
            return [self.path] if is_log else []
        named = (log for place in self.patterns for log in self.path.glob(place))
        found = self.bounds.chosen({Path(os.path.realpath(log)) for log in named})
        return sorted(path for path in found if path.is_file())

    def listed(self) -> Iterator[tuple[tuple[Path], int]]:
        seen: Counter[str] = Counter()
        for log in self.files():
            seen[log.name] += 1
            yield (log,), seen[log.name]


find = WandbFolder.find


def _find_step_axis(path: Path) -> tuple[str, int]:
    """The metric that holds the steps of a log ("" if none does), and how many rows there are.

    It is the axis of all metrics (``define_metric("*", …)``), or that of some if it is named after
    steps. Its values must be whole numbers and in at least half of the rows. W&B itself writes 0
    where the program never logs it. A metric that is not named after steps must also change from
    row to row, or many rows would share a step.
    """
    axes: dict[str, None] = {}
    for name, axis in _definitions(path):
        if name == "*":
            axes = {axis: None, **axes}
        elif is_step_name(axis):
            axes.setdefault(axis)
    num_rows, last = 0, dict.fromkeys(axes, _NO_STEP)
    num_steps, num_changes = dict.fromkeys(axes, 0), dict.fromkeys(axes, 0)
    logged = {_USUAL_AXIS}
    for part in _parts(path, "history"):
        num_rows += 1
        for name, value in _row_values(part, last.keys()):
            if (step := whole_step(value)) is None:
                del last[name]
                continue
            num_steps[name] += 1
            num_changes[name] += step != last[name]
            last[name] = step
            if step:
                logged.add(name)
    for axis in last:
        is_in_most = 2 * num_steps[axis] >= num_rows
        is_dense = 2 * num_changes[axis] > num_steps[axis]
        if axis in logged and is_in_most and (is_step_name(axis) or is_dense):
            return axis, num_rows
    return "", num_rows


def _definitions(path: Path) -> Iterator[tuple[str, str]]:
    """The names of metrics, or patterns of names, and the metrics that they are drawn against."""
    for part in _parts(path, "metric"):
        if axis := part[4].text:
            yield part[1].text or part[2].text, axis


def _parts(path: Path, wanted: str) -> Iterator[Field]:
    """The records of one kind in a log; damaged ones are left to the reading of the run."""
    for _, data in LogFile(path).read():
        with contextlib.suppress(WireError):
            kind, part = _part(data)
            if kind == wanted:
                yield part


def _row_values(part: Field, names: Set[str]) -> list[tuple[str, Any]]:
    """The values of some metrics in a row, as far as it can be read."""
    try:
        return [(name, _value(i)) for i in part.each(1) if (name := _item_name(i)) in names]
    except WireError:
        return []


def _item_name(item: Field) -> str:
    return item[1].text or ".".join(key.text for key in item.each(2))


def _is_same(value: Any, logged: float) -> bool:
    """Whether a value of the summary is one that was logged."""
    number = plain_number(value)
    return number == logged or (number is not None and number != number and logged != logged)


def _part(data: bytes) -> tuple[str, Field]:
    """What a record is, and the field that has it; "" for kinds that are not imported."""
    record = message(data)
    for tag in record.inner:
        if tag in _KINDS and (found := record.each(tag)):
            return _KINDS[tag], found[0]
    return "", record


def _texts(part: Field, **tags: int) -> dict[str, str]:
    """The texts that are not empty, by the names given for their fields."""
    return {name: text for name, tag in tags.items() if (text := part[tag].text)}


def _config(part: Field) -> dict[str, Any]:
    items = _items(part.each(1)).items()
    return {key: json_safe(value) for key, value in items if key != _OWN}


def _items(items: Sequence[Field]) -> dict[str, Any]:
    """Items nested as their keys are, and sorted by name.

    They are written in any order, which would make the same row look different every time.
    """
    found: dict[str, Any] = {}
    named = [([key.text for key in (*i.each(1), *i.each(2))], _value(i)) for i in items]
    for keys, value in sorted(named, key=lambda item: item[0]):
        place, last = found, keys.pop() if keys else ""
        for key in keys:
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place = place[key]
        place[last] = value
    return found


def _value(item: Field) -> Any:
    """The value of an item; bad JSON is left as text."""
    for written in (*item.each(16), *item.each(8)):
        try:
            return json_value(written.content)
        except (ValueError, RecursionError):
            return written.text
    if 4 in item:
        return bool(item[4].number)
    if 5 in item:
        return (item[5].number >> 1) ^ -(item[5].number & 1)  # the sign is the last bit
    if 6 in item:
        return item[6].real
    return item[7].text if 7 in item else None
