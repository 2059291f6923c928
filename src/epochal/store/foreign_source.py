"""A run in another tracker's files, which are read where they are and never written to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import FormatError, UsageError
from epochal.imports.foreign import Foreign, ForeignRun, Identity, stable_id
from epochal.imports.gathered import Gathered
from epochal.imports.values import tamed
from epochal.journal.layout import PartName, RunFolder
from epochal.records import FORMAT_VERSION, Record
from epochal.store.answers import Labels, Machine
from epochal.store.foreign_part import ForeignPart
from epochal.store.labels import read_labels, write_labels
from epochal.store.part import Part


class ForeignSource:
    """One run of a tracker; labels lie in a cache folder, as its own files are not touched.

    ``project`` stands in for the one that the run's files say.
    """

    is_newer = False
    journal_written_s: float | None = None

    def __init__(
        self,
        origin: Foreign,
        run: ForeignRun,
        *,
        cache: Path | None = None,
        project: str | None = None,
    ) -> None:
        self.run = run
        self._project = project
        self._origin = origin
        self._gathered = Gathered(run)
        self._parts: dict[int, ForeignPart] = {}
        self._cache = cache
        self._signature: str | None = None
        self._said: dict[str, Any] | None = None
        self._labels: Labels | None = None
        self._faults: list[str] = []

    @property
    def path(self) -> Path:
        """The file or folder that the run lies in."""
        return self.run.path

    @property
    def place(self) -> str:
        """The path of what was opened, and what the tracker calls the run there."""
        return place_of(self._origin, self.run)

    @property
    def tracker(self) -> str | None:
        """The tracker, as people call it."""
        return self._origin.label

    # -- the run as a whole -----------------------------------------------------------------------

    def look(self) -> None:
        """Look at sizes and times of the files."""
        folder = self._labels_folder()
        labels = None if folder is None else _changed_ns(folder.labels)
        looks = repr((self.run.signature(), labels)).encode("utf-8", "surrogatepass")
        signature = hashlib.blake2b(looks, digest_size=16).hexdigest()
        if signature != self._signature:
            self._signature = signature
            self._said = self._labels = None

    @property
    def signature(self) -> str | None:
        """Of the files there were at the last look."""
        return self._signature

    @property
    def newest_s(self) -> float:
        """When anything was written last."""
        folder = self._labels_folder()
        labels = None if folder is None else _changed_ns(folder.labels)
        return max(self.run.extent().changed, (labels or 0) / 1e9)

    @property
    def said(self) -> Mapping[str, Any]:
        """The identity in the words of a run.json; ``source`` says where it lies."""
        if self._said is None:
            self._said = self._say(self.run.identity)
        return self._said

    def _say(self, identity: Identity) -> dict[str, Any]:
        facts = {key: tamed(value) for key, value in identity.facts.items() if key != "source"}
        source = {"format": self._origin.label, "path": str(self.run.path), "key": self.run.key}
        return {
            "v": FORMAT_VERSION,
            "id": identity.id,
            "name": identity.name,
            "project": self._project or identity.project,
            "created": identity.created,
            "tags": list(identity.tags),
            "notes": identity.notes,
            "config": tamed(identity.config),
            **facts,
            "source": {**source, "in_place": True},
        }

    def _header(self, part: PartName) -> Record:
        said = self.said
        first = {} if part.attempt > 1 else {"config": said["config"]}
        t = said["created"] or self.run.extent().changed
        who = {key: said[key] for key in ("v", "id", "name", "project")}
        where = {"writer": part.writer, "attempt": part.attempt, "part": part.part, "rank": 0}
        return {"log": "run", "t": float(t), **who, **where, **first}

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        if self._labels is None:
            self._labels, self._faults = Labels(), []
            folder = self._labels_folder()
            try:
                if folder is not None:
                    self._labels = read_labels(folder)
            except (OSError, FormatError) as error:
                self._faults = [f"the labels cannot be read: {error}"]
        return self._labels

    def relabel(self, labels: Labels) -> None:
        """Keep the labels in the cache folder."""
        folder = self._labels_folder()
        if folder is None:
            raise UsageError(
                f"{self.run.identity.name!r} lies in files of {self.tracker}, which are only read,"
                " and there is no cache folder for its labels: 'epochal import' makes a copy that"
                " can be changed."
            )
        folder.path.mkdir(parents=True, exist_ok=True)
        write_labels(folder, labels)

    def _labels_folder(self) -> RunFolder | None:
        if self._cache is None:
            return None
        name = stable_id(self.tracker, self.path, self.run.identity.id)
        return RunFolder(self._cache / "labels" / name)

    @property
    def problems(self) -> Sequence[str]:
        """What could not be read of the files."""
        return [*self._faults, *self.run.problems]

    # -- parts ------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Read on in the files."""
        if not self._gathered.poll():
            return False
        attempts = self._gathered.attempts
        self._parts = {
            number: part
            for number, part in self._parts.items()
            if part.gathered is attempts.get(number)
        }
        for number, gathered in attempts.items():
            if number not in self._parts:
                self._parts[number] = ForeignPart(number, gathered, self._header)
            self._parts[number].poll()
        return True

    @property
    def parts(self) -> Sequence[Part]:
        """A part per attempt."""
        return list(self._parts.values())

    @property
    def held_bytes(self) -> int:
        """How much of what was read is in memory: all of it."""
        return sum(part.held_bytes for part in self._parts.values())

    def blob(self, file: str) -> bytes:
        """The bytes of an image or a sound, from where its tracker put them."""
        try:
            return self.run.blob(file)
        except KeyError:
            raise UsageError(f"there is no blob {file!r} in {self.path}.") from None

    def machines(self) -> Sequence[Machine]:
        """None: what a tracker knows of its machine is in its records."""
        return ()

    def close(self) -> None:
        """Let go of what was read."""
        self._parts = {}
        self._gathered.release()


def place_of(origin: Foreign, run: ForeignRun) -> str:
    """What tells a run from every other of this machine."""
    return f"{origin.path}/{origin.label}:{run.key}"


def _changed_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
