"""Journal parts with given records, for tests that care about writers, parts and times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode
from epochal.journal.segments.seal import seal_part


def run_folder(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.journal.mkdir(parents=True)
    return folder


def write(
    folder: RunFolder,
    *records: dict[str, Any],
    writer: str = "loop",
    attempt: int = 1,
    part: int = 0,
    **header: Any,
) -> PartName:
    """Append records to a part; a new part gets its header first."""
    name = PartName(writer, attempt, part)
    path = folder.part_path(name)
    first = {"log": "run", "t": 0.0, "v": 1, "writer": writer, "rank": 0, **header}
    with open(path, "ab") as file:
        if not file.tell():
            file.write(encode(first))
        for record in records:
            file.write(encode(record))
    return name


def metrics(step: int, *, t: float | None = None, **values: float) -> dict[str, Any]:
    moment = float(step) if t is None else t
    return {"log": "metrics", "t": moment, "step": step, "m": values or {"a": step}}


def seal(folder: RunFolder, name: PartName) -> None:
    """Seal a part, whether or not its writer is done with it."""
    folder.segments.mkdir(exist_ok=True)
    seal_part(folder, name, into=folder.segments)
    folder.part_path(name).unlink()
