"""Files that a program keeps with its run: ``run.log_file`` and ``run.files``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from epochal.base.guard import attempt
from epochal.errors import UsageError, ValueTypeError
from epochal.exchange.media.stored import StoredSample
from epochal.journal.blobs import media_type_of_name
from epochal.journal.line import now, without_surrogates
from epochal.journal.regular_file import regular_only
from epochal.journal.segments.parts import part_records
from epochal.records import Record, moment_of
from epochal.records.values import shown_text
from epochal.run.recorder import Recorder

# A folder with more files is refused as a whole.
MOST_FILES = 1000


def log_file(recorder: Recorder, path: Any, name: Any, step: Any) -> None:
    """Copy a file, or the files of a folder, into the run and append their records."""
    call = recorder.call("file")
    known = shown_text(path) if name is None else call.name(name)
    if known is None:
        return
    at = recorder.sample_step(step)
    sources = recorder.values.read(known, _sources, path, name=None if name is None else known)
    for inner, source in (sources or {}).items() if recorder.is_recorded else ():
        record, error = attempt(_stored, recorder, inner, source, at)
        if record is not None:
            recorder.write(record)
        elif error is not None:
            recorder.report_unstored(known, path, error)
            if isinstance(error, OSError):
                break  # the disk is full or gone: the next file would fail in the same way


def files_of_run(recorder: Recorder) -> list[StoredSample]:
    """The files that were logged so far, by time."""
    folder = recorder.folder
    parts = folder.all_parts() if recorder.is_recorded else ()
    records = [record for part in parts for record in part_records(folder, part, "file")]
    records.sort(key=moment_of)
    return [StoredSample(record, folder.blobs.joinpath) for record in records]


def _sources(path: Any, *, name: str | None) -> dict[str, Path]:
    """The files to copy, by the names under which they are logged."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueTypeError(f"log_file takes a path, not a {type(path).__name__}.")
    source = Path(os.fsdecode(path)).expanduser()
    name = name or source.name or source.resolve().name
    if not source.is_dir():
        return {name: source}
    found: dict[str, Path] = {}
    for folder, inner, files in os.walk(source):
        inner.sort()
        for file in (Path(folder, file) for file in sorted(files)):
            found[f"{name}/{file.relative_to(source).as_posix()}"] = file
        if len(found) > MOST_FILES:
            raise UsageError(
                f"the folder {name!r} has more than {MOST_FILES:,} files. Pack it into one file"
                " with shutil.make_archive and log that."
            )
    if not found:
        raise UsageError(f"the folder {name!r} has no files that can be read.")
    return found


def _stored(recorder: Recorder, name: str, source: Path, step: int) -> Record:
    try:
        file = open(source, "rb", buffering=0, opener=regular_only)  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{source} cannot be kept: {error.strerror or error}.") from error
    with file:
        stored, size = recorder.samples.copy(file, source.suffix)
    about = {"file": stored, "media_type": media_type_of_name(source.name), "bytes": size}
    return {"log": "file", "t": now(), "step": step, "name": without_surrogates(name), **about}
