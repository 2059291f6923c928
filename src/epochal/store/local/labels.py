"""Reads and writes ``labels.json``, the only file of a run that people change."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

from epochal.atomic_file import between_processes
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import LABELS_LOCK, JsonFileError, RunFolder, read_json, write_json
from epochal.store.answers import NO_LABELS, Labels, LabelsEdit

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
