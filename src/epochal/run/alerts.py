"""Alerts that a program asks for: checked, and not repeated too soon."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.records import Record
from epochal.run.accepted import shown_text

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder

LEVELS = ("info", "warning", "error")


class RunAlerts:
    """The alerts of one run; remembers when each title was last told."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._told_at: dict[str, float] = {}

    def record(self, title: Any, text: Any, *, level: Any, wait_s: Any) -> Record | None:
        """The ``alert`` event; None where the same title was told within ``wait_s`` seconds."""
        self._recorder.check_open()
        if not isinstance(title, str) or not title.strip():
            raise ValueTypeError(f"title must be a text that is not empty, not {title!r}.")
        if level not in LEVELS:
            raise UsageError(f"level={level!r} is not known: use one of {', '.join(LEVELS)}.")
        is_number = isinstance(wait_s, (int, float)) and not isinstance(wait_s, bool)
        if not is_number or math.isnan(wait_s):
            raise ValueTypeError(f"wait_s must be a number of seconds, not {wait_s!r}.")
        moment = time.monotonic()
        with self._lock:
            told_at = self._told_at.get(title)
            if told_at is not None and moment - told_at < wait_s:
                return None
            self._told_at[title] = moment
        step = self._recorder.step
        return {
            "log": "event",
            "t": now(),
            "name": "alert",
            **({"step": step} if step >= 0 else {}),
            "title": shown_text(title),
            "text": shown_text(text),
            "level": level,
        }
