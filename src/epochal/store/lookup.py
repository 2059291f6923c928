"""Finds the one run that a person names by id, name, project/name or folder."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Protocol

from epochal.errors import RunNotFoundError, UsageError

_SHOWN = 8
_SCHEMES = ("http://", "https://")


def is_address(text: object) -> bool:
    """Whether a text is the address of runs on another machine, not a folder here."""
    return isinstance(text, str) and text.startswith(_SCHEMES)


class Named(Protocol):
    """What a run is found by."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def project(self) -> str:
        """The project it belongs to."""

    @property
    def folder(self) -> str:
        """Where it lies."""


def choose(key: str, runs: Sequence[Named]) -> int:
    """The index of the run that ``key`` names.

    It is compared in this order: id, project/name, name, folder name, start of an id, start of a
    name. The first comparison that fits any run decides; if it fits several, ``UsageError`` lists
    them.
    """
    if not key:
        raise UsageError("a run is named by its id, name, project/name or folder, not by ''.")
    for fits in _WAYS:
        found = [index for index, run in enumerate(runs) if fits(key, run)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(_ambiguous(key, [runs[index] for index in found]))
    raise RunNotFoundError(_not_found(key, runs))


def _folder_names(run: Named) -> tuple[str, str]:
    parts = PurePath(run.folder).parts
    return parts[-1], "/".join(parts[-2:])


_WAYS: tuple[Callable[[str, Named], bool], ...] = (
    lambda key, run: run.id == key,
    lambda key, run: f"{run.project}/{run.name}" == key,
    lambda key, run: run.name == key,
    lambda key, run: key in _folder_names(run),
    lambda key, run: run.id.startswith(key),
    lambda key, run: run.name.startswith(key),
)


def _ambiguous(key: str, runs: Sequence[Named]) -> str:
    listed = ", ".join(f"{run.project}/{run.name} (id {run.id})" for run in runs[:_SHOWN])
    more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
    return f"{key!r} fits {len(runs)} runs: {listed}{more}."


def _not_found(key: str, runs: Sequence[Named]) -> str:
    if not runs:
        return f"there is no run {key!r}, nor any other run here."
    names = [form for run in runs for form in (run.name, f"{run.project}/{run.name}", run.id)]
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else " 'epochal ls' lists the runs there are."
    return f"there is no run {key!r}.{hint}"
