"""``epochal manage verify`` and ``manage repair``: damage in the folders of runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from epochal.base.guard import attempt, describe
from epochal.cli import options
from epochal.cli.checkpoints import folders_of, scanned
from epochal.cli.command import data_command, own_run, runs_dir
from epochal.cli.output import one_line, remark, said_json, say
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.journal import repair as journal_repair
from epochal.journal.layout import RunFolder, json_or_empty, parse_part_name, run_folders
from epochal.journal.segments.verify import Fault, Verification, verify_run
from epochal.records.format import plural
from epochal.settings import read_settings
from epochal.shipping.client import HubClient, HubError, check_url, hub_token, linked_token
from epochal.shipping.copies import HubCopy, hub_of, seal_again
from epochal.store.local.trash import FolderTrash
from epochal.torch.checkpoint.manifest import FOLDER, Manifest, pointed, problem_of

_COPIED = ("journal/", "segments/", "blobs/")


@dataclass(slots=True)
class Verified:
    """What was read of a run, what is wrong with it, and what was done about that.

    ``unknown`` counts files whose content has no checksum.
    """

    run: str
    records: int = 0
    parts: int = 0
    files: int = 0
    checkpoints: int = 0
    unknown: int = 0
    faults: list[Fault] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    whole: bool = True
    alive: bool = False


_EVERY = click.option(
    "--all", "every", is_flag=True, help="Every run of the folder, or of a hub's folder."
)
_RUN = click.argument("run", metavar="[RUN]", required=False, type=options.RUN)


@data_command
@_RUN
@_EVERY
def verify(run: str | None, every: bool) -> int:
    """Read everything that a run recorded, and report what is damaged; changes nothing.

    Journals, segments, files and checkpoints are compared with their formats and checksums. The
    exit code is 1 if something is damaged. The newest run is taken by default.
    """
    folders = _folders("verify", run if run or every else "latest", every)
    results = [_verified(folder) for folder in folders]
    is_damaged = _report(results, every=every)
    if is_damaged:
        which = "--all" if every else one_line(results[0].run)
        remark(f"'epochal manage repair {which}' repairs what it can.")
    return int(is_damaged)


@data_command
@_RUN
@_EVERY
def repair(run: str | None, every: bool) -> int:
    """Verify a run, and repair what is damaged from its journal or from its hub.

    The exit code is 1 if damage is left.
    """
    folders = _folders("repair", run, every)
    root = runs_dir() if every else folders[0].path.parent.parent
    with _alone(root) as is_alone:
        results = [_repaired(folder) if is_alone else _verified(folder) for folder in folders]
    is_damaged = _report(results, every=every)
    if is_damaged and not is_alone:
        remark("A hub is running over this folder. Stop it to repair what was found.")
    return int(is_damaged)


def _folders(command: str, run: str | None, every: bool) -> list[RunFolder]:
    if (run is None) != every:
        raise UsageError(f"{command} takes either a run or --all.")
    return list(run_folders(runs_dir())) if run is None else [RunFolder(own_run(run).path)]


def _report(results: list[Verified], *, every: bool) -> bool:
    """Print what was found and done; whether any run is damaged."""
    num_damaged = sum(not result.whole for result in results)
    if said_json(results if every else results[0]):
        return num_damaged > 0
    for result in results:
        prefix = f"{one_line(result.run)}: " if every else ""
        for fault in result.faults:
            say(f"{prefix}{_sentence(fault)}")
        for line in result.done:
            say(f"{prefix}{line}")
        if result.alive and not result.whole:
            say(f"{prefix}The run is still being written to: nothing was changed.")
    is_mended = not num_damaged and any(result.faults for result in results)
    if is_mended:
        say("What was damaged is repaired.")
    elif not every and not num_damaged:
        say(f"Nothing is damaged: {_extent(results[0])}.")
    if not every:
        return num_damaged > 0
    num_trashed = len(FolderTrash([runs_dir()]).runs())
    if num_trashed:
        say(f"{plural(num_trashed, 'run')} in the trash: not read.")
    if not results:
        say(f"There is no run of Epochal in {runs_dir()}.")
    elif num_damaged:
        say(f"{num_damaged} of {plural(len(results), 'run')} are incomplete or damaged.")
    elif not is_mended:
        say(f"No damage was found in {plural(len(results), 'run')}.")
    return num_damaged > 0


def _sentence(fault: Fault) -> str:
    records = "" if fault.records is None else f" ({plural(fault.records, 'record')})"
    is_only = fault.copy is None and not fault.lost and fault.file.startswith(_COPIED)
    copy = "" if fault.copy is None else f" A copy: {fault.copy}."
    copy = " No other copy is known." if is_only else copy
    file = "" if fault.file == "." else f"{fault.file}: "
    return f"{file}{fault.problem.rstrip('.')}{records}.{copy}"


def _extent(result: Verified) -> str:
    counts = [f"{plural(result.records, 'record')} in {plural(result.parts, 'part')}"]
    counts += [plural(result.files, "file")] if result.files else []
    counts += [plural(result.checkpoints, "checkpoint")] if result.checkpoints else []
    unknown = f"; {plural(result.unknown, 'file')} of them without a checksum"
    growing = "; the run is still being written to"
    return f"{', '.join(counts)}{unknown * bool(result.unknown)}{growing * result.alive}"


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[bool]:
    """Whether no hub runs over a folder; none is started while the block runs."""
    from epochal.hub.documents import FOLDER as HUB
    from epochal.hub.ledger import only_hub

    with contextlib.ExitStack() as held:
        is_alone = not (root / HUB).is_dir()
        with contextlib.suppress(UsageError):
            if not is_alone:
                held.enter_context(only_hub(root))
                is_alone = True
        yield is_alone


# -- verifying ------------------------------------------------------------------------------------


def _verified(folder: RunFolder) -> Verified:
    """Verify one run; one that cannot be read does not stop the others."""
    return _look(folder)[0]


def _look(folder: RunFolder) -> tuple[Verified, Verification | None]:
    result = Verified("/".join(folder.path.parts[-2:]))
    found, error = attempt(_read_all, folder, result)
    if error is not None:
        is_ours = isinstance(error, (EpochalError, OSError))
        words = str(error) if is_ours else describe(error)
        result.faults = [Fault(".", f"the run cannot be read: {words}")]
    result.whole = not result.faults
    return result, found


def _read_all(folder: RunFolder, result: Verified) -> Verification:
    found = verify_run(folder)
    result.records, result.parts = found.num_records, found.num_parts
    result.files, result.unknown = found.num_blobs, found.num_unknown
    result.alive = found.diagnosis.alive
    faults = [*found.faults, *_uploads(folder), *_checkpoint_faults(folder, found, result)]
    copies = _Copies(folder, faults)
    result.faults = [replace(fault, copy=fault.copy or copies.of(fault)) for fault in faults]
    return found


def _uploads(folder: RunFolder) -> Iterator[Fault]:
    """Files that a hub has not received to their end."""
    for path in sorted(folder.path.glob("*/.*.partial")):
        yield Fault(f"{path.parent.name}/{path.name}", "this is an unfinished upload")


def _checkpoint_faults(folder: RunFolder, found: Verification, result: Verified) -> Iterator[Fault]:
    identity, own = json_or_empty(folder.identity), folder.path / FOLDER
    for place in folders_of(own, str(identity.get("cwd") or ""), found.checkpoints):
        shown = FOLDER if place == own else str(place)
        there = list(scanned(place, None if place == own else str(identity.get("id"))))
        problems = {name: _problem(place / name, manifest) for name, manifest in there}
        result.checkpoints += len(problems)
        whole = [name for name, problem in problems.items() if problem is None]
        copy = f"{whole[-1]} is whole, and restore(fallback=True) finds it" if whole else None
        for name, problem in problems.items():
            if problem is not None and (place / name).exists():  # not removed meanwhile
                yield Fault(f"{shown}/{name}", problem, copy=copy)
        latest = pointed(place, "latest")
        if (place / "latest").exists() and not (place / (latest or "-")).exists():
            named = (
                "names no checkpoint" if latest is None else f"names {latest}, which is not there"
            )
            yield Fault(f"{shown}/latest", named, copy=copy)


def _problem(path: Path, manifest: Manifest | FormatError) -> str | None:
    if isinstance(manifest, FormatError):
        return str(manifest)
    try:
        return problem_of(path, manifest, thorough=True)
    except OSError as error:
        return str(error)


class _Copies:
    """Where good copies of the files of a run may be."""

    def __init__(self, folder: RunFolder, faults: list[Fault]) -> None:
        self._folder = folder
        self._hub = hub_of(folder) if faults else None
        self._sender: str | None = None
        identity = json_or_empty(folder.identity)
        if faults and identity.get("id"):
            from epochal.hub.ledger import sender_of

            self._sender, _ = attempt(sender_of, folder.path, str(identity["id"]))
        self._host = str(identity.get("host") or "its machine")

    def of(self, fault: Fault) -> str | None:
        """A sentence without its end; None where none is known."""
        if fault.lost or not fault.file.startswith(_COPIED):
            return None
        part = parse_part_name(Path(fault.file).name, ".parquet")
        if part is not None and self._folder.part_path(part).exists():
            return f"journal/{part.stem}.jsonl, which this file was made of"
        if self._hub is not None:
            return f"the hub {self._hub} has this run"
        if self._sender is not None:
            push = "'epochal hub push' there sends it again"
            return f"{self._host} sent this run as {self._sender!r}; {push}"
        return None


# -- repairing ------------------------------------------------------------------------------------


def _repaired(folder: RunFolder) -> Verified:
    """Verify and repair one run; one that cannot be repaired does not stop the others."""
    before, found = _look(folder)
    if found is None or found.diagnosis.alive:
        return before
    done: list[str] = []
    error = attempt(_repair, folder, found, before.faults, done)[1]
    if error is not None:
        words = str(error) if isinstance(error, (EpochalError, OSError)) else describe(error)
        done.append(f"The repair stopped: {words.rstrip('.')}.")
    result = _look(folder)[0] if before.faults or done else before
    result.done = done
    left = {fault.file: fault for fault in result.faults}
    result.faults = list({**{fault.file: fault for fault in before.faults}, **left}.values())
    return result


def _repair(folder: RunFolder, found: Verification, faults: list[Fault], done: list[str]) -> None:
    done += journal_repair.repair(folder, found.diagnosis)
    done += _tidy_blobs(folder)
    for path in folder.path.glob("*/.*.partial"):
        path.unlink()
        done.append(f"Deleted {path.parent.name}/{path.name}; push the run again.")
    named = [fault.file for fault in faults if fault.copy and fault.file.startswith(_COPIED)]
    for file in named:
        part = parse_part_name(Path(file).name, ".parquet")
        if part is not None and folder.part_path(part).exists():
            _try(file, done, "made again from its journal part", seal_again, folder, part)
            named = [name for name in named if name != file]
    address = hub_of(folder)
    if address is None or not named:
        return
    settings = read_settings()
    if settings.hub is None or check_url(settings.hub) != address:
        # A folder that came from elsewhere must not decide who gets the token.
        done.append(f"Nothing was fetched: the setting hub.url is not {address}.")
        return
    token = linked_token(settings.hub) or hub_token(settings)
    with contextlib.closing(HubClient(address, token)) as client:
        copy = HubCopy(client, folder)
        for file in named:
            _try(file, done, f"fetched from the hub {address}", copy.restore, file)


def _try(
    file: str, done: list[str], success: str, action: Callable[..., object], *args: Any
) -> None:
    """Repair one file, and note whether that worked; a hub that fails ends the repair."""
    try:
        action(*args)
    except HubError:
        raise
    except (EpochalError, OSError) as error:
        success = f"not repaired: {str(error).rstrip('.')}"
    done.append(f"{file}: {success}.")


def _tidy_blobs(folder: RunFolder) -> Iterator[str]:
    """Encode pictures that no companion encoded, and remove what an interrupted write left."""
    from epochal.journal.blobs import encode_pending

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
