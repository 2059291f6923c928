"""Reads and writes `sinks.json`: where a run is forwarded to, and what is still to be sent."""

from __future__ import annotations

from typing import Any

import msgspec

from epochal.errors import FormatError
from epochal.journal.layout import RunFolder, read_json, write_json
from epochal.sinks.reporting import Reporting
from epochal.sinks.skipped import sentences

SINKS_FILE = "sinks.json"


class Unsent(msgspec.Struct, frozen=True):
    """A sink that does not have every record; ``is_hopeless`` if waiting will not help."""

    name: str
    why: str
    is_hopeless: bool


def note_reporting(folder: RunFolder, reporting: Reporting) -> None:
    """Write where a run is forwarded to; keep what is known of earlier forwarding."""
    path = folder.path / SINKS_FILE
    kept = read_json(path) if path.exists() else {}
    kept.update(report_to=list(reporting.report_to), options=dict(reporting.given))
    write_json(path, kept)


def unsent(folder: RunFolder, *, sender: int | None) -> list[Unsent]:
    """Return the sinks that are not done; ``sender`` is the process that sends."""
    try:
        kept = read_json(folder.path / SINKS_FILE)
    except (OSError, FormatError):
        return []  # nothing is forwarded
    wanted, sinks = kept.get("report_to"), kept.get("sinks")
    names = wanted if isinstance(wanted, list) else []
    stored = sinks if isinstance(sinks, dict) else {}
    found = [_unsent(str(name), stored.get(name), sender) for name in names]
    return [one for one in found if one is not None]


def not_held(folder: RunFolder) -> list[str]:
    """Return what sinks could not send because their targets cannot hold it, in sentences."""
    try:
        sinks = read_json(folder.path / SINKS_FILE).get("sinks")
    except (OSError, FormatError):
        return []
    return [
        sentence
        for name, stored in (sinks if isinstance(sinks, dict) else {}).items()
        for sentence in sentences(name, stored.get("skipped") or {}, stored.get("rejection") or "")
    ]


def _unsent(name: str, stored: Any, sender: int | None) -> Unsent | None:
    owner = stored.get("owner") if isinstance(stored, dict) else None
    # What an earlier attempt's companion has left behind says nothing about this one.
    if not isinstance(owner, dict) or owner.get("pid") != sender:
        return Unsent(name, "not begun", is_hopeless=False)
    phase, behind = stored.get("phase"), stored.get("behind")
    if phase == "closed":
        return None
    progress = f"{behind} records behind" if behind else "not closed yet"
    return Unsent(name, str(stored.get("error") or progress), is_hopeless=phase == "stopped")
