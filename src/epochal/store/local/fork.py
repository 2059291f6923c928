"""The history that a fork has from its parent: the parent's parts, up to a step.

``run.json`` of a fork names its parent (``fork``). Readers put the parent's parts before the fork's
own, as attempts 0, -1 and so on. Without its parent a fork has its own records alone.
``epochal pack`` copies the history into the fork, as attempt 0; then the parent is not needed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epochal.atomic_file import replaced_file
from epochal.errors import EpochalError
from epochal.journal.layout import LOOP, PartName, RunFolder, is_run_folder, rank_of_writer
from epochal.journal.layout import read_json as read_identity
from epochal.journal.line import encode
from epochal.journal.search_bounds import SearchBounds
from epochal.records import FORMAT_VERSION, KINDS, Axis, Position, Record, axis_of, whole_number
from epochal.segments.footer import PartSummary
from epochal.series.series import Series
from epochal.store.answers import Fork
from epochal.store.local.columns import SeriesKey, SeriesTable, seconds
from epochal.store.local.part import Part, PartFacts, Place

# A fork of a fork of a fork …: more than this is a circle.
MAX_DEPTH = 32
_CHILD = "child-"
# Which process wrote a run: what ``journal.process.liveness`` asks for.
PROCESS_FIELDS = ("host", "boot_id", "pid_namespace", "pid", "pid_start")
_MAX_LOOKED_AT = 8


class PartSource(Protocol):
    """What the parts of the parent are read from."""

    def look(self) -> None:
        """Look at the files."""

    def poll(self) -> bool:
        """Read what the parts have gained."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts, as far as they were read."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes are in memory."""

    def close(self) -> None:
        """Close the parts."""


def fork_of(run_json: Mapping[str, Any]) -> Fork | None:
    """The parent that run.json names; None for a run that is no fork."""
    fork = run_json.get("fork")
    if not isinstance(fork, dict):
        return None
    step, texts = whole_number(fork.get("step")), [fork.get(key) for key in ("id", "name")]
    if step is None or not all(isinstance(text, str) for text in texts):
        return None
    path, project = fork.get("path"), fork.get("project")
    return Fork(
        id=str(texts[0]),
        name=str(texts[1]),
        project=str(project or ""),
        step=step,
        path=path if isinstance(path, str) else "",
    )


def parent_folder(fork: Fork, folder: Path, bounds: SearchBounds) -> Path | None:
    """The folder of the parent; None where it is gone, or outside of the searched folders."""
    path = folder / fork.path
    if not fork.path or not bounds.allows(path) or not is_run_folder(path):
        return None
    try:
        is_it = read_identity(path / "run.json").get("id") == fork.id
    except (OSError, EpochalError):
        return None
    return path if is_it else None


class ForkedHistory:
    """The parts of a parent, as a fork has them."""

    def __init__(self, fork: Fork, source: PartSource) -> None:
        self._fork = fork
        self._source = source
        self._parts: list[Part] | None = None

    def poll(self) -> bool:
        """Read what the parent's parts have gained; True when any of them has changed."""
        self._source.look()
        changed = self._source.poll() or self._parts is None
        if changed:
            self._parts = _forked(self._source.parts, self._fork.step)
        return changed

    @property
    def parts(self) -> list[Part]:
        """The parent's parts up to the step."""
        return list(self._parts or ())

    @property
    def held_bytes(self) -> int:
        """How much of the parent is in memory."""
        return self._source.held_bytes

    def close(self) -> None:
        """Close the parent's parts."""
        self._parts = None
        self._source.close()


def _forked(parts: Sequence[Part], step: int) -> list[Part]:
    own = [part for part in parts if _is_training(part.name.writer)]
    newest = max((part.name.attempt for part in own), default=0)
    until_t = _time_after(own, step)
    return [ForkedPart(part, step, until_t, shift=newest) for part in own]


def _is_training(writer: str) -> bool:
    return rank_of_writer(writer) is not None or writer.startswith(_CHILD)


def _time_after(parts: Sequence[Part], step: int) -> float:
    """When the parent first logged a step after the fork's; infinite if it never did."""
    found = np.inf
    for part in parts:
        if part.name.writer == LOOP and part.facts.reached.get("step", -1) > step:
            keys = [key for key in part.series_keys() if key.axis == "step"][:_MAX_LOOKED_AT]
            for series in filter(None, map(part.series, keys)):
                later = series.times[series.steps > step]
                found = min(found, float(later.min())) if later.size else found
    return float(found)


