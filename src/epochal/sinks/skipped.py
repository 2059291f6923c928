"""What a sink did not send: counted by what it is and why, and the sentences that report it.

``sinks.json`` stores the counts as ``{reason: {noun: count}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Reason = Literal["not held", "file missing", "rejected"]
Counts = dict[str, dict[str, int]]

# The first entry that a content begins with counts.
_NOUNS = {
    "blob:image/": "image",
    "blob:audio/": "audio clip",
    "blob:video/": "video",
    "blob:application/vnd.epochal.table": "table",
    "blob:text/html": "HTML page",
    "blob:": "file",
    "define": "metric definition",
    "event:": "event",
    "finding": "finding",
    "graph": "model graph",
    "histogram": "histogram",
    "message": "message",
    "option": "configuration value",
    "span": "span",
    "summary": "summary value",
    "text": "text",
    "timeline": "timeline",
}


def counted(counts: Mapping[str, Mapping[str, int]], reason: Reason, content: str) -> Counts:
    """The counts with one more record."""
    added = {why: dict(nouns) for why, nouns in counts.items()}
    nouns = added.setdefault(reason, {})
    noun = next((n for start, n in _NOUNS.items() if content.startswith(start)), None)
    noun = noun or f"{content} record"
    nouns[noun] = nouns.get(noun, 0) + 1
    return added


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
