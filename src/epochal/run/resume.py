"""Continues an earlier run: resumes it with another attempt, or forks it.

Both find the run, sealed or not, and where it left off. A fork starts with a copy of the history up
to a step. The copy is attempt 0 of the fork, with the parts of every process that trained. Readers
treat it as any other attempt, so a fork does not need its parent any more.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import sync_folder
from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.blobs import copy_blob, files_of
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    is_run_folder,
    rank_of_writer,
    read_json,
    run_folders,
    slugify,
)
from epochal.journal.line import encode
from epochal.journal.process import liveness, part_header, read_identity
from epochal.journal.segments.parts import last_step_of_part, part_records
from epochal.records import axis_of, moment_of, whole_number
from epochal.run.current import OPEN_RUNS
from epochal.run.request import Request
from epochal.run.run import recorder_of

# W&B writes ``?_step=``.
_WANTED = re.compile(r"(?P<run>.+?)(?:\?_?step=(?P<step>\d+))?")
# By axis and attempt: the first step or epoch that the attempt logged again.
Takeovers = dict[str, dict[int, int]]


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
        hides = request.folder is None or request.resume_step is not None
        request.console.notice(
            f"run {identity['name']!r} is still being written by process {identity['pid']};"
            " this process adds an attempt of its own"
            + (", which hides the same and later steps of the other." if hides else ".")
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


# -- forks -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Parent:
    """A run to fork: its folder, what it recorded of itself, and the last step to keep."""

    folder: RunFolder
    identity: dict[str, Any]
    step: int
    # The configuration with the options that were set later.
    config: dict[str, Any]
    takeovers: Takeovers
    # When rank 0 logged the first step that is not kept.
    passed_t: float = math.inf

    def record(self) -> dict[str, Any]:
        """What run.json of the fork says of its parent."""
        names = {key: self.identity.get(key) for key in ("id", "name", "project")}
        return {**names, "step": self.step}

    def copy_history(self, folder: RunFolder, identity: Mapping[str, Any]) -> None:
        """Copy the history up to the step into the folder of a fork, which has none yet.

        If that fails, it raises, and no history is there.
        """
        with tempfile.TemporaryDirectory(
            dir=folder.path, prefix=".fork-", ignore_cleanup_errors=True
        ) as place:
            copy = RunFolder(Path(place))
            self._write_copy(copy, identity)
            for made in (copy.blobs, copy.journal):
                if made.exists():
                    sync_folder(made)
            if copy.blobs.exists():
                os.replace(copy.blobs, folder.blobs)
            os.replace(copy.journal, folder.journal)

    def _write_copy(self, copy: RunFolder, identity: Mapping[str, Any]) -> None:
        """Write the parts of rank 0 first, then of the others, and the blobs that they name."""
        copy.journal.mkdir()
        numbers: Counter[str] = Counter()
        for part in sorted(self.folder.all_parts(), key=lambda part: part.writer != LOOP):
            rank = rank_of_writer(part.writer)
            if rank is None and not part.writer.startswith("child-"):
                continue  # telemetry and findings are not part of the history
            name = PartName(part.writer, 0, numbers[part.writer])
            numbers[part.writer] += 1
            with copy.part_path(name).open("wb") as file:
                file.write(part_header(name, identity=identity, rank=-1 if rank is None else rank))
                file.writelines(self._kept_lines(part, copy))
                file.flush()
                os.fsync(file.fileno())

    def _kept_lines(self, part: PartName, copy: RunFolder) -> Iterator[bytes]:
        """The lines of a part that are visible in the parent, up to the step."""
        ends = {
            axis: min((at for n, at in firsts.items() if n > part.attempt), default=math.inf)
            for axis, firsts in self.takeovers.items()
        }
        for record in part_records(self.folder, part):
            kind, axis = record["log"], axis_of(record)
            at = whole_number(record.get(axis)) if axis in ends else None
            if kind == "define":
                yield encode(record)
            elif at is None or at >= ends[axis]:
                continue  # a newer attempt replaced it, or it is not part of the history
            elif axis == "step" and at > self.step:
                if part.writer == LOOP and kind in ("metrics", "step"):
                    self.passed_t = min(self.passed_t, moment_of(record))
            elif axis == "step" or moment_of(record) < self.passed_t:
                yield encode(record)
                for file in files_of(record):
                    copy_blob(file, self.folder, copy)


def find_parent(wanted: str, *, root: Path, project: str) -> Parent:
    """The run that ``fork_from`` names: ``RUN`` or ``RUN?step=N``.

    RUN is a folder, an id, ``project/name`` or a name of the project; without a step the parent's
    last one is meant.
    """
    match = _WANTED.fullmatch(wanted)
    if match is None or "?" in match["run"]:
        raise UsageError(f"fork_from={wanted!r} is not known: write 'RUN' or 'RUN?step=1000'.")
    folder = _find(match["run"], root, project)
    identity = read_json(folder.identity)
    reached = last_step_of(folder, identity, before_attempt=folder.last_attempt() + 1)
    step = reached if match["step"] is None else int(match["step"])
    if step > reached:
        has = "has no step yet" if reached < 0 else f"has reached step {reached:,}"
        raise UsageError(f"fork_from={wanted!r}: run {identity.get('name')!r} {has} only.")
    options, takeovers = _scan(folder)
    config = {**(identity.get("config") or {}), **options}
    return Parent(folder, identity, step, config, takeovers)


def _find(name: str, root: Path, project: str) -> RunFolder:
    path = Path(name).expanduser()
    if len(path.parts) > 1 and is_run_folder(path) and (path / "run.json").is_file():
        return RunFolder(path.absolute())

    def fits(said: Mapping[str, Any]) -> bool:
        return name in (said["id"], said["name"], f"{said['project']}/{said['name']}")

    found = newest_run(root / slugify(project), fits) or newest_run(root, fits)
    if found is None:
        raise RunNotFoundError(f"fork_from={name!r}: there is no such run in {root}.")
    return found


def _scan(folder: RunFolder) -> tuple[dict[str, Any], Takeovers]:
    """The options that rank 0 set after the start, and where each attempt took over."""
    options: dict[str, Any] = {}
    takeovers: Takeovers = {"step": {}, "epoch": {}}
    for part in (part for part in folder.all_parts() if part.writer == LOOP):
        for record in part_records(folder, part, "option", "resume", "epoch"):
            if record["log"] == "option":
                options[str(record.get("name"))] = record.get("value")
            for axis, firsts in takeovers.items():
                at = whole_number(record.get(axis))
                if at is not None and record["log"] == "resume":
                    firsts[part.attempt] = at
                elif at is not None and record["log"] == axis:
                    firsts.setdefault(part.attempt, at)
    return options, takeovers
