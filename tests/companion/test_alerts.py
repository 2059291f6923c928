import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from epochal.companion.alerts import Alerts, Apprise
from epochal.health.finding import Finding, Severity


def finding(name: str = "a", severity: Severity = "error") -> Finding:
    return Finding(
        id=name,
        rule="nonfinite",
        severity=severity,
        sentence=f"The loss of {name} is no number.",
        series="loss",
        steps=(3, 3),
        evidence={},
        advice="Lower the learning rate.",
        state="open",
        t=0.0,
    )


class Sent:
    def __init__(self, failure: str | None = None) -> None:
        self.bodies: list[str] = []
        self.severities: list[Severity] = []
        self.failure = failure

    def check(self) -> str | None:
        return None

    def __call__(self, title: str, body: str, severity: Severity) -> str | None:
        self.bodies.append(body)
        self.severities.append(severity)
        return self.failure


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def finish(alerts: Alerts) -> None:
    while alerts.go_on():
        pass


def test_a_finding_is_told_once_and_only_if_grave_enough() -> None:
    sent = Sent()
    alerts = Alerts(sent, run="p/a", least="warning")
    for one in (finding("a"), finding("a"), finding("b", "info")):
        alerts.finding(one)
    finish(alerts)
    assert sent.bodies == ["error: The loss of a is no number. Lower the learning rate."]


def test_what_comes_within_a_minute_travels_together() -> None:
    sent, clock = Sent(), Clock()
    alerts = Alerts(sent, run="p/a", clock=clock)
    alerts.say("one")
    alerts.look()
    alerts.say("two")
    alerts.say("three")
    clock.now_s = 59.0
    alerts.look()
    clock.now_s = 61.0
    while len(sent.bodies) < 2:
        alerts.look()
    assert sent.bodies == ["one", "two\nthree"]


def test_the_end_says_how() -> None:
    sent = Sent()
    alerts = Alerts(sent, run="p/a")
    alerts.finished({"status": "failed", "reason": "ValueError: x", "last_step": 7})
    finish(alerts)
    assert sent.bodies == ["the run has failed after step 7: ValueError: x"]


def test_a_message_is_as_grave_as_the_gravest_in_it() -> None:
    sent = Sent()
    alerts = Alerts(sent, run="p/a", least="info")
    for one in (finding("a", "warning"), finding("b"), finding("c", "info")):
        alerts.finding(one)
    finish(alerts)
    alerts.finished({"status": "finished"})
    finish(alerts)
    assert sent.severities == ["error", "info"]


def test_that_alerts_fail_is_not_sent_as_an_alert() -> None:
    sent = Sent()
    alerts = Alerts(sent, run="p/a")
    alerts.finding(replace(finding(), rule="alert-failed"))
    finish(alerts)
    assert sent.bodies == []


def test_a_failure_is_said_once() -> None:
    said: list[str] = []
    alerts = Alerts(Sent("no route"), run="p/a", on_failure=said.append)
    for line in ("one", "two"):
        alerts.say(line)
        finish(alerts)
    assert said == ["no route"]
    assert alerts.left() == "no route"


def test_without_addresses_nothing_waits() -> None:
    alerts = Alerts(None, run="p/a", least="info", on_failure=lambda _reason: None)
    alerts.finding(finding())
    finish(alerts)
    assert alerts.left() is None


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"json://127.0.0.1:{server.server_port}/", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_webhook_receives_it() -> None:
    pytest.importorskip("apprise")
    failures: list[str] = []
    with webhook() as (address, received):
        alerts = Alerts(Apprise([address]), run="p/a", least="error", on_failure=failures.append)
        alerts.finding(finding())
        finish(alerts)
    assert failures == []
    assert received[0]["title"] == "Epochal: p/a"
    assert "is no number" in received[0]["message"]
    assert received[0]["type"] == "failure"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_address_nobody_knows_is_said_without_its_secret() -> None:
    pytest.importorskip("apprise")
    failures: list[str] = []
    alerts = Alerts(
        Apprise(["nowhere://secret"]), run="p/a", least="error", on_failure=failures.append
    )
    alerts.finding(finding())
    finish(alerts)
    assert len(failures) == 1
    assert "nowhere" in failures[0]
    assert "secret" not in failures[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_address_nobody_knows_is_said_before_there_is_anything_to_send() -> None:
    pytest.importorskip("apprise")
    failures: list[str] = []
    alerts = Alerts(
        Apprise(["nowhere://secret"]), run="p/a", least="error", on_failure=failures.append
    )
    alerts.look()
    finish(alerts)
    assert failures == [
        "alerts cannot be sent (nowhere: the address is not one that apprise knows)"
    ]
