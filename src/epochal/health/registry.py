"""Every rule there is: those in ``health/rules/``, and those that other packages bring.

Every subclass of ``Rule`` with a name in a file of ``rules/`` is one. A package adds rules with
entry points of the group ``epochal.rules``, each the name of a subclass of ``Rule``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.base.guard import Guard
from epochal.base.plugins import entry_points, load_member, own_members, place_of
from epochal.health import rules
from epochal.health.rule import GROUPS, Rule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "epochal.rules"


def _sort_key(rule: type[Rule]) -> tuple[int, str]:
    return GROUPS.index(rule.group), rule.name


# In the order in which they see a record: causes come before their symptoms.
RULES: tuple[type[Rule], ...] = tuple(
    sorted(
        (rule for rule in own_members(rules, Rule) if hasattr(rule, "name")),  # type: ignore[type-abstract]
        key=_sort_key,
    )
)


def all_rules(guard: Guard) -> tuple[type[Rule], ...]:
    """Our rules and those of other packages; one that cannot be loaded is a fault, and left out."""
    found = {rule.name: rule for rule in RULES}
    for entry_point in entry_points(ENTRY_POINTS):
        rule = guard.run(f"rule {entry_point.name}", _load, entry_point, frozenset(found))
        if rule is not None:
            found[rule.name] = rule
    return tuple(sorted(found.values(), key=_sort_key))


def _load(entry_point: EntryPoint, taken: frozenset[str]) -> type[Rule]:
    rule = load_member(entry_point, Rule, taken)  # type: ignore[type-abstract]
    if rule.group not in GROUPS:
        where = place_of(entry_point)
        raise ValueError(f"{where} has the unknown group {rule.group!r}; groups are {GROUPS}")
    return rule
