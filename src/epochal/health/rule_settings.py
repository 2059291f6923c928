"""The settings of the rules: which are silenced, which thresholds are replaced, your conditions.

``epochal.toml`` says it in ``[rules]``, and a run keeps it in ``run.json``, so that companion,
training and readers judge alike::

    [rules]
    silence = ["plateau"]

    [rules.overfitting]
    evals = 4

    [rules.loss-spike]
    enabled = false

    [[rules.conditions]]
    when = "eval/loss > 3 for 5 points"
    severity = "error"
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from epochal.base.guard import Guard
from epochal.errors import FormatError, UsageError
from epochal.health.finding import SEVERITIES
from epochal.health.rule import Rule, declared, with_values
from epochal.journal.layout import RunFolder, read_json
from epochal.query.condition import Condition
from epochal.settings import Located, Settings, mistake, nearest, read_settings

if TYPE_CHECKING:
    from epochal.health.engine import Health

Threshold = int | float | tuple[float, ...] | list[dict[str, str]]
SILENCE = "silence"
ENABLED = "enabled"
FAMILY = "family"
# The table of conditions, and the rule that judges them.
CONDITIONS = "conditions"
CONDITION = "condition"
_CONDITION_KEYS = ("when", "severity", "message")


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """Silenced rules, thresholds by rule and name, and the family; or no rule at all."""

    silenced: frozenset[str] = frozenset()
    thresholds: Mapping[str, Mapping[str, Threshold]] = field(default_factory=dict)
    enabled: bool = True
    family: str | None = None  # None: it is recognised

    def __bool__(self) -> bool:
        return bool(self.silenced or self.thresholds or self.family or not self.enabled)

    @property
    def chosen(self) -> tuple[type[Rule], ...] | None:
        """The rules to evaluate: None for all that there are."""
        return None if self.enabled else ()

    def diagnosis(self, **more: Any) -> Health:
        """The engine with these settings; ``more`` are other arguments of ``Health``."""
        from epochal.health.engine import Health

        own: dict[str, Any] = {"silenced": self.silenced, "thresholds": self.thresholds}
        return Health(**own, family=self.family, rules=self.chosen, **more)

    def record(self) -> dict[str, Any]:
        """What ``run.json`` keeps: the same table as ``[rules]``."""
        if not self.enabled:
            return {ENABLED: False}
        silence = {SILENCE: sorted(self.silenced)} if self.silenced else {}
        tables = {rule: dict(values) for rule, values in self.thresholds.items()}
        family = {} if self.family is None else {FAMILY: self.family}
        return {**family, **silence, **tables.pop(CONDITION, {}), **tables}

    @property
    def digest(self) -> str:
        """Equal for equal settings; empty for none."""
        if not self:
            return ""
        import hashlib  # OpenSSL takes half a MiB, and most runs have no such settings

        text = json.dumps(self.record(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def rule_settings(settings: Settings) -> RuleSettings:
    """The settings of rules; a mistake raises ``UsageError`` with its line."""
    if not settings.health:
        return RuleSettings(enabled=False)
    if not settings.rules:
        return RuleSettings(family=settings.family)
    rules = known_rules()
    silence: list[str] = []
    enabled: dict[str, bool] = {}
    thresholds: dict[str, dict[str, Threshold]] = {}
    for key, located in settings.rules.items():
        name, _, threshold = key.partition(".")
        if key == SILENCE:
            silence = _names(located, rules)
        elif key == CONDITIONS:
            thresholds[CONDITION] = {CONDITIONS: _conditions(located)}
        elif name not in rules:
            hint = nearest(name, rules)
            raise UsageError(f"{located.source}: rules.{name} is not a rule; {hint}")
        elif not threshold:
            _check_table(name, located)
        elif threshold == ENABLED:
            enabled[name] = _switch(key, located)
        else:
            value = _threshold(rules[name], threshold, located)
            thresholds.setdefault(name, {})[threshold] = value
    silenced = {name for name in rules if not enabled.get(name, name not in silence)}
    return RuleSettings(frozenset(silenced), thresholds, family=settings.family)


def known_rules() -> dict[str, type[Rule]]:
    """Every rule by name; one of another package that cannot be loaded is left out."""
    # Most settings name no rule, and a server need not load forty modules to say so.
    from epochal.health.registry import all_rules

    return {rule.name: rule for rule in all_rules(Guard())}


def reader_rules() -> RuleSettings:
    """The same for readers inside a program; with a mistake in a file, nothing."""
    try:
        return rule_settings(read_settings())
    except UsageError:
        return RuleSettings()


def recorded_rules(said: Any) -> RuleSettings:
    """What ``run.json`` keeps in ``rules``; what another version of Epochal knew is left out."""
    if not isinstance(said, Mapping) or not said:
        return RuleSettings()
    if said.get(ENABLED) is False:
        return RuleSettings(enabled=False)
    rules, silence = known_rules(), said.get(SILENCE)
    silenced = rules.keys() & set(map(str, silence)) if isinstance(silence, list) else set()
    thresholds: dict[str, dict[str, Threshold]] = {}
    conditions = said.get(CONDITIONS)
    if isinstance(conditions, list) and (kept := _understood(conditions)):
        thresholds[CONDITION] = {CONDITIONS: kept}
    for name, values in said.items():
        if name in rules and isinstance(values, Mapping):
            read = {key: _read(rules[name], key, value) for key, value in values.items()}
            if known := {key: value for key, value in read.items() if value is not None}:
                thresholds[name] = known
    family = said.get(FAMILY)
    named = family if isinstance(family, str) else None
    return RuleSettings(frozenset(silenced), thresholds, family=named)


def rules_of(folder: RunFolder) -> RuleSettings:
    """The settings of rules that a run was started with."""
    try:
        return recorded_rules(read_json(folder.identity).get("rules"))
    except (OSError, FormatError):
        return RuleSettings()


def _names(located: Located, rules: Mapping[str, type[Rule]]) -> list[str]:
    names = located.value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise mistake(located.source, f"rules.{SILENCE}", names, "is not a list of rules.")
    for name in names:
        if name not in rules:
            hint = nearest(name, rules)
            raise UsageError(f"{located.source}: rules.{SILENCE}: {name} is not a rule; {hint}")
    return names


def _conditions(located: Located) -> list[dict[str, str]]:
    """The conditions of a file or of ``init(rules=[…])``: texts, or tables with ``when``."""
    source = located.source
    where = str(source) if source.file is None else f"{source}: rules.{CONDITIONS}"
    items = located.value if isinstance(located.value, (list, tuple)) else [located.value]
    return [_condition(item, where) for item in items]


def _condition(item: Any, where: str) -> dict[str, str]:
    """One condition as ``run.json`` keeps it; raises ``UsageError``."""
    table = {"when": item} if isinstance(item, str) else item
    if not isinstance(table, Mapping) or not isinstance(table.get("when"), str):
        example = 'when = "eval/loss > 3 for 5 points"'
        raise UsageError(f"{where}: a condition is a text or a table with {example}, not {item!r}.")
    for key, value in table.items():
        if key not in _CONDITION_KEYS:
            raise UsageError(f"{where}: {key} is not known; {nearest(key, _CONDITION_KEYS)}")
        if not isinstance(value, str) or (key == "severity" and value not in SEVERITIES):
            accepted = f"one of {', '.join(SEVERITIES)}" if key == "severity" else "a text"
            raise UsageError(f"{where}: {key} = {value!r} is not {accepted}.")
    try:
        Condition(table["when"])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return dict(table)


def _understood(items: list[Any]) -> list[dict[str, str]]:
    """The recorded conditions that this version understands."""
    found: list[dict[str, str]] = []
    for item in items:
        with contextlib.suppress(UsageError):
            found.append(_condition(item, ""))
    return found


def _check_table(name: str, located: Located) -> None:
    if located.value != {}:
        words = f"must be a table: [rules.{name}]."
        raise mistake(located.source, f"rules.{name}", located.value, words)


def _switch(key: str, located: Located) -> bool:
    if not isinstance(located.value, bool):
        raise mistake(located.source, f"rules.{key}", located.value, "must be true or false.")
    return located.value


def _threshold(rule: type[Rule], name: str, located: Located) -> Threshold:
    known = declared(rule.Thresholds())
    key = f"rules.{rule.name}.{name}"
    if name not in known:
        hint = nearest(name, [*known, ENABLED])
        raise UsageError(f"{located.source}: {key} is not a threshold of {rule.name}; {hint}")
    read = _read(rule, name, located.value)
    if read is None:
        raise mistake(located.source, key, located.value, f"is not {_accepted(known[name])}.")
    return read


def _read(rule: type[Rule], name: str, value: Any) -> Threshold | None:
    """A value as the rule declares its threshold; None when it is not one."""
    numbers = value if isinstance(value, list) else [value]
    is_possible = all(isinstance(one, (int, float)) and 0 <= one < math.inf for one in numbers)
    try:
        read: Threshold = getattr(with_values(rule.Thresholds, {name: value}), name)
    except ValueError:
        return None
    return read if is_possible else None


def _accepted(default: Threshold) -> str:
    if default == ():
        return f"set here: write [[rules.{CONDITIONS}]]"
    if isinstance(default, tuple):
        return f"a list of {len(default)} numbers, 0 or more"
    return f"a {'whole ' if isinstance(default, int) else ''}number, 0 or more"
