"""``epochal checkpoints``: what a run can go on from."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from epochal.cli.command import add_json, add_run, own_folder_of, print_json
from epochal.cli.table import table, terminal_columns
from epochal.console.verbosity import msg
from epochal.errors import FormatError
from epochal.format import UNKNOWN, format_bytes, format_number
from epochal.store.status import format_age
from epochal.torch.manifest import FOLDER, Manifest, Pointer, pointed, problem_of, scan


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
    folder = own_folder_of(args).path / FOLDER
    rows = [_row(folder, name, manifest, thorough=args.verify) for name, manifest in scan(folder)]
    if args.json:
        print_json([{"valid": row.is_valid, **_fields(row)} for row in rows])
    elif rows:
        _print(rows)
    else:
        msg("%s", f"No checkpoints in {folder}. epochal.Checkpoints(run, state) makes them.")
    return 0 if all(row.is_valid for row in rows) else 1


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


def _print(rows: list[Row]) -> None:
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
    print(table(header, cells, width=terminal_columns(), shrink=(5,), right=(2, 3, 4)))
    total = sum(row.bytes or 0 for row in rows)
    msg("%s", f"{format_bytes(total)} in {len(rows)} checkpoints.")
