"""Samples and files of a run as programs read them: ``run.samples()`` and ``run.files()``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from epochal.base.atomic_file import replaced_file
from epochal.errors import FormatError, UsageError
from epochal.journal.blobs import TABLE, blob_bytes, media_type_of_name, store_blob
from epochal.journal.layout import RunFolder
from epochal.records import Record, whole_number

_TEXTS = {"markdown": ("text/markdown", ".md"), None: ("text/plain", ".txt")}


class _Table(msgspec.Struct):
    columns: list[str | float | bool | None]
    data: list[list[Any]]


class StoredSample:
    """A sample or a file of a run; its content is read when you ask for it.

    ``index`` is its place in a list that was logged under one name. ``bytes`` is None for pixels
    that were not encoded when they were logged. ``record`` has everything else, such as ``boxes``.

    Example:
        for sample in epochal.load("runs/demo/first").samples("digits"):
            sample.save(f"digits/{sample.step}{sample.suffix}")
    """

    def __init__(self, record: Record, locate: Callable[[str], Path], *, rank: int = 0) -> None:
        text_type, suffix = _TEXTS.get(record.get("format"), _TEXTS[None])
        self.record = record
        self.rank = rank
        self.name = str(record.get("name"))
        self.step = whole_number(record.get("step")) or 0
        self.index = whole_number(record.get("index"))
        self.caption = None if record.get("caption") is None else str(record["caption"])
        self.is_text = record["log"] == "text"
        self.media_type = text_type if self.is_text else str(record.get("media_type"))
        self.bytes = len(self.read()) if self.is_text else whole_number(record.get("bytes"))
        self.suffix = suffix if self.is_text else "".join(Path(self._file).suffixes)
        self._locate = locate

    def __repr__(self) -> str:
        index = "" if self.index is None else f" [{self.index}]"
        return f"<{self.media_type} {self.name!r}{index} at step {self.step}>"

    @property
    def path(self) -> Path:
        """The file with its content, which must not be changed; a text has none.

        Of a run on a hub it is fetched. Raises ``OSError`` if it is not there.
        """
        if self.is_text:
            raise UsageError(f"{self.name!r} is a text, and is not stored in a file.")
        path = self._locate(self._file)
        if not path.exists():
            folder = RunFolder(path.parent.parent)
            store_blob(folder, path.name, blob_bytes(folder, path.name))
        return path

    def read(self) -> bytes:
        """Its content; raises ``OSError`` if it is not there."""
        if self.is_text:
            return str(self.record.get("text")).encode("utf-8", "replace")
        path = self._locate(self._file)
        return blob_bytes(RunFolder(path.parent.parent), path.name)

    @property
    def data(self) -> Any:
        """A text, the rows of a table as dicts, or else the content in bytes.

        A picture in a cell of a table is a sample, too.
        """
        if self.is_text:
            return str(self.record.get("text"))
        if self.media_type != TABLE:
            return self.read()
        columns, rows = self.table()
        return [dict(zip(columns, row, strict=False)) for row in rows]

    def table(self) -> tuple[list[Any], list[list[Any]]]:
        """The columns and the rows of a table; raises ``FormatError`` if it is damaged."""
        try:
            table = msgspec.json.decode(self.read(), type=_Table)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise FormatError(f"the table is damaged: {error}.") from error
        return table.columns, [list(map(self.part, row)) for row in table.data]

    def fits(self, pattern: str) -> bool:
        """Whether its name is this one, or fits a pattern such as ``val/*``."""
        return self.name == pattern or fnmatchcase(self.name, pattern)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write its content to a file, whose folders are made; returns the path of the file."""
        target = Path(path).expanduser()
        target.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(target) as temporary:
            if not self.is_text and (source := self._locate(self._file)).exists():
                shutil.copyfile(source, temporary)
            else:
                temporary.write_bytes(self.read())
        return target

    @property
    def _file(self) -> str:
        return str(self.record.get("file"))

    def part(self, value: Any) -> Any:
        """A cell of a table or a mask, as a sample if it is a file."""
        if not isinstance(value, Mapping) or not isinstance(value.get("file"), str):
            return value
        about = {"media_type": media_type_of_name(value["file"]), **value}
        record = {"log": "blob", "name": self.name, "step": self.step, **about}
        return StoredSample(record, self._locate, rank=self.rank)
