"""Calls things at their intervals, all in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Task:
    every_s: float
    call: Callable[[], object]
    due_s: float


class Clockwork:
    """Tasks with intervals in seconds, first due one interval after they were added."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: list[_Task] = []

    def every(self, every_s: float, call: Callable[[], object]) -> None:
        """Have something called again and again."""
        self._tasks.append(_Task(every_s, call, self._clock() + every_s))

    def run_due(self) -> float:
        """Call what is due, in the order it was added; returns the seconds until the next."""
        for task in self._tasks:
            now_s = self._clock()
            if task.due_s > now_s:
                continue
            task.call()
            # Intervals that were slept through are not made up for.
            task.due_s = max(task.due_s + task.every_s, now_s)
        now_s = self._clock()
        return max(0.0, min((task.due_s - now_s for task in self._tasks), default=1.0))
