"""Alerts of a run could not be sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, Verdict

if TYPE_CHECKING:
    from epochal.health.context import Context


class AlertFailed(Rule):
    """An alert of this run did not reach its address.

    An address that does not receive alerts, as the companion recorded it.
    """

    name = "alert-failed"
    group = "operation"
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
    replaces_text = True

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        if observation.record.get("name") == self.name:
            reason = str(observation.record.get("reason") or "alerts cannot be sent").rstrip(".")
            yield self.found("failed", "alerts", words={"reason": reason[:1].upper() + reason[1:]})
