"""Finds the one run that a person names by id, name, project/name or folder, or as ``latest``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Protocol

from epochal.errors import RunNotFoundError, UsageError
from epochal.records.format import plural
from epochal.store.bucket import BUCKET_SCHEMES

LATEST = "latest"
_SHOWN = 8
_SEPARATOR = re.compile(r"[/._ -]")
_SCHEMES = ("http://", "https://", *BUCKET_SCHEMES)


class Named(Protocol):
    """What a run can be named by."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def project(self) -> str:
        """The project that it belongs to."""

    @property
    def folder(self) -> str:
        """The folder that it lies in."""


def is_address(text: object) -> bool:
    """Whether a text is the address of runs on another machine, not a folder here."""
    return isinstance(text, str) and text.startswith(_SCHEMES)


def choose(key: str, runs: Sequence[Named]) -> int:
    """The index of the run that ``key`` names; ``runs`` are in order, the newest first.

    It is compared in this order: id, project/name, name, folder name, ``latest`` or
    ``latest:PROJECT``, start of an id, start of a name. The first comparison that fits any run
    decides; if it fits several, ``UsageError`` lists them. ``latest`` is the newest of its runs.
    """
    if not key:
        raise UsageError("a run is named by its id, name or project/name, not by ''.")
    for fits in _WAYS:
        found = [index for index, run in enumerate(runs) if fits(key, run)]
        if len(found) == 1 or (found and fits is _is_latest):
            return found[0]
        if found:
            raise UsageError(_ambiguous(key, [runs[index] for index in found]))
    raise RunNotFoundError(_not_found(key, runs))


def _folder_names(run: Named) -> tuple[str, str]:
    parts = PurePath(run.folder).parts
    return parts[-1], "/".join(parts[-2:])


def _is_latest(key: str, run: Named) -> bool:
    return key in (LATEST, f"{LATEST}:{run.project}")


_WAYS: tuple[Callable[[str, Named], bool], ...] = (
    lambda key, run: run.id == key,
    lambda key, run: f"{run.project}/{run.name}" == key,
    lambda key, run: run.name == key,
    lambda key, run: key in _folder_names(run),
    _is_latest,
    lambda key, run: run.id.startswith(key),
    lambda key, run: run.name.startswith(key),
)


def _ambiguous(key: str, runs: Sequence[Named]) -> str:
    listed = ", ".join(f"{run.project}/{run.name} (id {run.id})" for run in runs[:_SHOWN])
    more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
    return f"{key!r} fits {len(runs)} runs: {listed}{more}."


def _not_found(key: str, runs: Sequence[Named]) -> str:
    if not runs:
        return f"there is no run {key!r}: none is recorded here yet. 'epochal ls' names the folder."
    inside = sum(run.project == key for run in runs)
    if inside:
        return f"{key!r} is a project of {plural(inside, 'run')}: 'epochal ls {key}' lists them."
    names = [form for run in runs for form in (run.name, f"{run.project}/{run.name}", run.id)]
    if key.startswith(f"{LATEST}:"):
        names = [f"{LATEST}:{run.project}" for run in runs]
    hint = near_names(key, names, most=1) or " 'epochal ls' lists the runs there are."
    return f"there is no run {key!r}.{hint}"


def near_names(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """The last sentence of an error about an unknown name, " Did you mean 'val/loss'?"; else empty.

    Names with the same parts in another order come alone.
    """
    names = list(dict.fromkeys(known))
    parts = sorted(_SEPARATOR.split(name.lower()))
    near = [one for one in names if sorted(_SEPARATOR.split(one.lower())) == parts]
    near = near[:most] or difflib.get_close_matches(name, names, n=most, cutoff=0.6)
    quoted = [repr(one) for one in near]
    return f" Did you mean {' or '.join(quoted)}?" if quoted else ""
