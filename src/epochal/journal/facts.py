"""What the records of a writer say about the run as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from epochal.journal.diagnosis import OBSERVED_EVENTS, Family
from epochal.journal.layout import FINDINGS, LOOP, TELEMETRY, PartName, rank_of_writer
from epochal.journal.line import nests_too_deeply
from epochal.records import Axis, Record, whole_number

# Kinds that say something about the run as a whole; "epoch" says how many there will be.
FACT_KINDS = (
    "run", "finish", "define", "resume", "option", "summary", "epoch", "event", "finding",
)  # fmt: skip
# The names of events that say something about the run as a whole; the last of each counts.
FACT_EVENTS = ("vanished", "companion-lost", "phase")
# What a diagnosis needs of a finding.
_OF_FINDING = (
    "id", "rule", "severity", "state", "sentence", "series", "steps", "t", "evidence", "advice",
    "certainty", "under", "experiment", "apart",
)  # fmt: skip
_TAKEN_OVER: tuple[Axis, ...] = ("step", "epoch")

_MEANINGS = ("unit", "goal", "x", "role")

_CHILD = "child-"

STEP_LIMIT = 2**63
# The year 9999, where calendars of most programs end.
_TIME_LIMIT = 253_402_300_800


class Origin(NamedTuple):
    """Who logged a point: attempts and children are told apart until they are merged."""

    rank: int
    is_child: bool
    attempt: int


def cuts_of(takeovers: Mapping[int, int], *, attempts: Iterable[int]) -> dict[int, int]:
    """By attempt, the lowest step at which any newer attempt took over."""
    cuts: dict[int, int] = {}
    lowest: int | None = None
    for attempt in sorted(attempts, reverse=True):
        if lowest is not None:
            cuts[attempt] = lowest
        takeover = takeovers.get(attempt)
        if takeover is not None:
            lowest = takeover if lowest is None else min(lowest, takeover)
    return cuts


def weight_of(origin: Origin) -> tuple[bool, int]:
    """Later ones win: children before rank 0 itself, older attempts before newer."""
    return not origin.is_child, origin.attempt


def unix_time(value: Any) -> float | None:
    """A time of a file in Unix seconds; None for a value that is not a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _TIME_LIMIT else None


class SeriesKey(NamedTuple):
    """A name on an axis: an epoch's ``loss`` and a step's ``loss`` are two series."""

    name: str
    axis: Axis


class Extent(NamedTuple):
    """The highest step and the latest time (Unix seconds) of some records, where they have any."""

    step: int | None
    time: float | None

    def joined(self, other: Extent) -> Extent:
        """The extent of both."""
        (step, time), (other_step, other_time) = self, other
        if step is None or (other_step is not None and other_step > step):
            step = other_step
        if time is None or (other_time is not None and other_time > time):
            time = other_time
        return Extent(step, time)


