"""Runs the health rules over a run while it is written, and records their findings.

The id of a finding depends only on the records. So a restarted companion reads the attempt from its
beginning and writes only findings that are not there yet.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from epochal.base.guard import Guard
from epochal.companion.config import CompanionConfig
from epochal.companion.own_journal import OwnJournal
from epochal.errors import FormatError
from epochal.health.engine import RULE_BUDGET_S
from epochal.health.finding import Finding, dedup_key
from epochal.health.rule_settings import rules_of
from epochal.health.rules.condition import AlertFailed
from epochal.journal.layout import FINDINGS, LOOP, PartName, RunFolder, rank_of_writer, read_json
from epochal.journal.reader import Batch, Follower
from epochal.journal.segments.parts import part_records
from epochal.records import Record, moment_of

# So many that a fast run is kept up with, so few that one look does not hold up telemetry.
_RECORDS_A_LOOK = 5000

# How much of a core catching up may take.
_LOOK_FOR_S = 0.2


class Diagnosis:
    """The findings of one attempt, from its first record to its last."""

    def __init__(
        self,
        config: CompanionConfig,
        *,
        on_finding: Callable[[Finding], object] = lambda _finding: None,
        on_finish: Callable[[Record], object] = lambda _record: None,
        on_alert: Callable[[Record], object] = lambda _record: None,
        on_records: Callable[[str, Sequence[Record]], object] = lambda _writer, _records: None,
        clock: Callable[[], float] = time.time,
        guard: Guard | None = None,
        budget_s: float = RULE_BUDGET_S,
    ) -> None:
        self._guard = Guard() if guard is None else guard
        self._budget_s = budget_s
        self._config = config
        self._journal = OwnJournal(config, name=FINDINGS)
        self._follower = Follower(config.folder)
        self._findings = rules_of(config.folder).diagnosis(
            config=_run_config(config), guard=self._guard, rule_budget_s=budget_s
        )
        self.callbacks: dict[str, Callable[..., object]] = {
            "on_finding": on_finding,
            "on_finish": on_finish,
            "on_alert": on_alert,
            "on_records": on_records,
        }
        self._clock = clock
        self._ranks: dict[str, int] = {}
        self._phase: str | None = None
        self._family: str | None = None  # as it was written last
        self._began: dict[str, Any] | None = None
        # Alerts of the program that were passed on, by title and time: a companion may restart.
        self._alerted: set[tuple[str, Any]] = set()
        self._is_behind = True

    @property
    def command(self) -> str:
        return f"epochal doctor {self._config.folder.path}"

    @property
    def ranks(self) -> set[int]:
        """The ranks whose records were read."""
        return set(self._ranks.values())

    def look(self) -> None:
        """Read on for a moment, and write what was found."""
        until_s = time.monotonic() + _LOOK_FOR_S
        self._is_behind = self._read_on()
        while self._is_behind and time.monotonic() < until_s:
            self._is_behind = self._read_on()
        self._note_family()
        if not self._is_behind:
            self._say(self._findings.tick(self._clock()))
            self._say(self._findings.renotify())

    def go_on(self) -> bool:
        self._is_behind = self._read_on()
        self._note_family()
        if not self._is_behind:
            self._say(self._findings.close())
            self._say(self._findings.renotify(is_over=True))
            self._journal.close(**self._findings.evaluated._asdict())
        return self._is_behind

    def judge_late(self, journal: OwnJournal) -> None:
        """Judge what the companion itself has recorded since ``go_on``; findings go to its journal.

        An alert about the end of a run is sent after the findings are closed.
        """
        if self._is_behind:
            return
        own = (self._config.own_writer, self._config.attempt)
        for part, records in self._follower.poll():
            for record in records if part[:2] == own else ():
                if record["log"] == "event" and record.get("name") == AlertFailed.name:
                    for finding in self._findings.feed(record, writer=part.writer):
                        _write(journal, finding)

    def stop(self) -> None:
        """Time is up; what was found so far is written."""
        self._journal.close()

    def left(self) -> str | None:
        return "the end of the run was not diagnosed" if self._is_behind else None

    def _read_on(self) -> bool:
        """Whether there is more to read."""
        found, attempt = self._follower.poll(enough=_RECORDS_A_LOOK), self._config.attempt
        for batch in found:
            if batch.part.writer == FINDINGS:
                for record in batch.records:
                    self._remember(record)
            elif batch.part.writer not in self._ranks and batch.part.attempt == attempt:
                # The header stands first in its file, though what follows may be older by its time.
                self._ranks[batch.part.writer] = _rank(batch.part.writer, batch.records[0])
        for number, (writer, records) in enumerate(self._in_order(found)):
            if number == 0:
                self._journal.open()  # readers judge a run themselves where this file is missing
            self._feed(writer, records)
        return sum(len(batch.records) for batch in found) >= _RECORDS_A_LOOK

    def _in_order(self, found: Sequence[Batch]) -> Iterator[tuple[str, Sequence[Record]]]:
        """Consecutive records and their writer, for the rules."""
        watched = [
            (batch.part.writer, batch.records)
            for batch in found
            if batch.part.writer != FINDINGS and batch.part.attempt == self._config.attempt
        ]
        if len({batch.part.writer for batch in found}) == 1:
            yield from watched
            return
        # Writers are read one after another; rules see what happened in its order.
        items = [(writer, record) for writer, records in watched for record in records]
        items.sort(key=lambda item: moment_of(item[1]))
        for writer, group in groupby(items, key=itemgetter(0)):
            yield writer, [record for _, record in group]

    def _feed(self, writer: str, records: Sequence[Record]) -> None:
        rank = self._ranks[writer]
        seen = self._findings.thin(records, rank=rank)
        for sample in seen:
            record = sample.record
            self._say(self._findings.judge(sample, rank=rank, writer=writer))
            self._note_phase(record)
            if writer == LOOP and record["log"] == "finish":
                self._call("on_finish", record)
        for record, _ in seen:  # only steps are thinned
            if record["log"] == "event" and record.get("name") == "alert":
                self._pass_on(record)
        self._call("on_records", writer, records)

    def _pass_on(self, record: Record) -> None:
        """Pass on an alert of the program, once."""
        alert = (str(record.get("title")), record.get("t"))
        if alert not in self._alerted:
            self._alerted.add(alert)
            self._journal.event("alert-sent", title=alert[0], at=alert[1])
            self._call("on_alert", record)

    def _remember(self, record: Record) -> None:
        if record.get("log") == "finding":
            self._findings.written.add(dedup_key(record))
        elif record.get("log") == "event" and record.get("name") == "phase":
            self._phase = str(record.get("phase"))
        elif record.get("log") == "event" and record.get("name") == "family":
            self._family = str(record.get("family"))
        elif record.get("log") == "event" and record.get("name") == "alert-sent":
            self._alerted.add((str(record.get("title")), record.get("at")))

    def _say(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            _write(self._journal, finding)
            self._call("on_finding", finding)

    def _call(self, name: str, *args: Any) -> None:
        """Call the observer, unless it has failed too often."""
        member = f"callback {name}"
        if not self._guard.is_disabled(member):
            self._guard.run(member, self.callbacks[name], *args, budget_s=self._budget_s)

    def _note_family(self) -> None:
        """Write the family of the run once, and again when it is recognised as another."""
        family = self._findings.family
        if family is not None and family[0] != self._family:
            self._family = family[0]
            self._journal.event("family", family=family[0], why=family[1])

    def _note_phase(self, record: Record) -> None:
        """Write a change of phase; of a warm-up only when it is over, as a short run never is."""
        phase = self._findings.phase
        axis = "epoch" if record["log"] == "epoch" else "step"
        place = {axis: record[axis]} if axis in record else {}
        if phase in ("", "warm-up", self._phase):
            if self._began is None and place and record["log"] in ("metrics", "step", "epoch"):
                self._began = place
            return
        if self._phase is None:
            self._phase = "warm-up"
            self._journal.event("phase", phase=self._phase, **(self._began or place))
        self._journal.event("phase", phase=phase, was=self._phase, **place)
        self._phase = phase


def judge_attempt(folder: RunFolder, attempt: int) -> None:
    """Judge a whole attempt that no companion watched to its end, and record the findings.

    Nobody may be writing to it. Raises ``FormatError`` and ``OSError`` where it cannot be read.
    """
    config = CompanionConfig(folder=folder, attempt=attempt, parent=0)
    journal = OwnJournal(config, name=FINDINGS)
    health = rules_of(folder).diagnosis(config=_run_config(config))
    read: list[Iterator[tuple[PartName, Record]]] = []
    ranks: dict[str, int] = {}
    known: set[tuple[str, ...]] = set()
    for part in folder.all_parts():
        if part.attempt == attempt and part.writer == FINDINGS:
            known.update(map(dedup_key, part_records(folder, part, "finding")))
        elif part.attempt == attempt:
            header = next(part_records(folder, part), None)
            ranks.setdefault(part.writer, _rank(part.writer, header or {}))
            read.append(zip(repeat(part), part_records(folder, part), strict=False))
    for part, record in heapq.merge(*read, key=lambda item: moment_of(item[1])):
        health.feed(record, rank=ranks[part.writer], writer=part.writer)
    health.close()
    journal.open()
    for finding in health.statements():
        if dedup_key(finding.record()) not in known:
            _write(journal, finding)
    journal.close(**health.evaluated._asdict())


def _write(journal: OwnJournal, finding: Finding) -> None:
    fields = {name: one for name, one in finding.record().items() if name not in ("log", "t")}
    journal.write("finding", fields, at=finding.t)


def _rank(writer: str, header: Record) -> int:
    """A writer's rank; the telemetry of a node has it in its header."""
    said, beside = rank_of_writer(writer), header.get("rank")
    if said is not None:
        return said
    return beside if isinstance(beside, int) and beside > 0 else 0


def _run_config(config: CompanionConfig) -> dict[str, Any]:
    try:
        found = read_json(config.folder.identity).get("config")
    except (OSError, FormatError):
        return {}
    return found if isinstance(found, dict) else {}
