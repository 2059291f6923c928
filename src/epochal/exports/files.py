"""Samples and files of a run as files with readable names, below a folder.

A file is called as the program called it. A sample is ``NAME/step-000100.png``, and its masks are
``NAME/step-000100.mask-GROUP.png``. A table is ``NAME/step-000100.csv``, and the pictures in its
cells are ``NAME/step-000100/COLUMN-ROW.png``. ``samples.jsonl`` has the captions, boxes and labels.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from epochal.errors import EpochalError, FormatError
from epochal.exchange.media.stored import StoredSample
from epochal.journal.blobs import TABLE
from epochal.journal.layout import json_bytes
from epochal.store.run import RunView

_LONGEST = 100
# What some file system does not allow in a name.
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_ABOUT = "samples.jsonl"
_DESCRIBING = ("caption", "boxes", "masks", "chart")


def save_files(run: RunView, folder: Path, *, name: str = "*") -> Iterator[Path | Exception]:
    """Save the samples and files whose name fits a pattern; the path of each, or why it failed.

    Of a file that was logged several times, older versions have their step in the name.
    """
    taken, lines = {_ABOUT: True}, list[bytes]()
    for sample, wanted in _named(run, name):
        path = _free(wanted, taken)
        try:
            if sample.media_type == TABLE:
                yield _save_table(sample, folder, path, taken)
            else:
                yield sample.save(folder / path)
            about = {key: sample.record[key] for key in _DESCRIBING if key in sample.record}
            if isinstance(masks := about.get("masks"), list):
                about["masks"] = [_save_mask(sample, mask, folder, path, taken) for mask in masks]
            if about:
                lines.append(json_bytes({"path": str(path), "step": sample.step, **about}))
        except (OSError, EpochalError) as error:
            yield FormatError(f"{sample.name!r} of step {sample.step}: {error}")
    if lines:
        (folder / _ABOUT).write_bytes(b"\n".join([*lines, b""]))


def _save_table(
    table: StoredSample, folder: Path, path: PurePosixPath, taken: dict[str, bool]
) -> Path:
    """Save a table as CSV; a cell with a picture becomes the path of its file."""
    columns, rows = table.table()
    for number, row in enumerate(rows):
        for place, (column, cell) in enumerate(zip(columns, row, strict=False)):
            if isinstance(cell, StoredSample):
                wanted = path.with_suffix("") / _safe(f"{column}-{number}{cell.suffix}")
                picture = _free(wanted, taken)
                cell.save(folder / picture)
                row[place] = picture.relative_to(path.parent)
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    with open(folder / path, "w", encoding="utf-8", errors="replace", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return folder / path


def _save_mask(
    picture: StoredSample, mask: Any, folder: Path, path: PurePosixPath, taken: dict[str, bool]
) -> Any:
    """Save a mask; it is described with the name of this file."""
    part = picture.part(mask)
    if not isinstance(part, StoredSample):
        return mask
    target = _free(path.with_name(_safe(f"{path.stem}.mask-{part.record.get('group')}.png")), taken)
    return {**mask, "file": part.save(folder / target).name}


def safe_path(name: str) -> PurePosixPath:
    """A relative path for any name: it stays in its folder and is valid on every system."""
    parts = [_safe(part) for part in name.split("/") if part.strip(". ")]
    return PurePosixPath(*parts) if parts else PurePosixPath("unnamed")


def _named(run: RunView, pattern: str) -> Iterator[tuple[StoredSample, PurePosixPath]]:
    files = run.files()
    newest = {file.name: file for file in files}
    for file in reversed(files):
        path = safe_path(file.name)
        if newest[file.name] is not file:
            path = path.with_name(f"{path.stem}.step-{file.step:06d}{path.suffix}")
        if file.fits(pattern):
            yield file, path
    for sample in run.samples(rank=None):
        rank = f"-rank-{sample.rank}" if sample.rank > 0 else ""
        index = "" if sample.index is None else f"-{sample.index}"
        suffix = ".csv" if sample.media_type == TABLE else sample.suffix
        if sample.fits(pattern):
            last = _safe(f"step-{sample.step:06d}{index}{rank}{suffix}")
            yield sample, safe_path(sample.name) / last


def _safe(part: str) -> str:
    text = _FORBIDDEN.sub("_", part).strip(" ").rstrip(".")
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= _LONGEST:
        return encoded.decode()
    ending = PurePosixPath(text).suffix[-20:]
    digest = hashlib.sha256(encoded).hexdigest()[:8]
    return f"{encoded[: _LONGEST - 30].decode('utf-8', 'ignore')}-{digest}{ending}"


def _free(path: PurePosixPath, taken: dict[str, bool]) -> PurePosixPath:
    """A path that no other sample has; ``taken`` has folders, and files with True."""
    wanted, number = path, 1
    while True:
        parents = [str(folder).lower() for folder in path.parents]
        is_inside_file = any(taken.get(folder) for folder in parents)
        if not is_inside_file and str(path).lower() not in taken:
            taken.update(dict.fromkeys(parents, False), **{str(path).lower(): True})
            return path
        number += 1
        if is_inside_file:
            path = PurePosixPath(f"{wanted.parts[0]}-{number}", *wanted.parts[1:])
        else:
            path = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
