"""An alert fails or hangs, and the companion and the findings go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from epochal.base.guard import Fault, Guard
from epochal.companion.alerts import Alerts
from epochal.health.finding import Severity
from tests.members.faults import broken


class Service:
    """Does something with each message, and with the check before the first."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def check(self) -> str | None:
        self._act()
        return None

    def __call__(self, title: str, body: str, severity: Severity) -> str | None:
        self._act()
        return None


def send_all(alerts: Alerts) -> None:
    alerts.say("the run has finished")
    while alerts.go_on():
        pass


def test_a_service_that_raises_has_failed_and_nothing_else_has() -> None:
    reported: list[Fault] = []
    failures: list[str] = []
    guard = Guard(reported.append)
    alerts = Alerts(Service(broken), run="p/a", on_failure=failures.append, guard=guard)
    send_all(alerts)
    assert [one.member for one in reported] == ["alerts"]
    assert "Traceback" in reported[0].traceback
    assert failures == [alerts.left()]
    assert "cannot be sent" in failures[0]


def test_a_service_that_hangs_is_a_fault_and_holds_up_nothing() -> None:
    guard, may_go, now_s = Guard(), threading.Event(), [0.0]
    service = Service(lambda: may_go.wait(120))
    alerts = Alerts(service, run="p/a", guard=guard, clock=lambda: now_s[0])
    alerts.say("something was found")
    for _ in range(3):
        now_s[0] += 200.0
        alerts.look()
    assert guard.count("alerts") == 1
    assert guard.faults["alerts"].error.startswith("BudgetExceeded")
    may_go.set()
