"""Feeds records to the rules and makes findings of their verdicts.

The same records in the same order give the same findings with the same ids, so that a live run, a
reader and a later check agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from epochal.record import Record, scalars_of

_LOOP = "loop"
# Own statements, and kinds without numbers that speak only to people.
_IGNORED = frozenset({"finding", "text", "blob", "graph"})
_NO_SCALARS = frozenset({"run", "define", "option", "resume", "finish", "message", "event", "span"})


class Health:
    """Watches one run: feed it every record once, in the order they were written.

    ``rules`` are those of the catalogue unless given. ``config`` is what is known of the run's
    configuration beforehand; records add to it.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds | None = None,
        rules: Sequence[type[Rule]] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.thresholds = thresholds or Thresholds()
        self.context = Context(config=dict(config or {}))
        self._curves = Curves(self.context, self.thresholds.curves)
        self._rules = [rule(self.thresholds) for rule in (RULES if rules is None else rules)]
        self._wanting: dict[tuple[str, bool], list[Rule]] = {}
        self._roles = Roles()
        self._phase = PhaseDetector(self.thresholds.phase)
        self._dockets = Dockets(self.context)
        self._sieve = Sieve()

    @property
    def open_findings(self) -> list[Finding]:
        """What is open now, as far as it has come, the oldest first."""
        return self._dockets.grown()

    @property
    def phase(self) -> str:
        """Where the training stands, see ``Phase``; empty where too few points tell."""
        return self.context.phase

    def feed(self, record: Record, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Take in one record; returns the findings that it opened, closed or made graver."""
        if not self._sieve.passes(record, str(record.get("log")), rank):
            return []
        return self.judge(record, rank=rank, writer=writer)

    def thin(self, records: Iterable[Record], *, rank: int = 0) -> list[Record]:
        """Those of some records that are to be judged: all of them, but for floods.

        Each record goes through here or through ``feed``, and once only.
        """
        passes = self._sieve.passes
        return [record for record in records if passes(record, str(record.get("log")), rank)]

    def judge(self, record: Record, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Have the rules look at a record that ``thin`` let through; returns as ``feed`` does."""
        kind = str(record.get("log"))
        if kind in _IGNORED:
            return []
        seen = self._seen(record, kind, rank, writer)
        news = self._follow_attempts(seen)
        self._note(seen)
        context, knows = self.context, self._dockets.knows
        for rule in self._wanting_rules(kind, rank):
            for verdict in rule.see(seen, context):
                # Most verdicts clear what was never seen.
                if verdict.holds or knows(rule, verdict.subject):
                    news.extend(self._heard(rule, (verdict,), step=seen.step, t=seen.t))
        return news

    def tick(self, now: float) -> list[Finding]:
        """Let the rules that watch the clock judge; ``now`` in Unix seconds."""
        news: list[Finding] = []
        for rule in self._rules:
            verdicts = rule.tick(now, self.context)
            if verdicts:
                news.extend(self._heard(rule, verdicts, step=self.context.step, t=now))
        return news

    def said_again(self, *, is_over: bool = False) -> list[Finding]:
        """Open findings that go on, with their steps and figures by now; ask now and then.

        Each is given when it has lasted several times as long as was said last; with ``is_over``,
        when nothing more will be read, wherever it has grown at all.
        """
        return self._dockets.said_again(is_over=is_over)

    def close(self) -> list[Finding]:
        """The run has ended: what rules have to say last. What is open stays open."""
        news: list[Finding] = []
        for rule in self._rules:
            verdicts = rule.finish(self.context)
            if verdicts:
                step, t = self.context.step, self.context.now
                news.extend(self._heard(rule, verdicts, step=step, t=t))
        return news

    # -- one record -------------------------------------------------------------------------------

    def _seen(self, record: Record, kind: str, rank: int, writer: str) -> Seen:
        values: dict[str, float] = {} if kind in _NO_SCALARS else dict(scalars_of(record))
        roles: dict[str, float] = {}
        if values:
            self._roles.meet(values)
            for role, name in self._roles.names.items():
                if name in values:
                    roles[role] = values[name]
        step, t = record.get("step"), record.get("t")
        return Seen(
            kind=kind,
            step=step if isinstance(step, int) else None,
            t=float(t) if isinstance(t, (int, float)) else self.context.now,
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

    def _heard(
        self, rule: Rule, verdicts: Iterable[Verdict], *, step: int | None, t: float
    ) -> list[Finding]:
        news: list[Finding] = []
        dockets, known = self._dockets, self.context.open
        for verdict in verdicts:
            if verdict.holds and known and is_consequence(rule.name, verdict.subject, known):
                continue
            if verdict.holds or dockets.knows(rule, verdict.subject):
                finding = dockets.hear(rule, verdict, step=step, t=t)
                if finding is not None:
                    news.append(finding)
        return news

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
            self._curves.note(seen)
            if seen.step is not None and seen.kind != "span":
                self._note_step(seen, seen.step)
            elif seen.kind == "epoch" and context.step is None:
                self._note_epoch(seen)

    def _note_step(self, seen: Seen, step: int) -> None:
        context = self.context
        if seen.roles:
            context.last.update((k, v) for k, v in seen.roles.items() if math.isfinite(v))
            if "loss" in seen.roles:
                context.phase = self._phase.observe(step, seen.roles["loss"])
        if seen.kind != "resume":
            context.first_step = step if context.first_step is None else context.first_step
            context.step = step if context.step is None else max(context.step, step)

    def _note_epoch(self, seen: Seen) -> None:
        """A run that counts no steps has a phase by its epochs."""
        epoch, loss = seen.record.get("epoch"), seen.roles.get("loss")
        if isinstance(epoch, int) and loss is not None:
            self.context.phase = self._phase.observe(epoch, loss)

    def _follow_attempts(self, seen: Seen) -> list[Finding]:
        """Cut histories back where a newer attempt takes over from an older one."""
        if seen.writer != _LOOP:
            return []
        attempt = seen.record.get("attempt") if seen.kind in ("run", "resume") else None
        if isinstance(attempt, int) and attempt > self.context.attempt:
            self.context.attempt = attempt
            self.context.resumed_at = None
        if seen.kind == "resume" and seen.step is not None:
            return self._cut(seen.step, seen.t)
        takes_over = self.context.attempt > 1 and self.context.resumed_at is None
        if takes_over and seen.step is not None and seen.kind != "span":
            return self._cut(seen.step, seen.t)
        return []

    def _cut(self, step: int, t: float) -> list[Finding]:
        context = self.context
        context.resumed_at = step
        if context.step is not None and context.step >= step:
            context.step = step - 1
        self._phase.cut(step)
        self._curves.cut(step)
        context.phase = self._phase.phase
        for rule in self._rules:
            rule.cut(step, context)
        return self._dockets.cut(step, t=t)
