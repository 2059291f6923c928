"""Every rule there is: those in ``health/rules/``, and those that other packages bring.

A rule is found because its file stands in ``rules/``. A package adds rules with entry points of the
group ``epochal.rules``, each the name of a subclass of ``Rule``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from epochal.guard import Guard
from epochal.health import rules
from epochal.health.rule import GROUPS, Rule
from epochal.plugins import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "epochal.rules"


def _own_rules() -> Iterator[type[Rule]]:
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            is_rule = isinstance(value, type) and issubclass(value, Rule)
            if is_rule and value.__module__ == module.name:
                yield value


def _sort_key(rule: type[Rule]) -> tuple[int, str]:
    return GROUPS.index(rule.group), rule.name


# In the order they look at a record: what others are silenced by first, advice last.
RULES: tuple[type[Rule], ...] = tuple(sorted(_own_rules(), key=_sort_key))


def all_rules(guard: Guard) -> tuple[type[Rule], ...]:
    """Our rules and those of other packages; one that cannot be loaded is a fault, and left out."""
    found = {rule.name: rule for rule in RULES}
    for entry_point in _entry_points():
        rule = guard.run(f"rule {entry_point.name}", _load, entry_point, frozenset(found))
        if rule is not None:
            found[rule.name] = rule
    return tuple(sorted(found.values(), key=_sort_key))


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return entry_points(ENTRY_POINTS)


def _load(entry_point: EntryPoint, taken: frozenset[str]) -> type[Rule]:
    rule = entry_point.load()
    where = f"entry point {entry_point.name} = {entry_point.value} of {ENTRY_POINTS}"
    if not isinstance(rule, type) or not issubclass(rule, Rule):
        raise TypeError(f"{where} is not a subclass of epochal.health.rule.Rule")
    if rule.name != entry_point.name:
        raise ValueError(f"{where} is called {rule.name!r}: both names must be the same")
    if rule.name in taken:
        raise ValueError(f"{where} has the name of another rule: {rule.name}")
    if rule.group not in GROUPS:
        raise ValueError(f"{where} has the unknown group {rule.group!r}; groups are {GROUPS}")
    return rule
