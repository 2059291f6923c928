"""Finds the run to resume, and where its earlier attempts left off, whether sealed or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.header import read_identity
from epochal.journal.layout import LOOP, PartName, RunFolder, read_json, run_folders, slugify
from epochal.journal.process import liveness
from epochal.journal.tail import last_epoch_in, last_step_in
from epochal.run.current import OPEN_RUNS
from epochal.run.request import Request
from epochal.run.run import recorder_of


def find_resumable(request: Request) -> RunFolder | None:
    """The newest run that the request may resume; raises when it must and there is none."""
    if request.run_folder is not None:
        folder = RunFolder(request.run_folder)
        return folder if folder.identity.exists() else None
    if request.resume == "never":
        return None
    is_known = request.named or request.id is not None
    if request.resume == "must" and not is_known:
        raise UsageError("resume='must' needs the name or the id of the run to go on with.")
    if request.resume == "allow" and not is_known:
        return None
    project = request.root / slugify(request.project)
    if request.id is not None:
        found = newest_run(project, lambda said: said["id"] == request.id)
    else:
        found = newest_run(project, lambda said: not request.named or said["name"] == request.name)
    if found is not None or request.resume == "allow":
        return found
    what = f"named {request.name!r} " if request.named else ""
    what = what if request.id is None else f"with the id {request.id!r} "
    raise RunNotFoundError(f"resume={request.resume!r}, but there is no run {what}in {project}.")


def newest_run(place: Path, fits: Callable[[Mapping[str, Any]], bool]) -> RunFolder | None:
    """The run below a folder that was written last, of those whose id, name and project fit."""
    found = [f for f in run_folders(place) if (said := read_identity(f)) and fits(said)]
    return max(found, key=_last_written, default=None)


def _last_written(folder: RunFolder) -> float:
    times = [folder.part_path(part).stat().st_mtime for part in folder.parts()]
    return max(times, default=folder.identity.stat().st_mtime)


def resumed_identity(folder: RunFolder, request: Request) -> tuple[dict[str, Any], int]:
    """The identity of a run with what the request adds, and the number of the new attempt."""
    _finish_here(folder)
    identity = read_json(folder.identity)
    if liveness(identity) == "alive" and identity.get("pid") != os.getpid():
        request.console.notice(
            f"run {identity['name']!r} is still being written by process {identity['pid']};"
            " this process adds an attempt of its own."
        )
    identity["config"] = {**(identity.get("config") or {}), **request.config}
    identity["totals"] = {**(identity.get("totals") or {}), **request.totals.as_record()}
    identity["tags"] = list(dict.fromkeys([*(identity.get("tags") or []), *request.tags]))
    for key in ("notes", "group", "job_type", "owner"):
        if (given := getattr(request, key)) is not None:
            identity[key] = given
    return identity, folder.last_attempt() + 1


def _finish_here(folder: RunFolder) -> None:
    """Finish the run in a folder if this process has it open: a run has one attempt at a time."""
    for run in OPEN_RUNS:
        recorder = recorder_of(run)
        if recorder.is_of_this_process and run.dir == folder.path:
            recorder.console.notice(
                f"run {run.name!r} is finished before it is resumed: this process had it open."
            )
            run.finish(reason="it is resumed by the same process")


def last_step_of(folder: RunFolder, *, before_attempt: int) -> int:
    """The last training step rank 0 logged before the given attempt; -1 when there is none."""
    for name, is_sealed in _parts(folder, before_attempt):
        step = _sealed_step(folder, name) if is_sealed else last_step_in(folder.part_path(name))
        if step is not None:
            return step
    return -1


def last_epoch_of(folder: RunFolder, *, before_attempt: int) -> int | None:
    """How many epochs were complete before the given attempt; None when none was logged."""
    for name, is_sealed in _parts(folder, before_attempt):
        epoch = _sealed_epoch(folder, name) if is_sealed else last_epoch_in(folder.part_path(name))
        if epoch is not None:
            return epoch
    return None


def _parts(folder: RunFolder, before_attempt: int) -> Iterator[tuple[PartName, bool]]:
    """The parts of earlier attempts of rank 0, the newest first, and whether each is sealed."""
    unsealed = set(folder.parts())
    for name in sorted({*unsealed, *folder.sealed_parts()}, reverse=True):
        if name.writer == LOOP and 0 < name.attempt < before_attempt:
            yield name, name not in unsealed


def _sealed_step(folder: RunFolder, name: PartName) -> int | None:
    from epochal.segments.read import Segment  # loads pyarrow, and only a resumed run needs it

    with Segment(folder.sealed_path(name)) as segment:
        extents = segment.footer.extents
    steps = [extents[kind].step for kind in ("metrics", "step") if kind in extents]
    return max((step for step in steps if step is not None), default=None)


def _sealed_epoch(folder: RunFolder, name: PartName) -> int | None:
    from epochal.segments.read import Segment

    with Segment(folder.sealed_path(name)) as segment:
        epochs = [record.get("epoch") for _, record in segment.entries("epoch")]
    return next((epoch for epoch in reversed(epochs) if isinstance(epoch, int)), None)
