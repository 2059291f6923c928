"""Branches beside each other, such as experts: each gets a gradient only when it is used.

A layer of a chain that gets no gradient cuts off those before it. A branch does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache

# Lists and dictionaries of modules of which a sample takes some, and single modules named alike.
_BESIDE = re.compile(r"(experts|heads|adapters|branches|tasks|domains|towers|languages)$")
_ONE_OF = re.compile(r"(.*(?:expert|head|adapter|branch|task|domain|tower)_?)\d+$")
# What chooses among the members of a list beside it.
_CHOOSES = re.compile(r"gat(e|ing)|router|switch")
# Lists of what follows each other; a residual path may lead around one of these.
_IN_DEPTH = re.compile(r"(^h|layers?|blocks?|stages?)$")


def in_idle_branches(idle: Set[str], parameters: Iterable[str]) -> set[str]:
    """The parameters of branches that are wholly idle, while another one beside them is not."""
    found: set[str] = set()
    for family in _families(tuple(parameters)) if idle else ():
        if any(branch.isdisjoint(idle) for branch in family):
            found.update(*(branch for branch in family if branch <= idle))
    return found


@lru_cache(64)
def _families(parameters: tuple[str, ...]) -> list[list[frozenset[str]]]:
    """Every set of two or more branches among the parameters of a model."""
    choosing = {
        ".".join(parts[:place])
        for parts in (parameter.split(".") for parameter in parameters)
        for place, part in enumerate(parts)
        if _CHOOSES.search(part)
    }
    grouped: dict[str, dict[str, dict[str, str]]] = {}
    for parameter in parameters:
        parts = parameter.split(".")
        for place in range(len(parts)):
            family = _family(parts, place, choosing)
            if family is not None:
                branch, rest = ".".join(parts[: place + 1]), ".".join(parts[place + 1 :])
                grouped.setdefault(family, {}).setdefault(branch, {})[rest] = parameter
    return [
        [frozenset(members.values()) for members in branches.values()]
        for branches in grouped.values()
        if len(branches) > 1 and len({frozenset(members) for members in branches.values()}) == 1
    ]


def _family(parts: Sequence[str], place: int, choosing: Collection[str]) -> str | None:
    """What the branch that a parameter's name has at a place belongs to; None for no branch."""
    container = parts[place - 1] if place else ""
    if one := _ONE_OF.match(parts[place]):
        return ".".join((*parts[:place], one[1]))
    is_chosen = parts[place].isdigit() and ".".join(parts[: max(place - 1, 0)]) in choosing
    is_listed = is_chosen and container and not _IN_DEPTH.search(container)
    if container and (is_listed or _BESIDE.search(container)):
        return ".".join(parts[:place])
    return None
