"""Forks a run: finds it, and copies its history up to a step into the folder of the fork.

The copy is attempt 0 of the fork, with the parts of every process that trained. Readers treat it as
any other attempt, so a fork does not need its parent any more.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.atomic_file import sync_folder
from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.header import part_header
from epochal.journal.layout import (
    LOOP,
    PartName,
    RunFolder,
    is_run_folder,
    rank_of_writer,
    read_json,
    slugify,
)
from epochal.journal.line import encode
from epochal.media.files import copy_blob, files_of
from epochal.records import axis_of, moment_of, whole_number
from epochal.run.resume import last_step_of, newest_run
from epochal.segments.parts import part_records

if TYPE_CHECKING:
    from epochal.run.run import Run

# W&B writes ``?_step=``.
_WANTED = re.compile(r"(?P<run>.+?)(?:\?_?step=(?P<step>\d+))?")
# By axis and attempt: the first step or epoch that the attempt logged again.
Takeovers = dict[str, dict[int, int]]


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
        """Copy the history up to the step into the empty folder of a fork.

        If that fails, it raises and leaves no run.
        """
        try:
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
                os.replace(copy.journal, folder.journal)  # from here on it is listed as a run
        except BaseException:
            with contextlib.suppress(OSError):
                folder.path.rmdir()
            raise

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


def start_fork(run: Run, name: str | None, step: int | None, arguments: Mapping[str, Any]) -> Run:
    """Start a fork of an open run, in its folder of runs unless ``arguments`` say otherwise."""
    from epochal.run.run import recorder_of
    from epochal.run.start import init  # both import this module

    recorder = recorder_of(run)
    recorder.check_open()
    recorder.flush_values()
    at = "" if step is None else f"?step={int(step)}"
    given = {"project": run.project, "dir": run.dir.parent.parent, **arguments}
    source = f"{run.dir}{at}" if recorder.is_recorded else None
    return init(name=name or f"{run.name}-fork", fork_from=source, **given)


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
