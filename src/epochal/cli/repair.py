"""``epochal repair``: reports and repairs damage in a run's folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from epochal.cli.command import add_json, add_run, own_folder_of
from epochal.cli.output import say, say_json
from epochal.journal.repair import Diagnosis, PartDamage, diagnose, repair

_TAILS = {
    "torn": "a record cut short",
    "nul": "a stretch that the file system lost",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``repair``."""
    add_run(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="report, change nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Report damage and repair it; 1 when damage is left."""
    folder = own_folder_of(args)
    found = diagnose(folder)
    may_repair = not (args.dry_run or found.alive)
    done = repair(folder, found) if may_repair else []
    left = diagnose(folder) if done else found
    if args.json:
        say_json({"found": found, "done": done, "whole": left.is_whole})
    else:
        for line in (*_report(found), *done):
            say(line)
        if found.alive and not found.is_whole and not args.dry_run:
            say("The run is still being written to: nothing was changed.")
    return 0 if left.is_whole else 1


def _report(found: Diagnosis) -> Iterator[str]:
    if found.is_whole:
        records = sum(part.num_records for part in found.parts)
        yield f"Nothing is damaged: {records} records in {len(found.parts)} parts."
    if found.identity_problem is not None:
        yield f"{found.identity_problem}."
    for part in found.parts:
        yield from _part_lines(part)


def _part_lines(part: PartDamage) -> Iterator[str]:
    if part.problem is not None:
        yield f"{part.name.stem}: {part.problem}"
    if part.damaged_lines:
        yield f"{part.name.stem}: {part.damaged_lines} damaged lines, which readers skip."
    if part.tail is not None:
        yield f"{part.name.stem}: {part.tail_bytes} bytes at its end are {_TAILS[part.tail]}."
