"""Sinks for tests: one that remembers, and ones that misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from epochal.exchange.sinks.sink import Entry, Sink, SinkContext


@dataclass
class Memory:
    """What a tracker would hold, over any number of sinks that write to it."""

    entries: list[Entry] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    closed: list[str | None] = field(default_factory=list)
    is_kept: bool = True

    @property
    def steps(self) -> list[int]:
        return [entry.step for entry in self.entries if entry.kind == "metrics"]


class MemorySink(Sink):
    """Keeps entries in a memory; ``before_write`` may raise or wait."""

    name = "memory"

    def __init__(self, memory: Memory, before_write: Callable[[], None] = lambda: None) -> None:
        self._memory = memory
        self._before_write = before_write

    def open(self, context: SinkContext) -> bool:
        self._memory.states.append(dict(context.state))
        return self._memory.is_kept

    def write(self, entry: Entry) -> None:
        self._before_write()
        self._memory.entries.append(entry)

    def flush(self) -> dict[str, Any]:
        return {"held": len(self._memory.entries)}

    def close(self, status: str | None) -> dict[str, Any]:
        self._memory.closed.append(status)
        return self.flush()


def into(memory: Memory) -> Callable[[str], Sink]:
    """A maker of sinks that all keep their entries in one memory."""
    return lambda _name: MemorySink(memory)


class Failing:
    """Raises a number of times, then no more."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise ConnectionError("no network")


class Hanging:
    """Waits until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_go = threading.Event()

    def __call__(self) -> None:
        self.began.set()
        self.may_go.wait(120)
