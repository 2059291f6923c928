"""The names under which Epochal's sinks give a tracker what it has no word of its own for.

A tracker with texts by name gets a run's labels as ``epochal.group``, and its summary as
``epochal.summary.<name>``. An import turns them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochal.exchange.imports.values import json_safe
from epochal.records import Record

OWN_PREFIX = "epochal."
SUMMARY_PREFIX = f"{OWN_PREFIX}summary."
_FACTS = ("group", "job_type")


def own_facts(named: Mapping[str, Any]) -> dict[str, str]:
    """Group and job type, as far as they are among the texts of a tracker."""
    found = {fact: named.get(f"{OWN_PREFIX}{fact}") for fact in _FACTS}
    return {fact: str(text) for fact, text in found.items() if text}


class SummaryReader:
    """Makes the records of a run's summary, and later of what has changed in it."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def records(self, named: Mapping[str, Any], t: float) -> Iterator[Record]:
        """A record for each value that is new or has changed."""
        for key, value in named.items():
            name = key.removeprefix(SUMMARY_PREFIX)
            is_old = name in self._values and self._values[name] == value
            if name == key or is_old:
                continue
            self._values[name] = value
            yield {"log": "summary", "t": t, "name": name, "value": json_safe(value)}
