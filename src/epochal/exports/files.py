"""Samples and files of a run as files with readable names, below a folder.

A file is called as the program called it. A sample is ``NAME/step-000100.png``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from epochal.errors import EpochalError
from epochal.media.files import files_of
from epochal.media.stored import StoredSample
from epochal.store.store import RunView

_LONGEST = 100
# What some file system does not allow in a name.
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')


def save_files(run: RunView, folder: Path, *, name: str = "*") -> Iterator[Path | Exception]:
    """Save the samples and files whose name fits a pattern; the path of each, or why it failed.

    Of a file that was logged several times, older versions have their step in the name.
    """
    taken: dict[str, bool] = {}
    for sample, wanted in _named(run, name):
        target = folder / _free(wanted, taken)
        try:
            yield sample.save(target)
            for file in files_of(sample.record):
                if file != sample.record["file"]:  # a mask, or a picture in a cell of a table
                    (target.parent / file).write_bytes(run.blob(file))
        except (OSError, EpochalError) as error:
            yield error


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
        if fnmatchcase(file.name, pattern):
            yield file, path
    for sample in run.samples(rank=None):
        rank = f"-rank-{sample.rank}" if sample.rank > 0 else ""
        index = "" if sample.index is None else f"-{sample.index}"
        stem = f"step-{sample.step:06d}{index}{rank}"
        if fnmatchcase(sample.name, pattern):
            yield sample, safe_path(sample.name) / f"{stem}{sample.suffix}"


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
