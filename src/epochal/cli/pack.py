"""``epochal manage pack``: seal finished parts of journals, and summarise runs: fast to read.

Parts below 64 KiB stay as they are. What no companion watched is judged by the health rules, once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import click

from epochal.cli import options
from epochal.cli.command import ERROR, check_own, data_command, full_name, local_store, run_of
from epochal.cli.output import complain, remark, said_json
from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import RunFolder
from epochal.journal.segments.parts import WORTH_SEALING_BYTES, sealable_parts
from epochal.journal.segments.seal import seal_part
from epochal.journal.summaries import is_summarised
from epochal.records.format import format_bytes, plural
from epochal.store.run import RunView

_RECEIVED = (
    "this folder belongs to a hub, and its sender may have more records of these parts."
    " Pack the run where it was recorded, and push it again."
)


@dataclass(slots=True)
class Packed:
    """What was sealed of one run, and what was not."""

    run: str
    parts: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    small: int = 0
    left: int = 0
    judged: int = 0
    summarised: bool = False
    problems: list[str] = field(default_factory=list)


@data_command
@options.runs
@click.option("--all", "every", is_flag=True, help="Pack every run.")
def command(runs: tuple[str, ...], every: bool) -> int:
    """Seal the finished parts of runs and summarise them, so that they are small and fast to read.

    The health rules read attempts that no companion watched. The exit code is 2 if a part could not
    be sealed, or a run could not be summarised.
    """
    if bool(runs) == every:
        raise UsageError("pack takes runs, or --all.")
    store = local_store()
    if runs:
        chosen = [run_of(store, run) for run in runs]
    else:
        chosen = [view for view in store.runs() if view.tracker is None]
    found = [_pack(view, again=not every) for view in {v.place: v for v in chosen}.values()]
    for packed in () if said_json(found) else found:
        _report(packed)
    return ERROR if any(packed.problems for packed in found) else 0


def _pack(view: RunView, *, again: bool) -> Packed:
    """Pack a run; ``again``: also one whose summaries say all that was written."""
    from epochal.hub.ledger import sender_of

    packed, folder = Packed(full_name(view)), check_own(view)
    if not os.access(folder.path, os.W_OK):
        packed.problems.append("its folder cannot be written.")
        return packed
    is_hub = sender_of(folder.path, view.id) is not None
    if not is_hub and not view.status.is_live:
        packed.judged = _judge(view, folder, packed)
    if is_hub and folder.parts():
        packed.problems.append(_RECEIVED)
    for name in sealable_parts(folder) if not is_hub else ():
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
    packed.summarised = (not again and is_summarised(folder)) or _summarise(folder, packed)
    return packed


def _judge(view: RunView, folder: RunFolder, packed: Packed) -> int:
    """Judge the attempts that no companion watched; returns how many these were."""
    from epochal.companion.diagnosis import judge_attempt

    facts = view.known.facts
    attempts = {one.name.attempt for one in facts.facts if one.name.attempt > 0}
    unwatched = sorted(attempts - facts.watched())
    try:
        for attempt in unwatched:
            judge_attempt(folder, attempt)
    except (EpochalError, OSError) as error:
        packed.problems.append(str(error))
        return 0
    return len(unwatched)


def _summarise(folder: RunFolder, packed: Packed) -> bool:
    from epochal.journal.summaries import write_summaries

    try:
        if write_summaries(folder):
            return True
        packed.problems.append("its summary.json or metrics.json cannot be written.")
    except (EpochalError, OSError) as error:
        packed.problems.append(f"it cannot be summarised: {error}")
    return False


def _report(packed: Packed) -> None:
    lines = []
    if packed.parts:
        sizes = f"{format_bytes(packed.bytes_before)} are now {format_bytes(packed.bytes_after)}"
        lines.append(f"{plural(packed.parts, 'part')} sealed, {sizes}.")
    if packed.left and not packed.problems:
        lines.append(f"{plural(packed.left, 'part')} may still be written and stay as they are.")
    if packed.small:
        are, size = "is" if packed.small == 1 else "are", format_bytes(WORTH_SEALING_BYTES)
        lines.append(f"{plural(packed.small, 'part')} {are} smaller than {size} and not sealed.")
    if packed.judged:
        attempts = plural(packed.judged, "attempt")
        lines.append(f"the health rules have read {attempts} that no companion had watched.")
    for line in lines or (["nothing to seal."] if not packed.problems else []):
        remark(f"{packed.run}: {line}")
    for problem in packed.problems:
        complain(f"{packed.run}: {problem}")
