"""Finds the run to resume, and where its earlier attempts left off, whether sealed or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.header import read_identity
from epochal.journal.layout import LOOP, PartName, RunFolder, read_json, run_folders, slugify
from epochal.journal.process import liveness
from epochal.run.current import OPEN_RUNS
from epochal.run.request import Request
from epochal.run.run import recorder_of
from epochal.segments.parts import last_step_of_part, part_records


def find_resumable(request: Request) -> RunFolder | None:
    """The newest run that the request may resume; raises when it must and there is none."""
    if request.folder is not None:
        folder = RunFolder(request.folder)
        return folder if folder.identity.exists() else None
    mode, name = request.settings.resume, request.settings.name
    key, wanted = ("name", name) if request.id is None else ("id", request.id)
    if mode == "must" and wanted is None:
        raise UsageError("resume='must' needs the name or the id of the run to continue.")
    if mode == "never" or (mode == "allow" and wanted is None):
        return None
    project = request.root / slugify(request.settings.project)
    found = newest_run(project, lambda known: wanted is None or known[key] == wanted)
    if found is not None or mode == "allow":
        return found
    what = "" if wanted is None else f"with the {key} {wanted!r} "
    raise RunNotFoundError(f"resume={mode!r}, but there is no run {what}in {project}.")


def newest_run(place: Path, fits: Callable[[Mapping[str, Any]], bool]) -> RunFolder | None:
    """The run below a folder that was written last, of those whose id, name and project fit."""
    found = [f for f in run_folders(place) if (said := read_identity(f)) and fits(said)]

    def last_written(folder: RunFolder) -> float:
        times = [folder.part_path(part).stat().st_mtime for part in folder.parts()]
        return max(times, default=folder.identity.stat().st_mtime)

    return max(found, key=last_written, default=None)


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
    tags = (*(identity.get("tags") or []), *request.settings.tags)
    identity["tags"] = list(dict.fromkeys(tags))
    for key in ("notes", "group", "job_type", "owner"):
        if (given := getattr(request.settings, key)) is not None:
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


def last_step_of(folder: RunFolder, identity: Mapping[str, Any], *, before_attempt: int) -> int:
    """The last training step rank 0 logged before the given attempt; -1 when there is none.

    Of a fork that has logged none, it is the step that it was forked after.
    """
    for name in _parts(folder, before_attempt):
        if (step := last_step_of_part(folder, name)) is not None:
            return step
    fork = identity.get("fork")
    return int(fork["step"]) if isinstance(fork, dict) else -1


def last_epoch_of(folder: RunFolder, *, before_attempt: int) -> int | None:
    """How many epochs were complete before the given attempt; None when none was logged."""
    for name in _parts(folder, before_attempt):
        epochs = [record.get("epoch") for record in part_records(folder, name, "epoch")]
        if epochs and isinstance(epochs[-1], int):
            return epochs[-1]
    return None


def _parts(folder: RunFolder, before_attempt: int) -> list[PartName]:
    """The parts of earlier attempts of rank 0, the newest first."""
    names = reversed(folder.all_parts())
    return [name for name in names if name.writer == LOOP and 0 < name.attempt < before_attempt]