class ForkedPart:
    """One part of a parent, without what came after a step."""

    held_bytes = 0

    def __init__(self, part: Part, step: int, until_t: float, *, shift: int) -> None:
        self._part, self._step, self._until_t = part, step, until_t
        facts = part.facts
        self.name = PartName(part.name.writer, part.name.attempt - shift, part.name.part)
        reached = facts.reached.get("step")
        self.facts = PartFacts(
            self.name,
            header=facts.header,
            definitions=facts.definitions,
            takeovers=facts.takeovers,
            reached={} if reached is None else {"step": min(reached, step)},
            first_epoch=facts.first_epoch,
        )

    def series_keys(self) -> Iterable[SeriesKey]:
        """Its series that have points up to the step; a machine's readings are not the fork's."""
        return self._keys

    @cached_property
    def _keys(self) -> list[SeriesKey]:
        keys = [key for key in self._part.series_keys() if key.axis in ("step", "epoch")]
        if self._part.facts.reached.get("step", self._step + 1) <= self._step:
            return keys
        known: dict[SeriesKey, bool] = {}
        for table in self._part.tables():  # of one table all series have the same steps
            kept = self._kept(table.axis, table.steps, table.times)
            known.update((SeriesKey(name, table.axis), bool(kept.any())) for name in table.names)
        # What is in no table, or in several, is looked at itself.
        return [key for key in keys if known.get(key) or self.series(key) is not None]

    def _kept(
        self, axis: Axis, steps: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        return steps <= self._step if axis == "step" else times < self._until_t

    def tables(self) -> Iterable[SeriesTable]:
        """None: each series is asked for."""
        return ()

    def kept_summaries(self) -> Mapping[tuple[str, Axis], PartSummary]:
        """None: its series are read."""
        return {}

    def series(self, key: SeriesKey) -> Series | None:
        """The points up to the step."""
        series = self._part.series(key) if key.axis in ("step", "epoch") else None
        if series is None:
            return None
        kept = self._kept(key.axis, series.steps, series.times)
        return series if bool(kept.all()) else series.select(kept) if kept.any() else None

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """The places of records up to the step; none of kinds without one."""
        axis: Axis = KINDS[kind].axis if kind in KINDS else "none"
        if axis not in ("step", "epoch"):
            return
        for place in self._part.places(kind, label=label):
            if place.at <= self._step if axis == "step" else place.t < self._until_t:
                yield place._replace(origin=self.facts.origin)

    def read(self, kind: str, places: list[Place]) -> Iterable[Record]:
        """The records at these places."""
        return self._part.read(kind, places)

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Definitions, and the records up to the step."""
        for position, record in self._part.records(first=first):
            if self._has(record):
                yield Position(*self.name, position.ordinal), record

    def _has(self, record: Record) -> bool:
        axis = axis_of(record)
        if axis == "step":
            at = whole_number(record.get("step"))
            return at is not None and at <= self._step
        return record["log"] == "define" or (axis == "epoch" and seconds(record) < self._until_t)

    def close(self) -> None:
        """Its parent closes it."""


def keep_history(
    folder: RunFolder, run_json: Mapping[str, Any], parts: Iterable[Part], cuts: Mapping[int, int]
) -> list[PartName]:
    """Copy the parent's history into a fork, as attempt 0 of each writer; raises ``OSError``."""
    fork = fork_of(run_json)
    if fork is None:
        return []
    # It is complete, and may be sealed once the fork's own process is gone.
    process = {key: run_json[key] for key in PROCESS_FIELDS if key in run_json}
    by_writer: dict[str, list[Part]] = {}
    for part in parts:
        if isinstance(part, ForkedPart):
            by_writer.setdefault(part.name.writer, []).append(part)
    written: list[PartName] = []
    for writer, of_writer in by_writer.items():
        name = PartName(writer, 0, 0)
        first = sorted(of_writer, key=lambda part: part.name)[0]
        header = {
            **{key: run_json.get(key) for key in ("id", "name", "project")},
            "writer": writer,
            "attempt": 0,
            "part": 0,
            "rank": first.facts.origin.rank,
            **process,
        }
        t = seconds(first.facts.header or {})
        path = folder.part_path(name)
        with replaced_file(path, durable=True) as temporary, temporary.open("wb") as file:
            file.write(encode({"log": "run", "t": t, "v": FORMAT_VERSION, **header}))
            for part in sorted(of_writer, key=lambda part: part.name):
                cut = cuts.get(part.name.attempt)
                for _, record in part.records(first=0):
                    if cut is None or axis_of(record) != "step" or record["step"] < cut:
                        file.write(encode(record))
        written.append(name)
    _copy_blobs(folder.path / fork.path / "blobs", folder.blobs)
    return written


def _copy_blobs(source: Path, target: Path) -> None:
    if not source.is_dir():
        return
    target.mkdir(exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and not file.is_symlink() and not (target / file.name).exists():
            shutil.copy2(file, target / file.name)
