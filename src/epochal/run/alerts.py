"""Messages and alerts of a program: recorded and printed; alerts are not repeated too soon."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from epochal.journal.line import now
from epochal.records.values import plain_float, shown_text
from epochal.run.console.messages import Verbosity
from epochal.run.writing import RunWriter

_WAIT_S = 60.0


class RunAlerts:
    """The messages and alerts of one run; remembers when each title was last sent."""

    def __init__(self, recorder: RunWriter) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._sent_at: dict[str, float] = {}

    def message(self, text: Any, *, level: Any) -> None:
        """Record a message and print it at its level."""
        text, level = shown_text(text), shown_text(level)
        self._recorder.write({"log": "message", "t": now(), "level": level, "text": text})
        console = self._recorder.console
        if level in ("error", "warning"):
            console.notice(text)
        elif self._recorder.rank == 0:
            shown = Verbosity.DEBUG if level == "debug" else Verbosity.NORMAL
            console.message("%s", text, level=shown)

    def send(self, title: Any, text: Any, *, level: Any, wait_s: Any) -> bool:
        """Record an alert and print it; False where the same title was sent too recently."""
        recorder, values = self._recorder, self._recorder.values
        title = recorder.call("event").text(title, name="title") or ""
        if not title.strip():
            values.drop("title=", title, "an alert needs a title.", then="It is sent as 'alert'.")
            title = "alert"
        pause_s = values.read("wait_s=", plain_float, wait_s, name="wait_s")
        moment = time.monotonic()
        with self._lock:
            passed_s = moment - self._sent_at.get(title, -math.inf)
            if passed_s < (_WAIT_S if pause_s is None or math.isnan(pause_s) else pause_s):
                return False
            self._sent_at[title] = moment
        text, level = shown_text(text), self._level(level)
        recorder.event("alert", title=title, text=text, level=level)
        words = f"alert: {title}" + (f": {text}" if text else "")
        if level == "info":
            recorder.console.message("%s", words, level=Verbosity.NORMAL)
        else:
            recorder.console.notice(words)
        return True

    def _level(self, level: Any) -> str:
        """``info``, ``warning`` or ``error``, from the words and numbers of ``logging``."""
        import logging

        named = level if type(level) is int else logging.getLevelName(shown_text(level).upper())
        if isinstance(named, int):
            return "error" if named >= 40 else "warning" if named >= 30 else "info"
        reason = f"level={level!r} is not known: use info, warning or error."
        self._recorder.values.drop("level=", level, reason, then="It is sent as a warning.")
        return "warning"
