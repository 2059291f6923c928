"""Feeds records to the rules and makes findings of their verdicts.

The same records in the same order give the same findings with the same ids, so that a live run, a
reader and a later check agree.

Nothing raises out of here. A rule that fails is made anew and goes on without its history; at its
third fault it is left out. What it has found stays as it was told, and the other rules go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from epochal.guard import Call, Guard
from epochal.health.catalogue import RULES
from epochal.health.consequences import is_consequence
from epochal.health.context import Context
from epochal.health.curves import Curves
from epochal.health.docket import Dockets
from epochal.health.finding import Finding
from epochal.health.phase import PhaseDetector
from epochal.health.roles import Roles
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.sieve import Sieve
from epochal.health.thresholds import Thresholds
from epochal.record import Record, finite, scalars_of

_LOOP = "loop"
# A rule takes microseconds for a record: one that takes so long hangs.
RULE_BUDGET_S = 1.0
# Own statements, and kinds without numbers that speak only to people.
_IGNORED = frozenset({"finding", "text", "blob", "graph"})
# Members of the fault boundary besides the rules: what all of them are built on.
_CURVES, _PHASE, _SIEVE, _RECORD, _FINDINGS = "curves", "phase", "sieve", "record", "findings"
_NO_SCALARS = frozenset({"run", "define", "option", "resume", "finish", "message", "event", "span"})


class Health:
    """Watches one run: feed it every record once, in the order they were written.

    ``rules`` are those of the catalogue unless given. ``config`` is what is known of the run's
    configuration beforehand; records add to it. ``guard`` keeps the faults of the rules.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds | None = None,
        rules: Sequence[type[Rule]] | None = None,
        config: Mapping[str, Any] | None = None,
        guard: Guard | None = None,
        rule_budget_s: float = RULE_BUDGET_S,
    ) -> None:
        self.guard = Guard() if guard is None else guard
        self.thresholds = thresholds or Thresholds()
        self.context = Context(config=dict(config or {}))
        self._budget_s = rule_budget_s
        self._curves = Curves(self.context, self.thresholds.curves)
        self._rules: list[Rule] = []
        for kind in RULES if rules is None else rules:
            self._add(kind)
        self._wanting: dict[tuple[str, bool], list[Rule]] = {}
        self._roles = Roles()
        self._phase = PhaseDetector(self.thresholds.phase)
        self._dockets = Dockets(self.context)
        self._sieve = Sieve()

    @property
    def open_findings(self) -> list[Finding]:
        """What is open now, as far as it has come, the oldest first."""
        return self.guard.run(_FINDINGS, self._dockets.grown) or []

    @property
    def phase(self) -> str:
        """Where the training stands, see ``Phase``; empty where too few points tell."""
        return self.context.phase

    def feed(self, record: Record, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Take in one record; returns the findings that it opened, closed or made graver."""
        kind = str(record.get("log"))
        if not self.guard.run(_SIEVE, self._sieve.passes, record, kind, rank, default=True):
            return []
        return self.judge(record, rank=rank, writer=writer)

    def thin(self, records: Iterable[Record], *, rank: int = 0) -> list[Record]:
        """Those of some records that are to be judged: all of them, but for floods.

        Each record goes through here or through ``feed``, and once only.
        """
        given = list(records)
        thinned = self.guard.run(_SIEVE, self._thinned, given, rank)
        return given if thinned is None else thinned

    def judge(self, record: Record, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Have the rules look at a record that ``thin`` let through; returns as ``feed`` does."""
        kind = str(record.get("log"))
        news: list[Finding] = []
        if kind not in _IGNORED:
            self.guard.run(_RECORD, self._judge, record, kind, rank, writer, news)
        return news

    def tick(self, now: float) -> list[Finding]:
        """Let the rules that watch the clock judge; ``now`` in Unix seconds."""
        news: list[Finding] = []
        self._ask(lambda rule: rule.tick(now, self.context), now, news)
        return news

    def said_again(self, *, is_over: bool = False) -> list[Finding]:
        """Open findings that go on, with their steps and figures by now; ask now and then.

        Each is given when it has lasted several times as long as was said last; with ``is_over``,
        when nothing more will be read, wherever it has grown at all.
        """
        return self.guard.run(_FINDINGS, lambda: self._dockets.said_again(is_over=is_over)) or []

    def close(self) -> list[Finding]:
        """The run has ended: what rules have to say last. What is open stays open."""
        news: list[Finding] = []
        self._ask(lambda rule: rule.finish(self.context), self.context.now, news)
        return news

    # -- rules and their faults -------------------------------------------------------------------

    def _add(self, kind: type[Rule], place: int | None = None) -> None:
        member = member_of(kind)
        if self.guard.is_disabled(member):
            return
        rule = self.guard.run(member, kind, self.thresholds)
        if rule is not None:
            self._rules.insert(len(self._rules) if place is None else place, rule)

    def _each(self, rules: Sequence[Rule], visit: Callable[[Iterator[Rule], Call], object]) -> None:
        self.guard.each(rules, visit, budget_s=self._budget_s, on_fault=self._replace)

    def _ask(
        self, question: Callable[[Rule], Iterable[Verdict]], t: float, news: list[Finding]
    ) -> None:
        """Ask every rule something that no record has to do with."""

        def visit(rules: Iterator[Rule], call: Call) -> None:
            for rule in rules:
                call.member = rule
                verdicts = question(rule)
                if verdicts:
                    self._hear(rule, verdicts, step=self.context.step, t=t, news=news)

        self._each(self._rules, visit)

    def _replace(self, rule: Rule, error: Exception) -> None:
        """Have a fresh rule in the place of one that failed; none after its last fault."""
        self.guard.note(member_of(type(rule)), error)
        if rule in self._rules:
            place = self._rules.index(rule)
            # Whoever goes through the old lists goes on with them.
            self._rules = [one for one in self._rules if one is not rule]
            self._add(type(rule), place)
            self._wanting = {}

    # -- one record -------------------------------------------------------------------------------

    def _thinned(self, records: Sequence[Record], rank: int) -> list[Record]:
        passes = self._sieve.passes
        return [record for record in records if passes(record, str(record.get("log")), rank)]

    def _judge(
        self, record: Record, kind: str, rank: int, writer: str, news: list[Finding]
    ) -> None:
        seen = self._seen(record, kind, rank, writer)
        self._follow_attempts(seen, news)
        self._note(seen)
        context, knows = self.context, self._dockets.knows

        def visit(rules: Iterator[Rule], call: Call) -> None:
            for rule in rules:
                call.member = rule
                for verdict in rule.see(seen, context):
                    # Most verdicts clear what was never seen.
                    if verdict.holds or knows(rule, verdict.subject):
                        self._hear(rule, (verdict,), step=seen.step, t=seen.t, news=news)

        self._each(self._wanting_rules(kind, rank), visit)

    def _seen(self, record: Record, kind: str, rank: int, writer: str) -> Seen:
        values: dict[str, float] = {} if kind in _NO_SCALARS else dict(scalars_of(record))
        roles: dict[str, float] = {}
        if values:
            self._roles.meet(values)
            for role, name in self._roles.names.items():
                if name in values:
                    roles[role] = values[name]
        step, t = record.get("step"), finite(record.get("t"))
        return Seen(
            kind=kind,
            step=step if isinstance(step, int) else None,
            t=self.context.now if t is None else t,
            rank=rank,
            writer=writer,
            values=values,
            roles=roles,
            record=record,
        )

    def _wanting_rules(self, kind: str, rank: int) -> list[Rule]:
        key = (kind, rank <= 0)
        found = self._wanting.get(key)
        if found is None:
            found = self._wanting[key] = [
                rule
                for rule in self._rules
                if (not rule.kinds or kind in rule.kinds) and (key[1] or rule.every_rank)
            ]
        return found

    def _hear(
        self,
        rule: Rule,
        verdicts: Iterable[Verdict],
        *,
        step: int | None,
        t: float,
        news: list[Finding],
    ) -> None:
        dockets, known = self._dockets, self.context.open
        for verdict in verdicts:
            if verdict.holds and known and is_consequence(rule.name, verdict.subject, known):
                continue
            if verdict.holds or dockets.knows(rule, verdict.subject):
                finding = dockets.hear(rule, verdict, step=step, t=t)
                if finding is not None:
                    news.append(finding)

    # -- the run as a whole -----------------------------------------------------------------------

    def _note(self, seen: Seen) -> None:
        context = self.context
        context.now = max(context.now, seen.t)
        context.ranks.add(seen.rank)
        if context.started is None:
            context.started = seen.t
        if seen.kind == "define":
            self._roles.define(seen.record)
        context.role_names = self._roles.names
        context.take(seen.record, seen.kind)
        context.fresh = {}
        if seen.rank <= 0:
            if seen.roles and not self.guard.is_disabled(_CURVES):
                self._follow_curves(seen)
            if seen.step is not None and seen.kind != "span":
                self._note_step(seen, seen.step)
            elif seen.kind == "epoch" and context.step is None:
                self._note_epoch(seen)

    def _note_step(self, seen: Seen, step: int) -> None:
        context = self.context
        if seen.roles:
            context.last.update((k, v) for k, v in seen.roles.items() if math.isfinite(v))
            if "loss" in seen.roles:
                self._follow_phase(step, seen.roles["loss"])
        if seen.kind != "resume":
            context.first_step = step if context.first_step is None else context.first_step
            context.step = step if context.step is None else max(context.step, step)

    def _note_epoch(self, seen: Seen) -> None:
        """A run that counts no steps has a phase by its epochs."""
        epoch, loss = seen.record.get("epoch"), seen.roles.get("loss")
        if isinstance(epoch, int) and loss is not None:
            self._follow_phase(epoch, loss)

    def _follow_curves(self, seen: Seen) -> None:
        if self.guard.outcome(_CURVES, self._curves.note, seen).error is not None:
            self.context.curves.clear()
            self.context.fresh.clear()
            self._curves = Curves(self.context, self.thresholds.curves)

    def _follow_phase(self, step: int, loss: float) -> None:
        if self.guard.is_disabled(_PHASE):
            return
        outcome = self.guard.outcome(_PHASE, self._phase.observe, step, loss)
        if outcome.error is not None:
            self._phase = PhaseDetector(self.thresholds.phase)
        self.context.phase = self._phase.phase

    def _follow_attempts(self, seen: Seen, news: list[Finding]) -> None:
        """Cut histories back where a newer attempt takes over from an older one."""
        if seen.writer != _LOOP:
            return
        attempt = seen.record.get("attempt") if seen.kind in ("run", "resume") else None
        if isinstance(attempt, int) and attempt > self.context.attempt:
            self.context.attempt = attempt
            self.context.resumed_at = None
        if seen.kind == "resume" and seen.step is not None:
            self._cut(seen.step, seen.t, news)
            return
        takes_over = self.context.attempt > 1 and self.context.resumed_at is None
        if takes_over and seen.step is not None and seen.kind != "span":
            self._cut(seen.step, seen.t, news)

    def _cut(self, step: int, t: float, news: list[Finding]) -> None:
        context = self.context
        context.resumed_at = step
        if context.step is not None and context.step >= step:
            context.step = step - 1
        self.guard.run(_PHASE, self._phase.cut, step)
        self.guard.run(_CURVES, self._curves.cut, step)
        context.phase = self._phase.phase

        def visit(rules: Iterator[Rule], call: Call) -> None:
            for rule in rules:
                call.member = rule
                rule.cut(step, context)

        self._each(self._rules, visit)
        news.extend(self._dockets.cut(step, t=t))


def member_of(rule: type[Rule]) -> str:
    """What a rule is called as a member of the fault boundary."""
    return f"rule {rule.name}"
