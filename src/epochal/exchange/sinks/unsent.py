"""What of a run was not sent to its sinks: records still to come, and records that were skipped.

Skipped records are counted by what they are and why; ``sinks.json`` stores the counts as
``{reason: {noun: count}}``. The training process reads that file here, and loads no sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from epochal.journal.layout import RunFolder, json_or_empty

SINKS_FILE = "sinks.json"
Reason = Literal["not held", "file missing", "rejected"]
Counts = dict[str, dict[str, int]]

# The first entry that a content begins with counts.
_NOUNS = {
    "blob:image/": "image",
    "blob:audio/": "audio clip",
    "blob:video/": "video",
    "blob:application/vnd.epochal.table": "table",
    "blob:application/vnd.plotly": "Plotly figure",
    "blob:text/html": "HTML page",
    "blob:": "file",
    "event:alert": "alert",
    "file": "file",
    "graph": "model graph",
    "histogram": "histogram",
    "summary": "summary value",
    "text": "text",
}
# The labels of a run, as ``Sink.labels`` names them; a run has one of each but tags.
_LABEL_NOUNS = {"config": "configuration", "job_type": "job type", "tags": "tag", "notes": "note"}


def counted(counts: Mapping[str, Mapping[str, int]], reason: Reason, content: str) -> Counts:
    """The counts with one more record."""
    added = {why: dict(nouns) for why, nouns in counts.items()}
    nouns = added.setdefault(reason, {})
    noun = next((n for start, n in _NOUNS.items() if content.startswith(start)), None)
    noun = noun or f"{content} record"
    nouns[noun] = nouns.get(noun, 0) + 1
    return added


def with_labels(
    counts: Mapping[str, Mapping[str, int]], identity: Mapping[str, Any], missing: Iterable[str]
) -> Counts:
    """The counts with the labels of a run that a target does not get."""
    found = {why: dict(nouns) for why, nouns in counts.items()}
    for label in missing:
        if value := identity.get(label):
            num = len(value) if label == "tags" else 1
            found.setdefault("not held", {})[_LABEL_NOUNS.get(label, label)] = num
    return found


def sentences(sink: str, counts: Mapping[str, Mapping[str, int]], rejection: str) -> list[str]:
    """One sentence for each reason; ``rejection`` is the first error of the target."""
    said: list[str] = []
    for reason, nouns in counts.items():
        several = sum(nouns.values()) > 1
        why = {
            "not held": f"{sink} cannot hold {'them' if several else 'it'}",
            "file missing": "the files are missing" if several else "the file is missing",
            "rejected": f"{sink} rejected {'them' if several else 'it'} ({rejection})",
        }.get(reason, reason)
        listed = [f"{n} {noun}{'s' if n > 1 else ''}" for noun, n in nouns.items()]
        words = " and ".join([", ".join(listed[:-1]), listed[-1]] if listed[1:] else listed)
        said.append(f"{words} {'were' if several else 'was'} not sent: {why}.")
    return said


class Unsent(msgspec.Struct, frozen=True):
    """A sink that does not have every record; ``is_hopeless`` if waiting will not help."""

    name: str
    why: str
    is_hopeless: bool = False


def unsent(folder: RunFolder, *, sender: int | None) -> list[Unsent]:
    """Return the sinks that are not done; ``sender`` is the process that sends."""
    found: list[Unsent] = []
    names, sinks = sink_states(folder)
    for name in names:
        stored = sinks.get(name) or {}
        phase, behind = stored.get("phase"), stored.get("behind")
        # What an earlier attempt's companion has left behind says nothing about this one.
        if (stored.get("owner") or {}).get("pid") != sender:
            found.append(Unsent(name, "not begun"))
        elif phase != "closed":
            progress = f"{behind} records behind" if behind else "not closed yet"
            why = str(stored.get("error") or progress)
            found.append(Unsent(name, why, is_hopeless=phase == "stopped"))
    return found


def sink_states(folder: RunFolder) -> tuple[list[str], dict[str, Any]]:
    """Return the sinks of a run and the state of each, as far as they can be read."""
    kept = json_or_empty(folder.path / SINKS_FILE)
    wanted, sinks = kept.get("report_to"), kept.get("sinks")
    names = [str(name) for name in wanted] if isinstance(wanted, list) else []
    return names, sinks if isinstance(sinks, dict) else {}
