"""Fault packs: tasks and faults that anybody can write, in a folder of their own.

A pack has three files. ``tasks.py`` has ``TASKS``, a sequence of subclasses of
``benchmarks.clinic.task.Task``; ``faults.py`` has ``FAULTS``, a sequence of
``benchmarks.clinic.faults.Fault``. ``criteria.json`` says of each fault what counts as right:

    {"half_learning_rate": {"rules": ["lr-too-low"], "words": ["rate.*too low"], "symptom": []}}

The criteria are written before the results: the first run keeps their digest beside the journals,
and nothing is judged by other ones.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.clinic.accepted import ACCEPTED, Accepted
from benchmarks.clinic.faults import FAULTS, Fault
from benchmarks.clinic.plan import HEALTHY
from benchmarks.clinic.task import Task
from benchmarks.clinic.tasks import TASKS, UNSEEN

CRITERIA = "criteria.json"
_DIGEST = "criteria.sha256"


class PackError(ValueError):
    """A pack that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class Pack:
    """The tasks and faults of a folder, and what counts as right about each fault."""

    tasks: dict[str, type[Task]]
    faults: dict[str, Fault]
    accepted: dict[str, Accepted]
    digest: str


def load_pack(folder: Path) -> Pack:
    """Read a pack; raises ``PackError`` where something is missing or a name is taken."""
    tasks = {task.name: task for task in _named(folder / "tasks.py", "TASKS")}
    faults = {fault.name: fault for fault in _named(folder / "faults.py", "FAULTS")}
    try:
        text = (folder / CRITERIA).read_bytes()
        accepted = {name: _criteria(name, given) for name, given in json.loads(text).items()}
    except (OSError, ValueError, AttributeError) as problem:
        raise PackError(f"{folder / CRITERIA} cannot be read: {problem}") from problem
    if missing := sorted(faults.keys() ^ accepted.keys()):
        raise PackError(f"{CRITERIA} and faults.py differ in {', '.join(missing)}.")
    taken = {*TASKS, *UNSEEN, *FAULTS, HEALTHY}
    for name in (*tasks, *faults):
        if name in taken or "-" in name or "/" in name:
            raise PackError(f"{name!r} is a name of the clinic, or has '-' or '/' in it.")
    return Pack(tasks, faults, accepted, hashlib.sha256(text).hexdigest())


def register(pack: Pack) -> None:
    """Make the names of a pack known in this process, and in those forked from it."""
    TASKS.update(pack.tasks)
    FAULTS.update(pack.faults)
    ACCEPTED.update(pack.accepted)


def keep_digest(pack: Pack, folder: Path) -> None:
    """Keep the digest of the criteria before the first result; raises if it has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _DIGEST
    if not path.exists():
        path.write_text(pack.digest)
    check_digest(pack, folder)


def check_digest(pack: Pack, folder: Path) -> None:
    """Raise ``PackError`` unless results were made after these criteria."""
    path = folder / _DIGEST
    if not path.exists() or path.read_text() != pack.digest:
        raise PackError(
            f"{CRITERIA} is not what it was before the results in {folder}: use another --out"
            " and run the pack again."
        )


def _named(path: Path, name: str) -> Sequence[Any]:
    """A sequence that a Python file defines."""
    spec = importlib.util.spec_from_file_location(f"clinic_pack_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise PackError(f"{path} is missing.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(getattr(module, name, ()))


def _criteria(name: str, given: Any) -> Accepted:
    fields = {"rules", "words", "symptom"}
    if not isinstance(given, dict) or not given.keys() <= fields or not given.get("rules"):
        raise PackError(f"the criteria of {name!r} need rules, and may have words and symptom.")
    return Accepted(**{field: tuple(map(str, values)) for field, values in given.items()})
