"""Edits of labels, which a store applies to what is stored at that moment.

An edit says what to change, not what the result is: of two people who add a tag at once, neither
removes the other's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from epochal.store.answers import Labels, LabelsEdit
from epochal.store.store import RunView


def tag_edit(run: RunView, *, add: Iterable[str] = (), remove: Collection[str] = ()) -> LabelsEdit:
    """Adds and removes tags; those that the run recorded count where people set none."""
    recorded = recorded_tags(run)
    added = tuple(add)

    def edit(labels: Labels) -> Labels:
        had = recorded if labels.tags is None else labels.tags
        tags = tuple(tag for tag in dict.fromkeys((*had, *added)) if tag not in remove)
        return labels if tags == had else replace(labels, tags=tags)

    return edit


def recorded_tags(run: RunView) -> tuple[str, ...]:
    """The tags that the run was started with."""
    tags = run.facts.get("tags")
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
