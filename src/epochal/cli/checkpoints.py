"""``epochal manage checkpoints``: what a run can go on from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from epochal.cli.checkpoint_places import folders_of, places_of
from epochal.cli.command import (
    check_own,
    chosen_run,
    cli_command,
    json_option,
    local_store,
    run_argument,
)
from epochal.cli.output import remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import FormatError
from epochal.format import UNKNOWN, format_bytes, format_number, plural
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


@cli_command
@run_argument
@click.option("--verify", is_flag=True, help="Read every byte and compare the checksums.")
@json_option
def command(run: str | None, verify: bool, as_json: bool) -> int:
    """List the checkpoints of a run; the exit code is 1 if one of them is damaged."""
    with local_store() as store:
        view = chosen_run(store, run)
        check_own(view)
        tables = [
            [_row(folder, *entry, thorough=verify) for entry in _scanned(view, folder)]
            for folder in dict.fromkeys([view.path / FOLDER, *folders_of(view)])
        ]
        rows = [row for rows_there in tables for row in rows_there]
        if as_json:
            say_json([{"valid": row.is_valid, **asdict(row)} for row in rows])
        elif not rows:
            places = " or ".join(map(str, places_of(view)))
            remark(f"No checkpoints in {places}. epochal.Checkpoints(run, state) saves them.")
        for rows_there in filter(None, tables) if not as_json else ():
            _print(rows_there, own=view.path / FOLDER)
    return int(not all(row.is_valid for row in rows))


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
    remark(f"{format_bytes(total)} in {plural(len(rows), 'checkpoint')}{where}.")
