"""Merges labels that people changed on two machines, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged_labels(
    *, ours: Mapping[str, Any], theirs: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any]:
    """What holds after both sides changed the labels they last had in common.

    A field that one side changed is that side's. Of tags, both sides' additions and removals count.
    Where both changed another field, theirs counts: it is the later one to arrive.
    """
    merged: dict[str, Any] = {}
    for field in dict.fromkeys((*ours, *theirs)):
        mine, other, before = ours.get(field), theirs.get(field), base.get(field)
        value = mine if other == before else other
        if field == "tags" and mine != before and other != before:
            value = _merged_tags(mine, other, before)
        if value is not None:
            merged[field] = value
    return merged


def _merged_tags(ours: Any, theirs: Any, base: Any) -> list[Any]:
    mine, other, before = (
        [*side] if isinstance(side, list) else [] for side in (ours, theirs, base)
    )
    gone = [tag for tag in before if tag not in mine or tag not in other]
    return [tag for tag in dict.fromkeys((*mine, *other)) if tag not in gone]
