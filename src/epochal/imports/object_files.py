"""Text files whose rows are JSON objects, a run each; the formats differ in how objects follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from epochal.imports.foreign import Identity
from epochal.imports.text_file import TextFile, TextFileRun, identity_of
from epochal.journal.search_bounds import SearchBounds
from epochal.records import Record

# Takes the whole objects that follow the file's offset, moving it, and says what is damaged.
Objects = Callable[[TextFile], Iterator[dict[str, Any]]]


class ObjectFormat(msgspec.Struct, frozen=True):
    """One way of writing objects; ``files`` are those of this format at a path."""

    name: str
    label: str
    files: Callable[[Path, SearchBounds | None], Sequence[Path]]
    objects: Objects


class ObjectFiles(msgspec.Struct, eq=False):
    """The files of one format in a place."""

    path: Path
    format: ObjectFormat
    bounds: SearchBounds | None = None
    _runs: dict[Path, ObjectFileRun] = {}

    @property
    def label(self) -> str:
        """What people call the format."""
        return self.format.label

    def runs(self) -> Sequence[ObjectFileRun]:
        """Every file that is there."""
        files = self.format.files(self.path, self.bounds)
        self._runs = {f: self._runs.get(f) or ObjectFileRun(f, self.format) for f in files}
        return list(self._runs.values())


class ObjectFileRun(TextFileRun):
    """One file."""

    def __init__(self, path: Path, written: ObjectFormat) -> None:
        super().__init__(path, f"{path.parent.name}/{path.name}")
        self._format = written

    @property
    def identity(self) -> Identity:
        """Named after the file, or after its folder where the file has a name of no use."""
        return identity_of(self.path, self._format.name)

    def _new_records(self) -> Iterator[Record]:
        for row in self._format.objects(self._file):
            yield from self._rows.records(row)
