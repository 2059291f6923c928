"""A run in one row: who it is and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

State = Literal[
    "waiting",
    "running",
    "finished",
    "failed",
    "interrupted",
    "terminated",
    "crashed",
    "silent",
    "unreadable",
]


# A run that has not ended, as far as can be told: its state may change without a new record.
LIVE_STATES: tuple[State, ...] = ("waiting", "running", "silent")


# Lists make one of each for every run; ``gc=False``: they hold no cycles.
class Status(msgspec.Struct, frozen=True, gc=False):
    """The status of a run at the moment of the query.

    ``text`` is what people read ("silent 12 min"). ``reason`` is what the run recorded about its
    end. ``since`` is the time of its newest record, in Unix seconds.
    """

    state: State
    text: str
    reason: str | None = None
    since: float | None = None

    @property
    def is_live(self) -> bool:
        """Whether the run has not ended, as far as can be told."""
        return self.state in LIVE_STATES


@dataclass(frozen=True, slots=True)
class Labels:
    """What people change later; None keeps what the run recorded."""

    name: str | None = None
    tags: tuple[str, ...] | None = None
    notes: str | None = None
    hidden: bool = False


# Makes new labels of those that are stored, for example with ``dataclasses.replace``.
NO_LABELS = Labels()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The run that a fork continues, and after which step."""

    id: str
    name: str
    project: str
    step: int

    def __str__(self) -> str:
        where = f"{self.project}/{self.name}" if self.project else self.name
        return f"{where} after step {self.step:,}"
