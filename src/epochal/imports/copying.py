"""Copies a run of another tracker into a run folder, through the journal.

The copy appears when it is complete. It stores its source. Copying the same run again replaces the
copy if the source has new records, and otherwise does nothing. Labels and other files in the folder
stay.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from epochal.errors import FormatError
from epochal.imports.foreign import Source, SourceRun
from epochal.imports.run_copy import RunCopy
from epochal.journal.layout import (
    RunFolder,
    create_run_folder,
    read_json,
    run_folders,
    slugify,
    write_json,
)
from epochal.values import plain_json

Outcome = Literal["new", "updated", "unchanged"]
# What a copy is made of; a segment is made of the journal, so an old one goes with it.
_PIECES = ("journal", "blobs", "segments")


@dataclass(frozen=True, slots=True)
class Copied:
    """One run that was copied, and what could not be read of it."""

    id: str
    name: str
    project: str
    folder: Path
    outcome: Outcome
    records: int = 0
    problems: tuple[str, ...] = ()


def copy_run(
    source: Source,
    run: SourceRun,
    *,
    root: Path,
    project: str | None = None,
    name: str | None = None,
) -> Copied:
    """Copy a run below a folder of runs; raises ``OSError`` when it cannot be written."""
    identity = run.identity
    identity = replace(identity, name=name or identity.name, project=project or identity.project)
    place = root / slugify(identity.project)
    origin = {"format": source.label, "path": str(source.path), "key": run.key}
    signature = plain_json(run.signature())
    earlier = _earlier_copy(place, origin)
    if earlier is not None and _identity_of(earlier)["source"].get("signature") == signature:
        final = str(_identity_of(earlier).get("name"))
        return Copied(identity.id, final, identity.project, earlier.path, "unchanged")
    with _staging(place) as staged:
        copy = RunCopy(staged, identity)
        copy.write(run)
        target, final = earlier, identity.name
        if target is None:
            target, final = create_run_folder(place, identity.name)
        said = {**copy.identity_record(), "name": final}
        write_json(staged.identity, {**said, "source": {**origin, "signature": signature}})
        _move(staged, target)
    return Copied(
        id=identity.id,
        name=final,
        project=identity.project,
        folder=target.path,
        outcome="new" if earlier is None else "updated",
        records=copy.num_records,
        problems=tuple(run.problems),
    )


def _earlier_copy(place: Path, origin: Mapping[str, str]) -> RunFolder | None:
    for folder in run_folders(place) if place.is_dir() else ():
        source = _identity_of(folder).get("source")
        if isinstance(source, dict) and origin.items() <= source.items():
            return folder
    return None


def _identity_of(folder: RunFolder) -> dict[str, Any]:
    try:
        return read_json(folder.identity)
    except (FileNotFoundError, FormatError):
        return {}


@contextlib.contextmanager
def _staging(place: Path) -> Iterator[RunFolder]:
    """A hidden folder beside the runs, which no reader takes for one; gone afterwards."""
    folder = RunFolder(place / f".import-{os.getpid()}-{secrets.token_hex(4)}")
    folder.journal.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def _move(staged: RunFolder, target: RunFolder) -> None:
    """Replace the old copy by a finished one; run.json comes last and completes it."""
    for piece in _PIECES:
        new, there = staged.path / piece, target.path / piece
        if there.exists():
            os.rename(there, staged.path / f"old-{piece}")
        if new.exists():
            os.rename(new, there)
    os.replace(staged.identity, target.identity)
