"""What a hub knows of each run in the tables, and which rows it has to derive."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from epochal.store.clickhouse.tables import IDENTITY, Fact, PartCount
from epochal.store.row import Row


@dataclass(frozen=True, slots=True)
class KnownRow:
    """A row that some hub derived, and what from."""

    row: Row
    lines: int
    identity: int
    version: int


@dataclass(frozen=True, slots=True)
class DerivedRow:
    """A row that was derived here, what from (``KnownRun.basis``), and how long that took."""

    run_id: str
    row: Row
    basis: tuple[int, int]
    took_s: float


@dataclass(slots=True)
class KnownRun:
    """What is stored of a run, as of the last look; ``lock`` is held by each change of its copy."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    parts: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    changed: int = 0
    is_behind: bool = True
    is_held: bool = False
    used_s: float = 0.0
    live_s: float = 0.0
    row: KnownRow | None = None
    # How often its lines could not be copied: each time is another state of the run.
    num_failed: int = 0

    @property
    def basis(self) -> tuple[int, int]:
        """What a row of now is derived from: the number of lines, the version of the identity."""
        identity = self.facts.get(IDENTITY)
        return sum(self.parts.values()), 0 if identity is None else identity.version

    @property
    def has_current_row(self) -> bool:
        """Whether the row that is known was derived from all that is stored."""
        return self.row is not None and (self.row.lines, self.row.identity) == self.basis


DIGEST = "sha256:"


def digest(value: str) -> str:
    """What stands for a long value in memory."""
    return DIGEST + hashlib.sha256(value.encode()).hexdigest()


def kept(key: str, value: str) -> str:
    """What is kept in memory of a fact: of an identity, which is long and in a file, its digest."""
    return digest(value) if key == IDENTITY else value


def forget_lost_parts(runs: Mapping[str, KnownRun], parts: Iterable[PartCount]) -> None:
    """Know less of runs of which the tables have less: they were restored from a backup."""
    stored = {(part.run, part.part): part.lines for part in parts}
    for run_id, run in runs.items():
        for stem, num_lines in list(run.parts.items()):
            have = stored.get((run_id, stem), 0)
            if have < num_lines:
                run.parts[stem] = have
                run.is_behind = True


def lost_facts(runs: Mapping[str, KnownRun], facts: Iterable[Fact]) -> Iterator[Fact]:
    """Facts of which the tables have an older version, or none."""
    stored = {(fact.run, fact.key): fact.version for fact in facts}
    for run_id, run in runs.items():
        for key, fact in list(run.facts.items()):
            if stored.get((run_id, key), 0) < fact.version:
                yield fact


class RowQueue:
    """Runs whose rows are to be derived here, each with the earliest monotonic time for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}

    def want(self, run_id: str, *, in_s: float) -> None:
        """Derive a row in so many seconds, or when it was wanted before, whichever comes first."""
        due_s = time.monotonic() + in_s
        with self._lock:
            self._due[run_id] = min(self._due.get(run_id, due_s), due_s)

    def put_off(self, run_id: str, *, for_s: float) -> None:
        """Derive a row no sooner than in so many seconds."""
        with self._lock:
            self._due[run_id] = time.monotonic() + for_s

    def done(self, run_id: str) -> None:
        """Nothing of a run is to be derived."""
        with self._lock:
            self._due.pop(run_id, None)

    def due(self) -> Iterator[str]:
        """Runs whose time has come, those that wait longest first."""
        with self._lock:
            waiting = sorted(self._due.items(), key=lambda one: one[1])
        now_s = time.monotonic()
        return (run_id for run_id, due_s in waiting if due_s <= now_s)
