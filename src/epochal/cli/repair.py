"""``epochal manage repair``: report and repair damage in the folders of runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from epochal.cli import options
from epochal.cli.command import data_command, own_run, runs_dir
from epochal.cli.output import one_line, remark, said_json, say
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.format import plural
from epochal.journal.layout import PartName, RunFolder, run_folders
from epochal.journal.repair import Diagnosis, diagnose, repair


@dataclass(slots=True)
class Repaired:
    """What was found in the folder of a run, and what was done about it; a sentence each."""

    run: str
    records: int = 0
    parts: int = 0
    found: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    whole: bool = True
    alive: bool = False


@data_command
@click.argument("run", metavar="[RUN]", required=False, type=options.RUN)
@click.option("--all", "every", is_flag=True, help="Every run of the folder, or of a hub's folder.")
@click.option("-n", "--dry-run", is_flag=True, help="Report, change nothing.")
def command(run: str | None, every: bool, dry_run: bool) -> int:
    """Report damage in the folder of a run and repair it.

    The exit code is 1 if damage is left.
    """
    if (run is None) != every:
        raise UsageError("repair takes a run, or --all.")
    folders = list(run_folders(runs_dir())) if every else [RunFolder(own_run(run).path)]
    root = runs_dir() if every else folders[0].path.parent.parent
    with _alone(root) as is_alone:
        may_change = is_alone and not dry_run
        results = [_repair(folder, may_change=may_change) for folder in folders]
    num_damaged = sum(not result.whole for result in results)
    if said_json(results if every else results[0]):
        return int(num_damaged > 0)
    for result in results:
        prefix = f"{one_line(result.run)}: " if every else ""
        for line in (*result.found, *result.done):
            say(f"{prefix}{line}")
        if result.alive and not result.whole:
            say(f"{prefix}The run is still being written to: nothing was changed.")
    if num_damaged and every:
        say(f"{num_damaged} of {plural(len(results), 'run')} are incomplete or damaged.")
    elif every:
        say(f"No damage was found in {plural(len(results), 'run')}.")
    elif not results[0].found:
        say(f"Nothing is damaged: {results[0].records} records in {results[0].parts} parts.")
    if num_damaged and not is_alone and not dry_run:
        remark("A hub is running over this folder. Stop it to repair what was found.")
    return int(num_damaged > 0)


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[bool]:
    """Whether no hub runs over a folder; none is started while the block runs."""
    from epochal.hub.documents import FOLDER
    from epochal.hub.ledger import only_hub

    with contextlib.ExitStack() as held:
        is_alone = not (root / FOLDER).is_dir()
        with contextlib.suppress(UsageError):
            if not is_alone:
                held.enter_context(only_hub(root))
                is_alone = True
        yield is_alone


def _repair(folder: RunFolder, *, may_change: bool) -> Repaired:
    """Examine and repair one run; a run that cannot be examined does not stop the others."""
    result = Repaired("/".join(folder.path.parts[-2:]))
    try:
        damage, uploads = diagnose(folder), _uploads(folder)
        result.records = sum(part.num_records for part in damage.parts)
        result.parts, result.alive = len(damage.parts), damage.alive
        lasting = [*_unreadable(folder), *_missing(folder)]
        result.found = [*_damage_lines(damage), *lasting]
        result.found += [
            f"{path.parent.name}/{path.name} is an unfinished upload." for path in uploads
        ]
        if may_change and not damage.alive:
            result.done = [*repair(folder, damage), *_tidy_blobs(folder)]
            for path in uploads:
                path.unlink()
                result.done.append(f"Deleted {path.parent.name}/{path.name}; push the run again.")
            damaged = [f"blobs/{path.name}: it cannot be encoded." for path in _raw(folder)]
            lasting, result.found = [*lasting, *damaged], [*result.found, *damaged]
            damage, uploads = diagnose(folder), _uploads(folder)
        result.whole = damage.is_whole and not (lasting or uploads)
    except (EpochalError, OSError) as error:
        result.found.append(f"the run cannot be repaired: {error}")
        result.whole = False
    return result


def _uploads(folder: RunFolder) -> list[Path]:
    """Files that a hub has not received to their end."""
    return sorted(folder.path.glob("*/.*.partial"))


def _tidy_blobs(folder: RunFolder) -> Iterator[str]:
    """Encode pictures that no companion encoded, and remove what an interrupted write left."""
    from epochal.media.files import encode_pending

    num_raw, left = len(_raw(folder)), list(folder.blobs.glob(".*.tmp"))
    encode_pending(folder)
    if num_encoded := num_raw - len(_raw(folder)):
        yield f"Encoded {plural(num_encoded, 'picture')}."
    for path in left:
        path.unlink(missing_ok=True)
    if left:
        yield f"Removed {plural(len(left), 'temporary file')}."


def _raw(folder: RunFolder) -> list[Path]:
    return sorted(folder.blobs.glob("*.raw"))


def _damage_lines(damage: Diagnosis) -> Iterator[str]:
    if damage.identity_problem is not None:
        yield f"{damage.identity_problem}."
    for part in damage.parts:
        if part.problem is not None:
            yield f"{part.name.stem}: {part.problem}"
        if part.damaged_lines:
            yield f"{part.name.stem}: {part.damaged_lines} damaged lines, which readers skip."
        if part.tail_bytes:
            yield f"{part.name.stem}: {part.tail_bytes} bytes at its end are not a whole record."


def _unreadable(folder: RunFolder) -> Iterator[str]:
    from epochal.segments.read import Segment

    for name in folder.sealed_parts():
        try:
            Segment(folder.sealed_path(name))
        except (FormatError, OSError) as error:
            yield f"{name.stem}: its sealed file cannot be read: {error}"


def _missing(folder: RunFolder) -> Iterator[str]:
    """Parts that must have been there: those of a writer are numbered from 0."""
    there: dict[tuple[str, int], set[int]] = {}
    for name in folder.all_parts():
        there.setdefault((name.writer, name.attempt), set()).add(name.part)
    for (writer, attempt), parts in there.items():
        for part in sorted(set(range(max(parts))) - parts):
            stem = PartName(writer, attempt, part).stem
            yield f"{stem}: this part is missing, and a later one is there."
