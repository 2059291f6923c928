"""Who a run is, from what run.json or its header and its labels say; nothing else is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from epochal.store.answers import Labels, RunInfo, Status

UNREADABLE = Status("unreadable", "unreadable")
# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200

# Gives a field of run.json, or of the journal's header where run.json is missing.
FieldOf = Callable[[str], Any]


def brief_info(
    field: FieldOf, labels: Labels, *, id_: str, path: Path, tracker: str | None
) -> RunInfo:
    """A run's names and labels; people's labels win over what the run itself recorded."""
    return RunInfo(
        id=id_,
        name=labels.name or _text(field("name")) or path.name,
        project=_text(field("project")) or path.parent.name,
        folder=str(path),
        status=UNREADABLE,
        tags=_texts(field("tags")) if labels.tags is None else labels.tags,
        notes=_text(field("notes")) if labels.notes is None else labels.notes,
        hidden=labels.hidden,
        tracker=tracker,
    )


def recorded_id(field: FieldOf) -> str | None:
    """The id that a run recorded; None where it has none that can be used."""
    recorded = _text(field("id")) or ""
    return recorded if 0 < len(recorded) <= _MAX_ID else None


def _text(value: Any) -> str | None:
    """A text, or a number as people write it in a name; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(text for item in value if (text := _text(item)) is not None)
