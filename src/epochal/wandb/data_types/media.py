"""What ``log`` accepts beside numbers: values that a run keeps as files or as a distribution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from epochal.errors import ValueTypeError
from epochal.integrations.file_writer import write_blob
from epochal.journal.line import now
from epochal.media.files import blob_record
from epochal.run.run import Run
from epochal.wandb.notices import ExplainsMissingMembers


@dataclass(frozen=True, slots=True)
class MediaFile:
    """One file of a value: its bytes, what they are, and a caption."""

    data: bytes
    media_type: str
    caption: str | None = None
    part: str = ""  # added to the name, for a value of several files


class WBValue(ExplainsMissingMembers):
    """A value with a type of its own; the base of all that W&B names so."""

    _log_type = "value"

    def write_to(self, run: Run, name: str, step: int) -> None:
        """Record the value in a run."""
        raise NotImplementedError

    def to_json(self, run: Any = None) -> dict[str, Any]:
        """What W&B writes into its history for the value."""
        return {"_type": self._log_type}


class Media(WBValue):
    """A value that is kept as one file or several."""

    def __init__(self, caption: str | None = None) -> None:
        self._caption = caption

    @property
    def caption(self) -> str | None:
        """What is said below it."""
        return self._caption

    def files(self) -> Iterator[MediaFile]:
        """The files to keep."""
        raise NotImplementedError

    def artifact_files(self, name: str) -> Iterator[tuple[str, MediaFile]]:
        """The files of an artifact that has the value under this name, by their names in it."""
        for file in self.files():
            yield name, file

    def write_to(self, run: Run, name: str, step: int) -> None:
        """Keep the files in the run, and record their names."""
        for file in self.files():
            keep_file(run, f"{name}/{file.part}" if file.part else name, file, step)

    def to_json(self, run: Any = None) -> dict[str, Any]:
        """The type, and the size of the files."""
        sizes = [len(file.data) for file in self.files()]
        return {"_type": self._log_type, "size": sum(sizes), "caption": self._caption}


def keep_file(run: Run, name: str, file: MediaFile, step: int) -> str:
    """Store a file of a run and record it at a step; return its name in the run's folder."""
    record = blob_record(name, file.data, t=now(), step=step, media_type=file.media_type)
    if file.caption:
        record["caption"] = str(file.caption)
    write_blob(run, record, file.data)
    return str(record["file"])


def path_or_data(value: Any, *, what: str) -> bytes:
    """The bytes of a path, of an open file, or of a text."""
    if hasattr(value, "read"):
        if hasattr(value, "seek"):
            value.seek(0)
        value = value.read()
        return value.encode() if isinstance(value, str) else bytes(value)
    if isinstance(value, bytes):
        return value
    try:
        with open(value, "rb") as file:
            return file.read()
    except TypeError as error:
        raise ValueTypeError(f"{what} takes a path or data, not {type(value).__name__}.") from error
