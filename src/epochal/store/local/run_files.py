"""The files of a run beside its journal: run.json, labels.json and the newest readings of machines.

``labels.json`` is the only file of a run that people change.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from epochal.atomic_file import between_processes
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import LABELS_LOCK, JsonFileError, RunFolder, read_json, write_json
from epochal.records import FORMAT_VERSION
from epochal.store.answers import NO_LABELS, Fork, Labels, LabelsEdit, Machine
from epochal.store.local.listing import LINK_OUT, Listing, Stat

_REMEDIES = {
    "run.json": "The run is listed by its journal; 'epochal repair' rebuilds that file.",
    "labels.json": "The run is listed without labels; fix or delete that file.",
}
_NO_PROBLEMS: Mapping[str, str] = {}
# A companion writes every second; what is older was left behind by one that was killed.
STALE_S = 5.0
# GPUs are read every second, the host every five; one that fell silent is not to look alive.
_SILENT_S = 15.0
MAX_LABELS_BYTES = 1024 * 1024
_FIELDS: tuple[tuple[str, type, str], ...] = (
    ("name", str, "a text"),
    ("tags", list, "a list"),
    ("notes", str, "a text"),
    ("hidden", bool, "true or false"),
)
MAX_NAME = 200
MAX_TAG = 100
MAX_TAGS = 100
MAX_NOTES = 20_000
# Control characters, halves of a surrogate pair, and what else ends a line.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
_CODE = {"\n": "a newline", "\r": "a carriage return", "\t": "a tab"}


def fork_of(run_json: Mapping[str, Any]) -> Fork | None:
    """The parent that run.json names; None for a run that is not a fork."""
    try:
        return msgspec.convert(run_json["fork"], Fork)
    except (KeyError, msgspec.ValidationError):
        return None


class Identity:
    """The content of run.json and labels.json; a file that cannot be read gives a sentence.

    ``newer_format`` is the sentence about a run that a newer Epochal wrote: it is never half-read.
    """

    __slots__ = ("_listing", "_place", "_problems", "_seen", "labels", "newer_format", "run_json")

    def __init__(self, place: str) -> None:
        self._place = place
        self._listing: Listing | None = None
        self._seen: list[tuple[Stat | None, int]] = []
        self._problems: Mapping[str, str] = _NO_PROBLEMS
        self.run_json: dict[str, Any] = {}
        self.labels = NO_LABELS
        self.newer_format: str | None = None

    @property
    def problems(self) -> list[str]:
        """One sentence for each file that cannot be read."""
        if self._problems is _NO_PROBLEMS and self.newer_format is None:
            return []
        found = list(self._problems.values())
        return found if self.newer_format is None else [*found, self.newer_format]

    def refresh(self, listing: Listing) -> None:
        """Read the files that have changed."""
        if listing is self._listing:
            return
        self._listing = listing
        files = [(listing.identity, listing.inodes[0]), (listing.labels, listing.inodes[1])]
        seen, self._seen = self._seen, files
        if not seen or seen[0] != files[0]:
            self._read("run.json", listing)
        if not seen or seen[1] != files[1]:
            if listing.labels is None and not listing.may_have_labels:
                self._note("labels.json", None)  # most runs have none
                self.labels = NO_LABELS
            else:
                self._read("labels.json", listing)

    def _read(self, what: str, listing: Listing) -> None:
        problem: str | None = None
        try:
            if what in listing.refused:
                problem = f"{what} {LINK_OUT}"
            elif what == "run.json":
                self._read_identity()
            else:
                self._read_labels()
        except FileNotFoundError:
            problem = f"{what} is missing; 'epochal repair' can rebuild it."
        except JsonFileError as error:
            problem = f"{what} {error.fault}. {_REMEDIES[what]}"
        except OSError as error:
            reason = error.strerror or error
            problem = f"{what} cannot be read: {reason}. {_REMEDIES[what]}"
        self._note(what, problem)

    def _note(self, what: str, problem: str | None) -> None:
        if problem is not None:
            self._problems = {**self._problems, what: problem}
        elif what in self._problems:
            self._problems = {name: text for name, text in self._problems.items() if name != what}

    def _read_identity(self) -> None:
        self.run_json = {}
        run_json = read_json(f"{self._place}/run.json")
        version = run_json.get("v", FORMAT_VERSION)
        if isinstance(version, (int, float)) and int(version) > FORMAT_VERSION:
            self.newer_format = (
                f"run.json was written by a newer Epochal (format {str(version)[:20]}, this one"
                f" reads up to {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
            )
        self.run_json = run_json

    def _read_labels(self) -> None:
        self.labels = NO_LABELS
        self.labels = read_labels(RunFolder(Path(self._place)))


def patch_file(run_json: Mapping[str, Any]) -> str | None:
    """The file with the changes that were not committed, as run.json names it."""
    git = run_json.get("git")
    file = git.get("patch") if isinstance(git, Mapping) else None
    return file if isinstance(file, str) and Path(file).name == file else None


def check_labels(labels: Labels, before: Labels) -> None:
    """Raise ``UsageError`` unless what differs from the labels before can be shown in one line."""
    if labels.name != before.name and labels.name is not None:
        if not labels.name.strip():
            raise UsageError("name must not be empty; null gives back the first one.")
        if labels.name != labels.name.strip():
            raise UsageError("name must not begin or end with a space.")
        _check_text("name", labels.name, MAX_NAME)
    if labels.tags != before.tags and labels.tags is not None:
        if len(labels.tags) > MAX_TAGS:
            raise UsageError(f"a run has at most {MAX_TAGS} tags, not {len(labels.tags)}.")
        for tag in labels.tags:
            _check_text("tag", tag, MAX_TAG)
    if labels.notes != before.notes and labels.notes is not None:
        _check_text("note", labels.notes, MAX_NOTES, allowed="\n\r\t")


def _check_text(what: str, text: str, most: int, *, allowed: str = "") -> None:
    if len(text) > most:
        raise UsageError(f"a {what} has at most {most} characters, not {len(text)}.")
    for place, character in enumerate(text):
        if unicodedata.category(character) in _REFUSED and character not in allowed:
            code = _CODE.get(character, f"the control character U+{ord(character):04X}")
            raise UsageError(f"a {what} must not hold {code} (character {place + 1}).")


def read_labels(folder: RunFolder) -> Labels:
    """The labels of a run, none where there is no file; a damaged file raises ``FormatError``."""
    try:
        stored = read_json(folder.labels, max_bytes=MAX_LABELS_BYTES)
    except FileNotFoundError:
        return NO_LABELS
    for field, kind, what in _FIELDS:
        if not isinstance(stored.get(field), (kind, type(None))):
            raise JsonFileError(folder.labels, f"has {field!r} that is not {what}")
    tags = stored.get("tags")
    if tags is not None and not all(isinstance(tag, str) for tag in tags):
        raise JsonFileError(folder.labels, "has a tag that is not a text")
    return Labels(
        name=stored.get("name"),
        tags=None if tags is None else tuple(tags),
        notes=stored.get("notes"),
        hidden=bool(stored.get("hidden")),
    )


def edit_labels(folder: RunFolder, edit: LabelsEdit) -> Labels:
    """Store what ``edit`` makes of the labels that are stored now; returns them.

    Other processes that edit them wait meanwhile: none undoes what another has changed. Raises
    ``UsageError`` for a text that a list cannot show, and ``OSError``.
    """
    with between_processes(folder.path / LABELS_LOCK):
        try:
            before = read_labels(folder)
        except FormatError:
            before = NO_LABELS
        after = edit(before)
        check_labels(after, before)
        _write_labels(folder, after)
    return after


def _write_labels(folder: RunFolder, labels: Labels) -> None:
    """Store the labels so that a reader sees the old ones or the new ones.

    A file that cannot be read is kept beside the new one, as ``labels.json.damaged``.
    """
    stored: dict[str, Any] = {}
    if labels.name is not None:
        stored["name"] = labels.name
    if labels.tags is not None:
        stored["tags"] = list(labels.tags)
    if labels.notes is not None:
        stored["notes"] = labels.notes
    if labels.hidden:
        stored["hidden"] = True
    _keep_damaged(folder)
    write_json(folder.labels, stored)


def _keep_damaged(folder: RunFolder) -> None:
    try:
        read_labels(folder)
    except FormatError:
        os.replace(folder.labels, folder.labels.with_name("labels.json.damaged"))


def read_machines(folder: RunFolder, *, now: float) -> list[Machine]:
    """The newest readings of a run's machines, by rank; none when no companion measures them."""
    try:
        files = sorted(folder.live.iterdir())
    except OSError:  # most runs have ended, or have no companion
        return []
    found = [_machine(read) for file in files if (read := _read(folder, file.name)) is not None]
    fresh = [one for one in found if one is not None and abs(now - one.t) <= STALE_S]
    return sorted(fresh, key=lambda one: (one.rank, one.node))


def _read(folder: RunFolder, name: str) -> dict[str, Any] | None:
    if not name.endswith(".json"):
        return None
    try:
        return read_json(folder.live / name)
    except (OSError, FormatError):  # gone, or met in the middle of a write: the next look finds it
        return None


def _machine(said: dict[str, Any]) -> Machine | None:
    t, node, rank, gpus = (said.get(name) for name in ("t", "node", "rank", "gpus"))
    if not isinstance(t, (int, float)) or not isinstance(node, str) or not isinstance(rank, int):
        return None
    listed = [_plain(gpu) for gpu in gpus] if isinstance(gpus, list) else []
    system = _plain(said.get("system"))
    return Machine(
        node=node,
        rank=rank,
        t=float(t),
        gpus=tuple(gpu for gpu in listed if "id" in gpu and _is_read(gpu, t)),
        system=system if _is_read(system, t) else {},
    )


def _is_read(fields: Mapping[str, float | str], now: float) -> bool:
    """Whether it was measured lately; files of older versions do not say when."""
    t = fields.get("t")
    return not isinstance(t, (int, float)) or now - t <= _SILENT_S


def _plain(fields: Any) -> dict[str, float | str]:
    if not isinstance(fields, dict):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, (int, float, str))}