class PartFacts(msgspec.Struct, omit_defaults=True):
    """What the records of ``FACT_KINDS`` say, and the highest step and epoch of all records.

    They are of one part, or of all parts of a writer in an attempt; ``name`` is the newest of them.
    ``header`` is the first record; empty where the first line of the file is damaged, None before
    anything was read. ``finished_in`` is the part that has ``finish``. ``reached`` and
    ``takeovers`` are rank 0's own. ``deleted`` are values of the summary that an earlier attempt
    may have. ``findings`` has the newest statement of each by id. ``events`` are the names of
    events that show what was observed; ``family`` is what the training was recognised as.
    """

    name: PartName
    header: Record | None = None
    finish: Record | None = None
    finished_in: int | None = None
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    deleted: list[str] = []
    definitions: dict[str, dict[str, Any]] = {}
    takeovers: dict[Axis, int] = {}
    reached: dict[Axis, int] = {}
    findings: dict[str, Record] = {}
    first_epoch: int | None = None
    num_epochs: int | None = None
    updated: float | None = None
    vanished: str | None = None
    lost_companion: bool = False
    phase: str | None = None
    events: list[str] = []
    family: Family | None = None
    num_records: int = 0
    num_damaged: int = 0

    @property
    def is_loop(self) -> bool:
        """Whether rank 0 itself wrote the part."""
        return self.name.writer == LOOP

    @property
    def is_finished(self) -> bool:
        """Whether its newest part has the last record of the writer."""
        return self.finish is not None and self.finished_in == self.name.part

    @property
    def origin(self) -> Origin:
        """Who wrote the part."""
        return Origin(self._rank(), self.name.writer.startswith(_CHILD), self.name.attempt)

    def _rank(self) -> int:
        said = rank_of_writer(self.name.writer)
        if said is not None:
            return said
        # Telemetry of a node says which rank it sits beside; children say -1 and are rank 0's.
        rank = (self.header or {}).get("rank")
        return rank if isinstance(rank, int) and rank > 0 else 0

    def extend(self, axis: Axis, extent: Extent) -> None:
        """Note how far some records on an axis reach."""
        step, time = extent
        if time is not None and (self.updated is None or time > self.updated):
            self.updated = time
        if axis == "step":
            self._reach(axis, step)

    def _reach(self, axis: Axis, at: int | None) -> None:
        if at is not None and self.is_loop:
            self.reached[axis] = max(at, self.reached.get(axis, at))

    def note(self, ordinal: int, record: Record) -> None:
        """Add a record of one of ``FACT_KINDS``; fields that nest too deeply count as damage."""
        kind = record["log"]
        if kind in ("event", "finding"):
            self._note_told(kind, record)
            return
        if nests_too_deeply(record):
            self.num_damaged += 1
            record = {key: value for key, value in record.items() if not nests_too_deeply(value)}
        if kind == "run" and ordinal == 0:
            self.header = record
        if kind == "finish":
            self.finish, self.finished_in = record, self.name.part
        elif kind == "define" and isinstance(record.get("name"), str):
            meaning = {key: record[key] for key in _MEANINGS if key in record}
            self.definitions.setdefault(record["name"], {}).update(meaning)
        elif kind == "epoch":
            self._note_epoch(record)
        elif kind == "summary" and self.origin.rank == 0:
            self._note_summary(record)
        elif not self.is_loop:
            return
        elif kind == "resume":
            for axis in _TAKEN_OVER:
                takeover = whole_number(record.get(axis))
                if takeover is not None:
                    self.takeovers[axis] = takeover
        elif kind == "run" and isinstance(record.get("config"), dict):
            self.config.update(record["config"])
        elif kind == "option" and "name" in record:
            self.config[str(record["name"])] = record.get("value")

    def extended(self, later: PartFacts) -> PartFacts:
        """The facts of this part, and of a later one of the same writer and attempt."""
        summary = {k: v for k, v in self.summary.items() if k not in later.deleted}
        updated = [t for t in (self.updated, later.updated) if t is not None]
        return PartFacts(
            later.name,
            header=self.header if later.header is None else later.header,
            finish=later.finish or self.finish,
            finished_in=later.finished_in if later.finish else self.finished_in,
            config={**self.config, **later.config},
            summary={**summary, **later.summary},
            deleted=[
                *(n for n in self.deleted if n not in (*later.summary, *later.deleted)),
                *later.deleted,
            ],
            definitions=_merged(self.definitions, later.definitions),
            takeovers={**self.takeovers, **later.takeovers},
            reached={
                axis: max(r[axis] for r in (self.reached, later.reached) if axis in r)
                for axis in {**self.reached, **later.reached}
            },
            findings={**self.findings, **later.findings},
            first_epoch=later.first_epoch if self.first_epoch is None else self.first_epoch,
            num_epochs=later.num_epochs or self.num_epochs,
            updated=max(updated, default=None),
            vanished=later.vanished or self.vanished,
            lost_companion=self.lost_companion or later.lost_companion,
            phase=later.phase or self.phase,
            events=sorted({*self.events, *later.events}),
            family=later.family or self.family,
            num_records=self.num_records + later.num_records,
            num_damaged=self.num_damaged + later.num_damaged,
        )

    def _note_told(self, kind: str, record: Record) -> None:
        """Note what a companion told of the run."""
        name = record.get("name")
        if kind == "finding":
            known = {field: record[field] for field in _OF_FINDING if field in record}
            self.findings[str(record.get("id"))] = known
        elif name == "vanished" and isinstance(record.get("sentence"), str):
            self.vanished = record["sentence"]
        elif name == "companion-lost":
            self.lost_companion = True
        elif name == "phase" and isinstance(record.get("phase"), str):
            self.phase = record["phase"]
        elif name == "family" and isinstance(record.get("family"), str):
            self.family = Family(record["family"], str(record.get("why") or ""))
        elif name in OBSERVED_EVENTS and name not in self.events:
            self.events.append(str(name))

    def _note_summary(self, record: Record) -> None:
        name = record.get("name")
        if not isinstance(name, str):
            return
        if record.get("deleted"):
            self.summary.pop(name, None)
            self.deleted = [*(other for other in self.deleted if other != name), name]
        else:
            self.summary[name] = record.get("value")
            self.deleted = [other for other in self.deleted if other != name]

    def _note_epoch(self, record: Record) -> None:
        self.num_epochs = whole_number(record.get("total")) or self.num_epochs
        epoch = whole_number(record.get("epoch"))
        self._reach("epoch", epoch)
        if self.is_loop and self.first_epoch is None:
            self.first_epoch = epoch


