"""Reads and writes ``labels.json``, the only file of a run that people change."""

from __future__ import annotations

from typing import Any

from epochal.errors import FormatError
from epochal.journal.layout import RunFolder, read_json, write_json
from epochal.store.answers import Labels


def read_labels(folder: RunFolder) -> Labels:
    """The labels of a run, none where there is no file; a damaged file raises ``FormatError``."""
    try:
        stored = read_json(folder.labels)
    except FileNotFoundError:
        return Labels()
    tags = stored.get("tags")
    if tags is not None and not isinstance(tags, list):
        raise FormatError(f"{folder.labels}: tags must be a list.")
    return Labels(
        name=_text(stored.get("name")),
        tags=None if tags is None else tuple(str(tag) for tag in tags),
        notes=_text(stored.get("notes")),
        hidden=bool(stored.get("hidden", False)),
    )


def write_labels(folder: RunFolder, labels: Labels) -> None:
    """Store the labels so that a reader sees the old ones or the new ones."""
    stored: dict[str, Any] = {}
    if labels.name is not None:
        stored["name"] = labels.name
    if labels.tags is not None:
        stored["tags"] = list(labels.tags)
    if labels.notes is not None:
        stored["notes"] = labels.notes
    if labels.hidden:
        stored["hidden"] = True
    write_json(folder.labels, stored)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
