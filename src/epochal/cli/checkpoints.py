"""``epochal manage checkpoints``, and where the checkpoints of a run are."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from epochal.cli import options
from epochal.cli.command import data_command, own_run
from epochal.cli.output import answer, remark, said_json, say_table
from epochal.errors import FormatError
from epochal.records.format import UNKNOWN, format_bytes, format_number, plural
from epochal.store.run import RunView
from epochal.store.status import format_age
from epochal.torch.checkpoint.manifest import FOLDER, Manifest, pointed, problem_of, scan

_FIELDS = ("step", "epoch", "metric", "saved", "run_id", "attempt", "world_size")


@data_command
@options.run
@click.option("--verify", is_flag=True, help="Read every byte and compare the checksums.")
def command(run: str | None, verify: bool) -> int:
    """List the checkpoints of a run; the exit code is 1 if one of them is damaged."""
    view = own_run(run)
    folders = checkpoint_folders(view)
    rows = [
        _row(folder, name, found, verify=verify)
        for folder in folders
        for name, found in _of_run(view, folder)
    ]
    if not rows:
        places = " or ".join(map(str, folders))
        answer([], f"No checkpoints in {places}. epochal.Checkpoints(run, state) saves them.")
    elif not said_json(rows):
        _print(rows, folders[0])
    return int(any(row["problem"] for row in rows))


def checkpoint_folders(view: RunView) -> list[Path]:
    """The run's own folder of checkpoints, then those in its journal, the newest first."""
    entries = reversed(view.entries("event", name="checkpoint", rank=None))
    paths = [str(path) for entry in entries if (path := entry.record.get("path"))]
    return folders_of(view.path / FOLDER, str(view.facts.get("cwd") or ""), paths)


def folders_of(own: Path, cwd: str, paths: Iterable[str]) -> list[Path]:
    """The run's own folder, then those of checkpoints that it saved elsewhere."""
    folders = {own.absolute(): own}
    for path in paths:
        folder = (Path(cwd) / path).parent
        folders.setdefault(folder.absolute(), folder)
    return list(folders.values())


def newest_checkpoint(view: RunView) -> tuple[Path, Manifest] | None:
    """The one to go on from, of all folders; None when there is none that can be read."""
    newest: list[tuple[Path, Manifest]] = []
    for folder in checkpoint_folders(view):
        found = [(folder / name, one) for name, one in _of_run(view, folder)]
        readable = [(path, one) for path, one in found if isinstance(one, Manifest)]
        latest = [(path, one) for path, one in readable if path.name == pointed(folder, "latest")]
        newest += latest or readable
    return max(newest, key=lambda item: item[1].saved, default=None)


def _of_run(view: RunView, folder: Path) -> Iterator[tuple[str, Manifest | FormatError]]:
    return scanned(folder, None if folder == view.path / FOLDER else view.own_id)


def scanned(folder: Path, run_id: str | None) -> Iterator[tuple[str, Manifest | FormatError]]:
    """The checkpoints in a folder, of one run or of all."""
    for name, found in scan(folder):
        if isinstance(found, FormatError) or run_id in (None, found.run_id):
            yield name, found


def _row(folder: Path, name: str, found: Manifest | FormatError, *, verify: bool) -> dict[str, Any]:
    """One checkpoint, as JSON has it."""
    classes = [pointer for pointer in ("latest", "best") if pointed(folder, pointer) == name]
    row: dict[str, Any] = {"name": name, "path": str(folder / name), "classes": classes}
    if isinstance(found, FormatError):
        row |= {**dict.fromkeys(_FIELDS), "bytes": None, "problem": str(found)}
    else:
        row |= {field: getattr(found, field) for field in _FIELDS}
        row |= {"classes": [*classes, found.kind], "bytes": found.size_bytes}
        row["problem"] = problem_of(folder / name, found, thorough=verify)
    return {**row, "valid": row["problem"] is None}


def _print(rows: list[dict[str, Any]], own: Path) -> None:
    now = time.time()
    places = list(dict.fromkeys(str(Path(row["path"]).parent) for row in rows))
    cells = [
        (
            row["name"] if len(places) == 1 else row["path"],
            ", ".join(row["classes"]),
            UNKNOWN if row["metric"] is None else format_number(row["metric"]),
            UNKNOWN if row["bytes"] is None else format_bytes(row["bytes"]),
            UNKNOWN if row["saved"] is None else format_age(now - row["saved"]),
            row["problem"] or "yes",
        )
        for row in rows
    ]
    header = ("CHECKPOINT", "CLASS", "METRIC", "SIZE", "AGE", "VALID")
    say_table(header, cells, shrink=(0, 5), right=(2, 3, 4))
    where = "" if places == [str(own)] else f" in {' and '.join(places)}"
    total = sum(row["bytes"] or 0 for row in rows)
    remark(f"{format_bytes(total)} in {plural(len(rows), 'checkpoint')}{where}.")
