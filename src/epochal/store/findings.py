"""The findings of a run, and the faults of Epochal itself.

The health rules read attempts here that no companion watched to their end.

A file of findings that was finished, or is being written, covers its attempt. The records of any
other attempt are read through the rules. Their findings have the same ids as in a companion, so
those that were written before it died are not repeated. A bad ending is a finding too: no rule can
know it while the run goes on, so it is added here.

A rule that fails or hangs loses its own findings only; ``guard`` has its fault.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from epochal.base.alarm import may_interrupt
from epochal.base.guard import EXPECTED, Fault, Guard, Outcome
from epochal.health.ending import BAD_ENDINGS, ending_finding
from epochal.health.finding import Evaluated, Finding, dedup_key
from epochal.health.rule_settings import RuleSettings
from epochal.journal.entries import Entry, by_time
from epochal.journal.layout import FINDINGS, LOOP
from epochal.journal.row import Status
from epochal.journal.state import Part, RunState
from epochal.records import Position, moment_of, whole_number
from epochal.store.row import latest_findings

# About a second's reading: a server answers other questions as well.
RECORDS_A_LOOK = 50_000
_WRITER = "diagnosis"
_OUT_OF_MEMORY = "out-of-memory"
_READER = "reader"
_FAULT = "internal-error"
_FAULT_COUNTS = "internal-errors"
# For such a look where no alarm reaches a rule that hangs.
_LOOK_BUDGET_S = 60.0
# Behind what the rules found.
_ENDING_PART = 1


class Judge:
    """The findings of a run; each call continues reading where the last one stopped."""

    def __init__(self, *, look_budget_s: float = _LOOK_BUDGET_S) -> None:
        self.guard = Guard()
        self._look_budget_s = look_budget_s
        self._attempts: dict[int, _Attempt] = {}
        # Whether all records of uncovered attempts had been read at the last call.
        self.is_complete = False

    def entries(
        self, state: RunState, status: Status, *, rules: RuleSettings, most: int | None
    ) -> list[Entry]:
        """All findings by time: those in the run's files, and those that are made from its records.

        ``most`` bounds how many records are read for that at this call, None reads all.
        """
        is_live = status.state == "running"
        written = {
            dedup_key(record)
            for part in state.parts
            if part.name.writer == FINDINGS
            for _, record in part.entries("finding")
        }
        covered = state.watched(is_live=is_live)
        found: list[Entry] = []
        self.is_complete = True
        own = {part.name.attempt for part in state.parts if part.name.attempt > 0}
        for number in sorted(own - covered):  # attempts of a parent have findings of their own
            attempt = self._attempts.get(number)
            if attempt is None:
                attempt = _Attempt(number, state.config, rules, self.guard)
                self._attempts[number] = attempt
            is_read = self._read_on(attempt, state.parts, most)
            if is_read and not is_live:
                attempt.rules.flush()  # extremes wait for a record, and there will be none
            self.is_complete &= is_read
            found += [entry for entry in attempt.found() if dedup_key(entry.record) not in written]
        ending = None if is_live else self._ending(state, status)
        if ending is not None:
            position = Position(_WRITER, state.attempts, _ENDING_PART, 0)
            found.append(Entry(position, 0, ending.record()))
        return by_time([*state.entries("finding"), *found])

    def evaluated(self, state: RunState) -> Evaluated | None:
        """How many of the records of all attempts the rules saw; None where some are unknown.

        ``entries`` must have read the attempts that no companion watched.
        """
        counts = {n: attempt.rules.evaluated for n, attempt in self._attempts.items()}
        for part in state.parts:
            finish = part.facts.finish or {}
            seen, records = (whole_number(finish.get(name)) for name in Evaluated._fields)
            if part.name.writer == FINDINGS and seen is not None and records is not None:
                counts[part.name.attempt] = Evaluated(seen, records)
        own = {part.name.attempt for part in state.parts if part.name.attempt > 0}
        if not own or not own <= counts.keys():
            return None
        return Evaluated(*map(sum, zip(*(counts[number] for number in own), strict=True)))

    def _read_on(self, attempt: _Attempt, parts: Sequence[Part], most: int | None) -> bool:
        """Let the rules read; whether they read all. Raises only for files that cannot be read."""

        def read() -> Outcome[bool]:
            return self.guard.outcome(
                _WRITER, lambda: attempt.read_on(parts, most=most), expected=EXPECTED
            )

        if may_interrupt() or most is None:
            with self.guard.alarm.armed():
                outcome: Outcome[bool] | None = read()
        else:
            outcome = self.guard.bounded(_WRITER, read, budget_s=self._look_budget_s)
        if outcome is not None and isinstance(outcome.error, EXPECTED):
            raise outcome.error
        return outcome is not None and bool(outcome.value)

    def _ending(self, state: RunState, status: Status) -> Finding | None:
        outcome = self.guard.outcome(
            "ending", lambda: bad_ending(state, status, now=time.time()), expected=EXPECTED
        )
        if isinstance(outcome.error, EXPECTED):
            raise outcome.error
        return outcome.value


class _Attempt:
    """One attempt and the rules that have read it so far."""

    def __init__(
        self, number: int, config: dict[str, object], rules: RuleSettings, guard: Guard
    ) -> None:
        self._number = number
        self.rules = rules.diagnosis(config=config, guard=guard)
        self._next: dict[tuple[str, int], int] = {}

    def read_on(self, parts: Sequence[Part], *, most: int | None) -> bool:
        """Read the records that were not read before; whether these were all."""
        mine = [p for p in parts if p.name.attempt == self._number and p.name.writer != FINDINGS]
        unread = [p.records(first=self._next.get((p.name.writer, p.name.part), 0)) for p in mine]
        merged = heapq.merge(*unread, key=lambda item: moment_of(item[1]))
        rest = merged if most is None else islice(merged, most)
        ranks = {(*part.name,): part.facts.origin.rank for part in mine}
        has_ended, num_read = False, 0
        for position, record in rest:
            self._next[position.writer, position.part] = position.ordinal + 1
            rank = ranks[position[:3]]
            self.rules.feed(record, rank=rank, writer=position.writer)
            has_ended |= record.get("log") == "finish" and position.writer == LOOP
            num_read += 1
        if has_ended:
            self.rules.close()
        return most is None or num_read < most

    def found(self) -> list[Entry]:
        """The findings as they were reported; open ones as they are now."""
        return [
            Entry(Position(_WRITER, self._number, 0, place), 0, finding.record())
            for place, finding in enumerate(self.rules.statements())
        ]


def without_ending(found: Iterable[Entry], *, attempts: int) -> list[Finding]:
    """The latest of each finding, without how the run ended: a row adds that with its status."""
    ending = (_WRITER, _ENDING_PART)
    told = [
        (entry.position.attempt, entry.record)
        for entry in found
        if (entry.position.writer, entry.position.part) != ending
    ]
    return latest_findings(told, attempts=attempts)


def bad_ending(state: RunState, status: Status, *, now: float) -> Finding | None:
    """The finding of a newest attempt that failed, crashed or was stopped; None of any other.

    ``now`` in Unix seconds.
    """
    header = state.header
    if header is None or "pid" not in header:
        return None  # of another tracker's run nobody knows whether a process is gone
    how = next((how for how in BAD_ENDINGS if how == status.state), None)
    if how is None:
        return None
    return ending_finding(
        how,
        run=str(header.get("name") or header.get("id")),
        attempt=state.attempts,
        step=state.reached("step"),
        epoch=state.reached("epoch"),
        t=state.updated or now,
        reason=status.reason,
        facts=_event(state, "vanished" if how == "crashed" else "exception"),
        memory=_event(state, _OUT_OF_MEMORY),
        has_checkpoint=bool(state.entries("event", name="checkpoint")),
    )


def _event(state: RunState, name: str) -> Mapping[str, Any]:
    """The newest event of this name in the newest attempt."""
    events = state.entries("event", name=name)
    return next((e.record for e in reversed(events) if e.position.attempt == state.attempts), {})


def recorded_errors(state: RunState) -> list[Entry]:
    """The first fault of each member by the process that saw it, with how often it came."""
    times: dict[tuple[str, int, str], int] = {}
    for entry in state.entries("event", name=_FAULT_COUNTS):
        counts = entry.record.get("counts")
        for member, number in counts.items() if isinstance(counts, dict) else ():
            if isinstance(number, int):
                times[entry.position.writer, entry.position.attempt, str(member)] = number
    found: list[Entry] = []
    for entry in by_time(state.entries("event", name=_FAULT)):
        member = str(entry.record.get("member"))
        number = times.get((entry.position.writer, entry.position.attempt, member), 1)
        found.append(Entry(entry.position, entry.rank, {**entry.record, "count": number}))
    return found


def met_errors(*faults: Fault | None, now: float) -> list[Entry]:
    """Faults of members that read the run here, in the form of their events; None is no fault."""
    return [
        Entry(
            Position(_READER, 0, 0, place),
            0,
            {"log": "event", "t": now, "name": _FAULT, **fault.fields(), "count": fault.count},
        )
        for place, fault in enumerate(filter(None, faults))
    ]
