"""Forks a run: finds it and the step after which the fork continues."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.errors import RunNotFoundError, UsageError, ValueTypeError
from epochal.journal.layout import LOOP, RunFolder, is_run_folder, read_json, run_folders, slugify
from epochal.journal.line import decode
from epochal.run.resume import last_step_of

if TYPE_CHECKING:
    from epochal.run.run import Run

_OPTION = b'"log":"option"'
# W&B writes ``?_step=``.
_WANTED = re.compile(r"(?P<run>.+?)(?:\?_?step=(?P<step>\d+))?")


@dataclass(frozen=True, slots=True)
class Parent:
    """A run to fork: its folder, what it recorded of itself, and the last step to keep."""

    folder: RunFolder
    identity: dict[str, Any]
    step: int

    def record(self, child: Path) -> dict[str, Any]:
        """What run.json of the fork says of its parent."""
        return {
            **{key: self.identity.get(key) for key in ("id", "name", "project")},
            "step": self.step,
            "path": os.path.relpath(self.folder.path, child),
        }

    def config(self) -> dict[str, Any]:
        """The configuration of the parent, options set later included."""
        return {**(self.identity.get("config") or {}), **_options(self.folder)}


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


def find_parent(wanted: Any, *, root: Path, project: str) -> Parent:
    """The run that ``fork_from`` names: ``RUN`` or ``RUN?step=N``.

    RUN is a folder, an id, ``project/name`` or a name of the project; without a step the parent's
    last one is meant.
    """
    if not isinstance(wanted, str):
        raise ValueTypeError(f"fork_from must be a text, not {type(wanted).__name__}.")
    match = _WANTED.fullmatch(wanted)
    if match is None or "?" in match["run"]:
        raise UsageError(f"fork_from={wanted!r} is not known: write 'RUN' or 'RUN?step=1000'.")
    folder = _find(match["run"], root, project)
    identity = read_json(folder.identity)
    reached = _reached(folder, identity)
    step = reached if match["step"] is None else int(match["step"])
    if step > reached:
        has = "has no step yet" if reached < 0 else f"has reached step {reached:,}"
        raise UsageError(f"fork_from={wanted!r}: run {identity.get('name')!r} {has} only.")
    return Parent(folder, identity, step)


def _find(name: str, root: Path, project: str) -> RunFolder:
    path = Path(name).expanduser()
    if len(path.parts) > 1 and is_run_folder(path) and (path / "run.json").is_file():
        return RunFolder(path.absolute())
    own = list(_named(name, root / slugify(project)))
    found = own or list(_named(name, root))
    if not found:
        raise RunNotFoundError(f"fork_from={name!r}: there is no such run in {root}.")
    return max(found, key=lambda folder: folder.identity.stat().st_mtime)


def _named(name: str, place: Path) -> list[RunFolder]:
    found: list[RunFolder] = []
    for folder in run_folders(place) if place.is_dir() else ():
        if not folder.identity.is_file():
            continue
        said = read_json(folder.identity)
        own = str(said.get("name"))
        if name in (said.get("id"), own, f"{said.get('project')}/{own}"):
            found.append(folder)
    return found


def _reached(folder: RunFolder, identity: dict[str, Any]) -> int:
    """The last step of a run; of a fork that has logged none, the step it was forked after."""
    step = last_step_of(folder, before_attempt=folder.last_attempt() + 1)
    fork = identity.get("fork")
    inherited = fork.get("step") if step < 0 and isinstance(fork, dict) else None
    return inherited if isinstance(inherited, int) else step


def _options(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = {}
    unsealed = set(folder.parts())
    for name in sorted({*unsealed, *folder.sealed_parts()}):
        if name.writer != LOOP:
            continue
        if name not in unsealed:
            from epochal.segments.read import Segment  # loads pyarrow, for sealed parents only

            with Segment(folder.sealed_path(name)) as segment:
                records = [record for _, record in segment.entries("option")]
        else:
            with folder.part_path(name).open("rb") as lines:
                records = [r for line in lines if _OPTION in line and (r := decode(line))]
        found.update((str(one.get("name")), one.get("value")) for one in records)
    return found
