"""``epochal checkpoints``: what a run can go on from."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from epochal.cli.checkpoint_places import folders_of, places_of
from epochal.cli.command import add_json, add_run, check_own, run_of
from epochal.cli.output import remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import FormatError
from epochal.format import UNKNOWN, format_bytes, format_number
from epochal.store.local.run import LocalRun
from epochal.store.status import format_age
from epochal.torch.checkpoint.manifest import FOLDER, Manifest, Pointer, pointed, problem_of, scan


@dataclass(frozen=True, slots=True)
class Row:
    """One checkpoint, as it is shown and printed as JSON."""

    name: str
    path: str
    classes: list[str]
    step: int | None = None
    epoch: float | None = None
    metric: float | None = None
    bytes: int | None = None
    saved: float | None = None
    run_id: str | None = None
    attempt: int | None = None
    world_size: int | None = None
    problem: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether a training can go on from it."""
        return self.problem is None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``checkpoints``."""
    add_run(parser)
    parser.add_argument(
        "--verify", action="store_true", help="read every byte and compare the checksums"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List a run's checkpoints; 1 when one of them is damaged."""
    view = run_of(args)
    check_own(view)
    tables = [
        [_row(folder, *one, thorough=args.verify) for one in _scanned(view, folder)]
        for folder in dict.fromkeys([view.path / FOLDER, *folders_of(view)])
    ]
    rows = [row for rows_there in tables for row in rows_there]
    if args.json:
        say_json([{"valid": row.is_valid, **_fields(row)} for row in rows])
    elif rows:
        for rows_there in filter(None, tables):
            _print(rows_there, own=view.path / FOLDER)
    else:
        places = " or ".join(str(place) for place in places_of(view))
        remark(f"No checkpoints in {places}. epochal.Checkpoints(run, state) saves them.")
    return 0 if all(row.is_valid for row in rows) else 1


def _scanned(view: LocalRun, folder: Path) -> Iterator[tuple[str, Manifest | FormatError]]:
    """The checkpoints in a folder, without those of other runs."""
    is_own = folder == view.path / FOLDER
    for name, found in scan(folder):
        if is_own or isinstance(found, FormatError) or found.run_id == view.own_id:
            yield name, found


def _row(folder: Path, name: str, found: Manifest | FormatError, *, thorough: bool) -> Row:
    pointers: tuple[Pointer, Pointer] = ("latest", "best")
    classes = [pointer for pointer in pointers if pointed(folder, pointer) == name]
    if isinstance(found, FormatError):
        return Row(name, str(folder / name), [*classes], problem=str(found))
    return Row(
        name=name,
        path=str(folder / name),
        classes=[*classes, found.kind],
        step=found.step,
        epoch=found.epoch,
        metric=found.metric,
        bytes=found.size_bytes,
        saved=found.saved,
        run_id=found.run_id,
        attempt=found.attempt,
        world_size=found.world_size,
        problem=problem_of(folder / name, found, thorough=thorough),
    )


def _fields(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in Row.__dataclass_fields__}


def _print(rows: list[Row], *, own: Path) -> None:
    now = time.time()
    cells = [
        (
            row.name,
            ", ".join(row.classes),
            UNKNOWN if row.metric is None else format_number(row.metric),
            UNKNOWN if row.bytes is None else format_bytes(row.bytes),
            UNKNOWN if row.saved is None else format_age(now - row.saved),
            row.problem or "yes",
        )
        for row in rows
    ]
    header = ("CHECKPOINT", "CLASS", "METRIC", "SIZE", "AGE", "VALID")
    say(table(header, cells, width=terminal_columns(), shrink=(5,), right=(2, 3, 4)))
    total = sum(row.bytes or 0 for row in rows)
    folder = Path(rows[0].path).parent
    where = "" if folder == own else f" in {folder}"
    number = "1 checkpoint" if len(rows) == 1 else f"{len(rows)} checkpoints"
    remark(f"{format_bytes(total)} in {number}{where}.")