def seconds(record: Record) -> float:
    """A record's time in Unix seconds; nan when it has none."""
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) and abs(t) < STEP_LIMIT else float("nan")


def _merged(*several: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mappings by name, those of one name as one."""
    merged: dict[str, dict[str, Any]] = {}
    for one in several:
        for name, meaning in one.items():
            merged.setdefault(name, {}).update(meaning)
    return merged


class RunFacts:
    """What the facts of all parts say together; they come in the order of parts."""

    def __init__(self, facts: Iterable[PartFacts]) -> None:
        every = list(facts)
        self.num_damaged = sum(one.num_damaged for one in every)
        self.facts = [one for one in every if one.header is not None]

    @property
    def num_records(self) -> int:
        """How many records were read."""
        return sum(facts.num_records for facts in self.facts)

    @property
    def updated(self) -> float | None:
        """The time of the newest record, in Unix seconds."""
        times = [facts.updated for facts in self.facts if facts.updated is not None]
        return max(times, default=None)

    @property
    def num_epochs(self) -> int | None:
        """The total number of epochs that the run recorded last."""
        said = [facts.num_epochs for facts in self.facts if facts.num_epochs]
        return said[-1] if said else None

    @cached_property
    def attempts(self) -> int:
        """The number of the newest attempt, 0 before the first record."""
        return max((facts.name.attempt for facts in self.facts), default=0)

    @property
    def header(self) -> Record | None:
        """The first record of the newest attempt; rank 0's where there is one."""
        newest = self._newest_of_main()
        return newest[-1].header if newest else None

    @property
    def finish(self) -> Record | None:
        """The last record of the newest attempt, None while it has not ended."""
        said = [facts.finish for facts in self._newest_of_main() if facts.finish is not None]
        return said[-1] if said else None

    @property
    def is_ended(self) -> bool:
        """Whether the last part of each writer of the newest attempt ends with ``finish``."""
        last = {facts.name.writer: facts for facts in self._newest()}
        return self.finish is not None and all(one.is_finished for one in last.values())

    @property
    def config(self) -> dict[str, Any]:
        """The config of all attempts; later values replace earlier ones."""
        merged: dict[str, Any] = {}
        for facts in sorted(self.facts, key=lambda facts: facts.name.attempt):
            merged.update(facts.config)
        return merged

    @property
    def summary(self) -> dict[str, Any]:
        """What the program set as the run's summary; rank 0 itself wins over its children."""
        merged: dict[str, Any] = {}
        for facts in sorted(self.facts, key=lambda f: (f.name.attempt, f.is_loop)):
            for name in facts.deleted:
                merged.pop(name, None)
            merged.update(facts.summary)
        return merged

    @property
    def definitions(self) -> dict[str, dict[str, Any]]:
        """The meaning of each metric that the program defined."""
        return _merged(*(facts.definitions for facts in self.facts))

    @property
    def findings(self) -> dict[str, Record]:
        """Each finding as it was told last; what an attempt before the newest had is over."""
        merged: dict[str, Record] = {}
        for facts in sorted(self.facts, key=lambda facts: facts.name.attempt):
            is_past = facts.name.attempt < self.attempts
            over = {"state": "closed"} if is_past else {}
            merged.update({key: {**one, **over} for key, one in facts.findings.items()})
        return merged

    @property
    def is_judged(self) -> bool:
        """Whether rules have read anything of the newest attempt."""
        return any(one.name.writer == FINDINGS or one.findings for one in self._newest())

    @property
    def events(self) -> set[str]:
        """The names of events that show what was observed."""
        return {name for facts in self.facts for name in facts.events}

    @property
    def family(self) -> Family | None:
        """What the training was recognised as last."""
        said = [facts.family for facts in self.facts if facts.family is not None]
        return said[-1] if said else None

    @property
    def vanished(self) -> str | None:
        """What the companion of the newest attempt said when its process was gone."""
        said = [facts.vanished for facts in self._newest() if facts.vanished is not None]
        return said[-1] if said else None

    @property
    def has_companion(self) -> bool:
        """Whether a companion watches the newest attempt, as far as the files say."""
        newest = self._newest()
        beside = any(facts.name.writer.startswith(TELEMETRY) for facts in newest)
        return beside and not any(facts.lost_companion for facts in newest)

    def watched(self, *, is_live: bool = False) -> set[int]:
        """The attempts whose findings are complete in the run's own files."""
        newest = {self.attempts} if is_live else set[int]()
        return {
            facts.name.attempt
            for facts in self.facts
            if facts.name.writer == FINDINGS
            and (facts.finish is not None or facts.name.attempt in newest)
        }

    @property
    def num_unwatched(self) -> int:
        """How many records are in attempts that no companion watched to their end."""
        watched = self.watched()
        return sum(
            facts.num_records
            for facts in self.facts
            if facts.name.attempt > 0
            and facts.name.attempt not in watched
            and facts.name.writer != FINDINGS
        )

    def reached(self, axis: Axis) -> int | None:
        """The highest step or epoch of rank 0 in the newest attempt that logged any."""
        reached: dict[int, int] = {}
        for facts in self.facts:
            if axis in facts.reached:
                attempt, at = facts.name.attempt, facts.reached[axis]
                reached[attempt] = max(at, reached.get(attempt, at))
        return reached[max(reached)] if reached else None

    def cuts(self, axis: Axis) -> dict[int, int]:
        """By attempt, the step or epoch from which a newer attempt replaces it."""
        return self._cuts.get(axis, {})

    @cached_property
    def _cuts(self) -> Mapping[Axis, dict[int, int]]:
        return {axis: self._find_cuts(axis) for axis in _TAKEN_OVER}

    def _find_cuts(self, axis: Axis) -> dict[int, int]:
        takeovers: dict[int, int] = {}
        for facts in self.facts:
            takeover = facts.takeovers.get(axis)
            if takeover is not None:
                takeovers[facts.name.attempt] = takeover
            elif axis == "epoch" and facts.first_epoch is not None:
                takeovers.setdefault(facts.name.attempt, facts.first_epoch)
        return cuts_of(takeovers, attempts={facts.name.attempt for facts in self.facts})

    def _newest(self) -> list[PartFacts]:
        return [facts for facts in self.facts if facts.name.attempt == self.attempts]

    def _newest_of_main(self) -> list[PartFacts]:
        """Those of the newest attempt's main writer, in order."""
        candidates = [facts for facts in self.facts if facts.name.writer == LOOP] or self.facts
        if not candidates:
            return []
        newest = max(candidates, key=lambda facts: facts.name.attempt).name
        return [facts for facts in candidates if facts.name[:2] == newest[:2]]
