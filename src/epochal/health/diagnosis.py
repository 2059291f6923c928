"""The diagnosis of one attempt, wherever it is made: live, by a reader, or when a run finishes.

Findings have ids that follow from what was read. So whoever reads an attempt again from its
beginning gets the same statements, and can leave out those that were written before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from epochal.guard import Guard
from epochal.health.engine import RULE_BUDGET_S, Health
from epochal.health.finding import Evaluated, Finding, dedup_key
from epochal.health.rate_limiter import Sample
from epochal.health.rule import Rule
from epochal.records import Record

_LOOP = "loop"


class Diagnosis:
    """Passes the records of one attempt to the rules, in order, and returns each finding once.

    ``written`` are the statements that are known already, as ``dedup_key`` has them; what is said
    is added. The other arguments are those of ``Health``.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        thresholds: Mapping[str, Mapping[str, Any]] | None = None,
        silenced: Collection[str] = (),
        rules: Sequence[type[Rule]] | None = None,
        guard: Guard | None = None,
        rule_budget_s: float = RULE_BUDGET_S,
    ) -> None:
        self._health = Health(
            config=config,
            thresholds=thresholds,
            silenced=silenced,
            rules=rules,
            guard=guard,
            rule_budget_s=rule_budget_s,
        )
        self.written: set[tuple[str, ...]] = set()
        # Every statement so far, in order: a finding that grew or closed stands here again.
        self.said: list[Finding] = []
        self._is_closed = False

    @property
    def phase(self) -> str:
        """The phase of the training, see ``Phase``; empty with too few points."""
        return self._health.phase

    def feed(self, record: Record, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Process the next record; returns new findings."""
        return self._new(self._health.feed(record, rank=rank, writer=writer))

    @property
    def evaluated(self) -> Evaluated:
        """How many of the records so far the rules have seen."""
        return self._health.evaluated

    def thin(self, records: Sequence[Record], *, rank: int = 0) -> list[Sample]:
        """The records that the rules see: all of them, unless there are too many a second."""
        return self._health.thin(records, rank=rank)

    def judge(self, sample: Sample, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Process a record that ``thin`` accepted; returns new findings."""
        return self._new(self._health.judge(sample, rank=rank, writer=writer))

    def flush(self) -> list[Finding]:
        """Process the extremes that wait for the next record, when no more are expected."""
        return self._new(self._health.flush())

    def tick(self, now: float) -> list[Finding]:
        """Let the rules that watch the clock judge, and say again what goes on; ``now`` in Unix
        seconds.
        """
        return self._new(self._health.tick(now)) + self._keep(self._health.renotify())

    def close(self) -> list[Finding]:
        """The end of the records: the last findings of the rules. Open findings stay open."""
        if self._is_closed:
            return []
        self._is_closed = True
        return self._new(self._health.close())

    def renotify_at_end(self) -> list[Finding]:
        """Open findings that have grown since they were reported, at the end of the records."""
        return self._keep(self._health.renotify(is_over=True))

    def statements(self) -> list[Finding]:
        """All reports in order; open findings in their current state."""
        last = {finding.id: place for place, finding in enumerate(self.said)}
        for finding in self._health.open_findings:
            if finding.id in last:
                self.said[last[finding.id]] = finding
        return list(self.said)

    def latest(self) -> list[Finding]:
        """Each finding once, in its last state, in the order they were found."""
        return list({finding.id: finding for finding in self.statements()}.values())

    def _new(self, findings: Iterable[Finding]) -> list[Finding]:
        return self._keep(one for one in findings if dedup_key(one.record()) not in self.written)

    def _keep(self, findings: Iterable[Finding]) -> list[Finding]:
        kept = list(findings)
        self.written.update(dedup_key(finding.record()) for finding in kept)
        self.said += kept
        return kept
