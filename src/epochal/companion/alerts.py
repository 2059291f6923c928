"""Tells people about findings and ends of a run where they are: chat, mail, desktop, webhook.

Addresses are those of the apprise package (``slack://…``, ``mailto://…``, ``json://host/path``);
``desktop`` stands for this machine's own notifications. They may hold passwords: they come through
the environment and are never written down. What is sent is sent by a thread: a service that hangs
holds up nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from epochal.base.guard import Guard, describe
from epochal.health.ending import ending_severity
from epochal.health.finding import Finding, Severity
from epochal.health.rules.condition import AlertFailed
from epochal.journal.diagnosis import diagnose

# One message a minute at most; what comes in between travels together in the next.
_PAUSE_S = 60.0
_MOST_LINES = 20
# A service may take its time; so long it only hangs.
_BUDGET_S = 120.0
_GRAVITY = {"info": 0, "warning": 1, "error": 2, "off": 3}
_DESKTOP = {"darwin": "macosx://", "win32": "windows://"}
# What services know as the kind of a message: its colour, its sound.
_KINDS: Mapping[Severity, str] = {"info": "info", "warning": "warning", "error": "failure"}
_MISSING = "alerts need the package 'apprise': pip install 'epochal[alerts]'"


_ENDED = {
    "finished": "finished",
    "failed": "failed",
    "interrupted": "been interrupted",
    "terminated": "been terminated",
}


class Alerts:
    """The alerts of one run, each sent once.

    ``send`` and its ``check`` give the reason why a message could not be sent, None when it was.
    """

    def __init__(
        self,
        send: Any,
        *,
        run: str,
        least: str = "warning",
        on_failure: Callable[[str], object] = lambda _reason: None,
        clock: Callable[[], float] = time.monotonic,
        guard: Guard | None = None,
    ) -> None:
        self._guard = Guard() if guard is None else guard
        self._send = send
        self._run = run
        self._least = _GRAVITY[least]
        self._on_failure = on_failure
        self._clock = clock
        self._sent_ids: set[str] = set()
        self._latest: dict[str, Mapping[str, Any]] = {}  # by id, as each finding was told last
        self._waiting: list[tuple[Severity, str]] = []
        self._is_checked = send is None
        self._sent_at: float | None = None
        self._thread: threading.Thread | None = None
        self._began_s = 0.0
        self._noted: threading.Thread | None = None
        self._failure: str | None = None
        self._is_over = False

    @property
    def command(self) -> str:
        return "epochal doctor"

    def finding(self, finding: Finding) -> None:
        """Tell of a finding that is grave enough, once."""
        self._latest[finding.id] = finding.record()
        if finding.state != "open" or _GRAVITY[finding.severity] < self._least:
            return
        if finding.rule == AlertFailed.name:
            return  # it would go the way that is blocked
        if finding.id not in self._sent_ids:
            self._sent_ids.add(finding.id)
            word = "note" if finding.severity == "info" else finding.severity
            words = f"{word}: {finding.sentence} {finding.advice}".rstrip()
            self.say(words, severity=finding.severity)

    def asked(self, record: Mapping[str, Any]) -> None:
        """Tell what the program itself asked to be told, whatever its level."""
        level, title, text = (record.get(name) for name in ("level", "title", "text"))
        severity: Severity = level if level in ("info", "warning", "error") else "info"
        if self._least <= _GRAVITY["error"]:
            self.say(f"{title}: {text}" if text else str(title), severity=severity)

    def finished(self, record: Mapping[str, Any]) -> None:
        """Tell that the run has ended, and how."""
        status, reason, step = (record.get(name) for name in ("status", "reason", "last_step"))
        where = "" if step is None else f" after step {step}"
        words = f"the run has {_ENDED.get(str(status), 'ended')}{where}"
        words += f": {reason}" if reason else "."
        known = diagnose(self._latest.values(), observed={})
        words += f" It is {known.sentence}." if known.causes else ""
        self.say(words, severity=ending_severity(str(status)) or "info")

    def say(self, line: str, *, severity: Severity = "error") -> None:
        """Tell of something with the next message."""
        if self._send is not None:
            self._waiting.append((severity, line))

    def look(self) -> None:
        """Send waiting alerts, if the last message is old enough; check the addresses first."""
        self._note_hang()
        if not self._is_checked and not self._is_over:
            self._is_checked = True
            self._start(self._send.check)
        is_due = self._sent_at is None or self._clock() - self._sent_at >= _PAUSE_S
        if self._waiting and (is_due or self._is_over) and not self._is_sending:
            self._begin()

    def go_on(self) -> bool:
        """Send the rest at once: the run has ended."""
        self._is_over = True
        self.look()
        return self._is_sending or bool(self._waiting)

    def stop(self) -> None:
        """Time is up; the thread ends with the process."""

    def left(self) -> str | None:
        if self._waiting or self._is_sending:
            return "an alert was not sent in time"
        return self._failure

    @property
    def _is_sending(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        gravest = max((severity for severity, _ in waiting), key=_GRAVITY.__getitem__)
        lines = [line for _, line in waiting]
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], f"… and {len(lines) - _MOST_LINES} more"]
        self._sent_at = self._clock()
        self._start(self._send, f"Epochal: {self._run}", "\n".join(lines), gravest)

    def _start(self, call: Callable[..., str | None], *args: Any) -> None:
        self._began_s = self._clock()
        self._thread = threading.Thread(target=self._try, args=(call, *args), daemon=True)
        self._thread.start()

    def _note_hang(self) -> None:
        """Count it as a fault when a service has not come back for too long, once per message."""
        thread, is_over = self._thread, self._clock() - self._began_s > _BUDGET_S
        if thread is not None and is_over and thread.is_alive() and thread is not self._noted:
            self._noted = thread
            self._guard.note_hang("alerts", thread, budget_s=_BUDGET_S)

    def _try(self, send: Callable[..., str | None], *args: Any) -> None:
        """A service's package may raise anything: the alert has failed, and nothing else has."""
        outcome = self._guard.outcome("alerts", send, *args)
        failed = None if outcome.error is None else _failure([describe(outcome.error)])
        reason = failed or outcome.value
        if reason is not None and reason != self._failure:
            self._failure = reason
            self._on_failure(reason)


class Apprise:
    """Sends through the apprise package, loaded with the first message."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = [
            _DESKTOP.get(sys.platform, "dbus://") if address == "desktop" else address
            for address in addresses
        ]

    def check(self) -> str | None:
        """Which addresses are none that messages can be sent to."""
        try:
            import apprise
        except ImportError:
            return _MISSING
        return _failure(
            [_unknown(one) for one in self._addresses if not apprise.Apprise().add(one)]
        )

    def __call__(self, title: str, body: str, severity: Severity) -> str | None:
        try:
            import apprise
        except ImportError:
            return _MISSING
        kind = apprise.NotifyType(_KINDS[severity])
        failed: list[str] = []
        for address in self._addresses:
            service = apprise.Apprise()
            if not service.add(address):
                failed.append(_unknown(address))
            elif not service.notify(title=title, body=body, notify_type=kind):
                failed.append(f"{_scheme(address)}: the message was not accepted")
        return _failure(failed)


def _unknown(address: str) -> str:
    return f"{_scheme(address)}: the address is not one that apprise knows"


def _scheme(address: str) -> str:
    return address.partition("://")[0]  # the rest may be a secret


def _failure(failed: Sequence[str]) -> str | None:
    return f"alerts cannot be sent ({'; '.join(failed)})" if failed else None
