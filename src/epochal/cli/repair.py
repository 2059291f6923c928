"""``epochal repair``: reports and repairs damage in the folder of a run, or of every run."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from epochal.cli.command import add_json, own_folder_of, runs_dir
from epochal.cli.output import one_line, remark, say, say_json
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.journal.layout import PartName, RunFolder, run_folders
from epochal.journal.repair import PartDamage, diagnose, repair

_BEGINNING_S = 600.0


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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``repair``."""
    parser.add_argument("run", metavar="RUN", nargs="?", help="the run to repair")
    parser.add_argument(
        "--all", action="store_true", help="every run of the folder, which may be that of a hub"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="report, change nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Report damage and repair it; 1 when damage is left."""
    if (args.run is None) != args.all:
        raise UsageError("repair takes a run, or --all.")
    root = runs_dir(args)
    folders = list(run_folders(root)) if args.all else [own_folder_of(args)]
    root = root if args.all else folders[0].path.parent.parent
    with _alone(root) as is_alone:
        may_change = is_alone and not args.dry_run
        results = [_repair(folder, root, may_change=may_change) for folder in folders]
        if args.all:
            results += [_remove_empty(folder, may_change=may_change) for folder in _empty(root)]
    if args.json:
        say_json(results if args.all else results[0])
    else:
        for result in results:
            _report(result, is_one=not args.all)
        if args.all:
            _report_all(results)
        if not (is_alone or args.dry_run or all(result.whole for result in results)):
            remark("A hub is running over this folder. Stop it to repair what was found.")
    return 0 if all(result.whole for result in results) else 1


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[bool]:
    """Whether no hub runs over a folder; none is started while the block runs."""
    from epochal.hub.ledger import FOLDER, only_hub

    with contextlib.ExitStack() as held:
        is_alone = True
        if (root / FOLDER).is_dir():
            try:
                held.enter_context(only_hub(root))
            except UsageError:
                is_alone = False
        yield is_alone


def _repair(folder: RunFolder, root: Path, *, may_change: bool) -> Repaired:
    """Examine and repair one run; a run that cannot be examined does not stop the others."""
    result = Repaired("/".join(folder.path.parts[-2:]))
    try:
        _examine(result, folder, root, may_change=may_change)
    except (EpochalError, OSError) as error:
        result.found.append(f"the run cannot be repaired: {error}")
        result.whole = False
    return result


def _examine(result: Repaired, folder: RunFolder, root: Path, *, may_change: bool) -> None:
    from epochal.hub.inbox import interrupted_uploads, settle_upload

    found, uploads = diagnose(folder), list(interrupted_uploads(folder))
    result.records = sum(part.num_records for part in found.parts)
    result.parts, result.alive = len(found.parts), found.alive
    if found.identity_problem is not None:
        result.found.append(f"{found.identity_problem}.")
    for part in found.parts:
        result.found += _part_lines(part)
    for upload in uploads:
        state = "complete, but not under its name" if upload.is_whole else "incomplete"
        result.found.append(f"{upload.kind}/{upload.name}: an upload of it is {state}.")
    lasting = [*_unreadable(folder), *_missing(folder)]
    result.found += lasting
    is_whole = found.is_whole
    if may_change and not found.alive:
        result.done += repair(folder, found)
        for upload in uploads:
            result.done.append(settle_upload(root, upload))
        is_whole, uploads = diagnose(folder).is_whole, list(interrupted_uploads(folder))
    result.whole = is_whole and not (lasting or uploads)


def _empty(root: Path) -> Iterator[Path]:
    """Folders without a file that are not new: a run was about to begin there, and never did."""
    for folder in root.glob("[!.]*/[!.]*"):
        is_old = time.time() - folder.stat().st_mtime > _BEGINNING_S
        if is_old and folder.is_dir() and not any(folder.iterdir()):
            yield folder


def _remove_empty(folder: Path, *, may_change: bool) -> Repaired:
    result = Repaired("/".join(folder.parts[-2:]), whole=may_change)
    result.found.append("the folder is empty: a run was about to begin, and never did.")
    if may_change:
        folder.rmdir()
        result.done.append("deleted the empty folder.")
    return result


def _part_lines(part: PartDamage) -> Iterator[str]:
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
    for name in (*folder.parts(), *folder.sealed_parts()):
        there.setdefault((name.writer, name.attempt), set()).add(name.part)
    for (writer, attempt), parts in there.items():
        for part in sorted(set(range(max(parts))) - parts):
            stem = PartName(writer, attempt, part).stem
            yield f"{stem}: this part is missing, and a later one is there."


def _report(result: Repaired, *, is_one: bool) -> None:
    prefix = "" if is_one else f"{one_line(result.run)}: "
    if is_one and not result.found:
        say(f"Nothing is damaged: {result.records} records in {result.parts} parts.")
    for line in (*result.found, *result.done):
        say(f"{prefix}{line}")
    if result.alive and not result.whole:
        say(f"{prefix}The run is still being written to: nothing was changed.")


def _report_all(results: list[Repaired]) -> None:
    num_damaged = sum(1 for result in results if not result.whole)
    if num_damaged:
        say(f"{num_damaged} of {len(results)} runs are incomplete or damaged.")
    else:
        say(f"No damage was found in {len(results)} {'run' if len(results) == 1 else 'runs'}.")
