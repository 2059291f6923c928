"""``labels.json``: what people change of a run later, the only file of a run that they change."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from epochal.base.atomic_file import between_processes
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import LABELS_LOCK, JsonFileError, RunFolder, read_json, write_json
from epochal.journal.row import NO_LABELS, Labels

# Makes new labels of those that are stored, for example with ``dataclasses.replace``.
LabelsEdit = Callable[[Labels], Labels]
MAX_LABELS_BYTES = 1024 * 1024
MAX_NAME = 200
MAX_TAG = 100
MAX_TAGS = 100
MAX_NOTES = 20_000
# Control characters, halves of a surrogate pair, and what else ends a line.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
_CODE = {"\n": "a newline", "\r": "a carriage return", "\t": "a tab"}


def _check_labels(labels: Labels, before: Labels) -> None:
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


def check_stored_labels(stored: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` unless these are labels as ``labels.json`` may hold them."""
    try:
        labels = msgspec.convert(stored, Labels)
    except msgspec.ValidationError as error:
        raise UsageError(f"the labels are not valid: {error}.") from error
    _check_labels(labels, NO_LABELS)


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
    try:
        return msgspec.convert(stored, Labels)
    except msgspec.ValidationError as error:
        raise JsonFileError(folder.labels, f"is not valid: {error}") from error


def edit_labels(folder: RunFolder, edit: LabelsEdit) -> Labels:
    """Store what ``edit`` makes of the labels that are stored now; returns them.

    Other processes that edit them wait meanwhile: none undoes what another has changed. A file that
    cannot be read is kept as ``labels.json.damaged``. Raises ``UsageError`` for a text that a list
    cannot show, and ``OSError``.
    """
    with between_processes(folder.path / LABELS_LOCK):
        try:
            before, is_damaged = read_labels(folder), False
        except FormatError:
            before, is_damaged = NO_LABELS, True
        after = edit(before)
        _check_labels(after, before)
        if is_damaged:
            os.replace(folder.labels, folder.labels.with_name("labels.json.damaged"))
        set_ones = {k: v for k, v in asdict(after).items() if v is not None and v is not False}
        write_json(folder.labels, set_ones)
    return after
