"""The diagnosis: rules read the records of a run and return findings with evidence and advice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

__all__ = ["diagnose"]

if TYPE_CHECKING:
    from epochal.health.finding import Finding
    from epochal.records import Record


def diagnose(
    records: Iterable[Record],
    *,
    config: Mapping[str, Any] | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
    silenced: Collection[str] = (),
) -> list[Finding]:
    """What the rules find in the records of a run, in the order they were found.

    ``records`` are those of one process, oldest first. ``config`` is the run's configuration,
    ``thresholds`` replaces numbers by rule and name, and rules that ``silenced`` names do not look.
    Each finding is given as far as it has come; its ``state`` says whether it still holds.
    """
    # The training process imports findings and nothing else of this package.
    from epochal.health.engine import Health

    health = Health(config=config, thresholds=thresholds, silenced=silenced)
    for record in records:
        health.feed(record)
    health.close()
    return health.latest()
