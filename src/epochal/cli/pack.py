"""``epochal pack``: seals finished parts of journals, which makes them small and quick to read.

Parts below 64 KiB stay as they are.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from epochal.cli.command import add_json, check_own, store_of
from epochal.cli.output import complain, remark, say_json
from epochal.errors import EpochalError, UsageError
from epochal.format import format_bytes
from epochal.journal.layout import RunFolder
from epochal.segments.finished import WORTH_SEALING_BYTES, sealable_parts
from epochal.segments.seal import seal_part
from epochal.store.local.run import LocalRun


@dataclass(slots=True)
class Packed:
    """What packing one run came to."""

    run: str
    parts: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    small: int = 0
    left: int = 0
    problems: list[str] = field(default_factory=list)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``pack``."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="runs to pack")
    parser.add_argument("--all", action="store_true", help="pack every run")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Seal parts that are complete; 1 when one could not be sealed."""
    if bool(args.runs) == args.all:
        raise UsageError("pack takes runs, or --all.")
    with store_of(args) as store:
        if args.all:
            chosen = [view for view in store.runs() if view.tracker is None]
        else:
            chosen = [store.run(key) for key in args.runs]
        for view in chosen:
            check_own(view)
        found = [_pack(view) for view in {view.place: view for view in chosen}.values()]
    if args.json:
        say_json(found)
    else:
        for packed in found:
            _report(packed)
    return 1 if any(packed.problems for packed in found) else 0


def _pack(view: LocalRun) -> Packed:
    from epochal.hub.ledger import is_received

    brief = view.outline()
    packed = Packed(f"{brief.project}/{brief.name}")
    folder = RunFolder(view.path)
    if is_received(folder.path, view.id):
        packed.left = len(folder.parts())
        if packed.left:
            packed.problems.append(
                "this folder belongs to a hub, and its sender may have more records of these"
                " parts. Pack the run where it was recorded, and push it again."
            )
        return packed
    for name in sealable_parts(folder):
        if folder.part_path(name).stat().st_size < WORTH_SEALING_BYTES:
            packed.small += 1
            continue
        try:
            segment = seal_part(folder, name)
        except (EpochalError, OSError) as error:
            packed.problems.append(str(error))
            continue
        packed.parts += 1
        packed.bytes_before += segment.journal_bytes
        packed.bytes_after += segment.path.stat().st_size
    packed.left = len(folder.parts()) - packed.small
    return packed


def _report(packed: Packed) -> None:
    if packed.parts:
        sizes = f"{format_bytes(packed.bytes_before)} are now {format_bytes(packed.bytes_after)}"
        remark(f"{packed.run}: {_count(packed.parts)} sealed, {sizes}.")
    if packed.left and not packed.problems:
        remark(f"{packed.run}: {_count(packed.left)} may still be written and stay as they are.")
    if packed.small:
        are = "is" if packed.small == 1 else "are"
        size = f"{WORTH_SEALING_BYTES // 1024} KiB"
        remark(f"{packed.run}: {_count(packed.small)} {are} smaller than {size} and not sealed.")
    elif not packed.parts and not packed.left and not packed.problems:
        remark(f"{packed.run}: nothing to seal.")
    for problem in packed.problems:
        complain(f"{packed.run}: {problem}")


def _count(parts: int) -> str:
    return "1 part" if parts == 1 else f"{parts} parts"
