"""Calls tasks at their intervals, all in one thread; a task that fails or hangs stops no other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from epochal.guard import Guard

# A task takes milliseconds; one that takes so long hangs.
TASK_BUDGET_S = 10.0


@dataclass(slots=True)
class Task:
    """Something that is called again and again."""

    name: str
    every_s: float
    call: Callable[[], object]
    budget_s: float
    due_s: float


class TaskLoop:
    """Tasks with intervals in seconds, first due one interval after they were added.

    A task that fails is called again at its next time: what it needs may be back by then.
    """

    def __init__(
        self, guard: Guard | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._guard = Guard() if guard is None else guard
        self._clock = clock
        self.tasks: list[Task] = []

    def every(
        self,
        every_s: float,
        name: str,
        call: Callable[[], object],
        *,
        budget_s: float = TASK_BUDGET_S,
    ) -> None:
        """Have something called again and again."""
        self.tasks.append(Task(name, every_s, call, budget_s, self._clock() + every_s))

    def run_due(self) -> float:
        """Call what is due, in the order it was added; returns the seconds until the next."""
        with self._guard.alarm.armed():
            for task in self.tasks:
                now_s = self._clock()
                if task.due_s > now_s:
                    continue
                self._guard.run(f"task {task.name}", task.call, budget_s=task.budget_s)
                # Intervals that were slept through are not made up for.
                task.due_s = max(task.due_s + task.every_s, now_s)
        now_s = self._clock()
        return max(0.0, min((task.due_s - now_s for task in self.tasks), default=1.0))
