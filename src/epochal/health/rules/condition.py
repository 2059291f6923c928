"""Conditions that you set yourself, such as ``eval/loss > 3 for 5 points``, and failed alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from epochal.health.context import Context
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, RuleThresholds, Verdict
from epochal.query.condition import Condition, ConditionTracker


class ConditionSetting(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One of ``[[rules.conditions]]``; without a message, a sentence names the condition."""

    when: str
    severity: Severity = "warning"
    message: str = ""


class ConditionMet(Rule):
    """A condition that you set is met.

    Judges your conditions at every record of rank 0 that has one of their metrics.
    """

    name = "condition"
    group = "operation"
    certainty = "fact"
    healthy = "None of your conditions is met."
    reports = {
        "warning": "A condition of `[[rules.conditions]]` or `init(rules=[…])` is met. You may set "
        "another severity. The finding closes after as many points in a row that do not meet the "
        "condition as it asks for, and at least three."
    }
    messages = {"met": Message("{sentence}", "{advice}")}
    kinds = frozenset()
    every_rank = False
    wants_extremes = True
    release = 3

    class Thresholds(RuleThresholds):
        conditions: tuple[ConditionSetting, ...] = ()

    thresholds: Thresholds

    def reset(self) -> None:
        self._trackers = [
            (setting, ConditionTracker(Condition(setting.when)))
            for setting in self.thresholds.conditions
        ]
        self._full_names: dict[str, str] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Judge the conditions that read a value of this record."""
        if not observation.values:
            return
        for setting, tracker in self._trackers:
            condition = tracker.condition
            if observation.is_extreme and condition.most_points > 1:
                continue  # the records around it were skipped: it is not one of a row of points
            found = ((name, self._value(name, observation, context)) for name in condition.metrics)
            is_met = tracker.update({name: value for name, value in found if value is not None})
            if is_met is not None and context.is_open(self.name, setting.when):
                is_met = tracker.holds  # without the points in a row that it took to open
            if is_met:
                met = self._met(setting, tracker.values, observation.step)
                yield met._replace(extent=condition.most_points)
            elif is_met is not None:
                yield Verdict(setting.when, False)

    def _value(self, name: str, observation: Observation, context: Context) -> float | None:
        """The value that a name has in a record, by the rules of ``store.metrics.resolve``."""
        values = observation.values
        if name in values:
            self._full_names[name] = name
        elif name not in self._full_names:
            if name in context.role_names:
                return values.get(context.role_names[name])
            ending = next((full for full in values if full.endswith(f"/{name}")), None)
            if ending is not None:
                self._full_names[name] = ending
        full = self._full_names.get(name)
        if full is not None:
            return values.get(full)
        position = observation.record.get(name) if name in ("step", "epoch") else None
        return position if isinstance(position, (int, float)) else None

    def _met(
        self, setting: ConditionSetting, values: Mapping[str, float], step: int | None
    ) -> Verdict:
        parts = [f"{name} is {value:.5g}" for name, value in values.items() if name != "step"]
        value = next(iter(values.values())) if len(values) == 1 else " and ".join(parts)
        where = "" if step is None else f"at step {step:,}"
        known = " ".join([" and ".join(parts), where]).strip()
        sentence = setting.message or f"The condition {setting.when!r} is met: {known}."
        evidence: dict[str, Any] = {"condition": setting.when, "value": value}
        evidence |= {} if step is None else {"step": step}
        words = {"sentence": sentence, "advice": ""}
        return self.found("met", setting.when, severity=setting.severity, words=words, **evidence)


class AlertFailed(Rule):
    """An alert of this run did not reach its address.

    An address that does not receive alerts, as the companion recorded it.
    """

    name = "alert-failed"
    group = "operation"
    certainty = "fact"
    healthy = "Every alert arrives."
    reports = {"warning": "An address is unknown or refuses a message."}
    messages = {
        "failed": Message(
            "{reason}.",
            "This address gets no alerts of this run. Check the addresses in alerts= or "
            "EPOCHAL_ALERTS, and that this machine can reach them.",
        )
    }
    kinds = frozenset({"event"})

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        if observation.record.get("name") == self.name:
            reason = str(observation.record.get("reason") or "alerts cannot be sent").rstrip(".")
            yield self.found("failed", "alerts", words={"reason": reason[:1].upper() + reason[1:]})
