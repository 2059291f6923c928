"""Looks at a run's folder without reading a file: which parts there are, and what has changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from epochal.journal.layout import PartName, RunFolder, parse_part_name
from epochal.store.adoption import Aside


class Stat(NamedTuple):
    """What tells two versions of a file apart."""

    size: int
    mtime_ns: int


class FoundPart(NamedTuple):
    """A file that holds a part."""

    path: Path
    stat: Stat


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a run's folder; two equal signatures mean that nothing has changed.

    ``newest_s`` is when anything was written last, in Unix seconds.
    """

    journal: dict[PartName, FoundPart]
    sealed: dict[PartName, FoundPart]
    identity: Stat | None
    labels: Stat | None
    signature: str
    newest_s: float
    problem: str | None = None


def look_at(folder: RunFolder, asides: Iterable[Aside] = ()) -> Listing:
    """What there is in a run's folder right now."""
    problem = None
    journal: dict[PartName, FoundPart] = {}
    sealed: dict[PartName, FoundPart] = {}
    try:
        # Journals first: a part goes from here to the segments, never back.
        journal = _parts(folder.journal, ".jsonl")
        for aside in asides:
            journal.update(
                (name._replace(attempt=aside.attempt), found)
                for name, found in _parts(aside.folder.journal, ".jsonl").items()
            )
        sealed = _parts(folder.segments, ".parquet")
    except OSError as error:
        problem = f"the journal cannot be listed: {error}"
    identity, labels = _stat(folder.identity), _stat(folder.labels)
    return Listing(
        journal,
        sealed,
        identity,
        labels,
        signature=_signature(journal, sealed, identity, labels),
        newest_s=_newest_s((*journal.values(), *sealed.values()), identity, labels),
        problem=problem,
    )


def _signature(
    journal: dict[PartName, FoundPart],
    sealed: dict[PartName, FoundPart],
    *files: Stat | None,
) -> str:
    said = [f"{name} {found.stat}" for name, found in (*journal.items(), *sealed.items())]
    text = "\n".join((*said, f"{len(sealed)} {files}"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _newest_s(parts: Iterable[FoundPart], *files: Stat | None) -> float:
    stats = [*(found.stat for found in parts), *(stat for stat in files if stat is not None)]
    return max((stat.mtime_ns for stat in stats), default=0) / 1e9


def _parts(folder: Path, suffix: str) -> dict[PartName, FoundPart]:
    found: dict[PartName, FoundPart] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = parse_part_name(entry.name, suffix)
                if name is None:
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:  # sealed or removed between the listing and now
                    continue
                stat = Stat(status.st_size, status.st_mtime_ns)
                found[name] = FoundPart(Path(entry.path), stat)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return dict(sorted(found.items()))


def _stat(path: Path) -> Stat | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return Stat(status.st_size, status.st_mtime_ns)
