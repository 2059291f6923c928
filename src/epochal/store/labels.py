"""Reads and writes ``labels.json``, the only file of a run that people change."""

from __future__ import annotations

import os
from typing import Any

from epochal.errors import FormatError
from epochal.journal.layout import JsonFileError, RunFolder, read_json, write_json
from epochal.store.answers import Labels

MAX_LABELS_BYTES = 1024 * 1024
_FIELDS: tuple[tuple[str, type, str], ...] = (
    ("name", str, "a text"),
    ("tags", list, "a list"),
    ("notes", str, "a text"),
    ("hidden", bool, "true or false"),
)


def read_labels(folder: RunFolder) -> Labels:
    """The labels of a run, none where there is no file; a damaged file raises ``FormatError``."""
    try:
        stored = read_json(folder.labels, max_bytes=MAX_LABELS_BYTES)
    except FileNotFoundError:
        return Labels()
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


def write_labels(folder: RunFolder, labels: Labels) -> None:
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
