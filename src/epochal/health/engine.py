"""Passes records to the rules and turns their verdicts into findings.

The same records in the same order give the same findings with the same ids. So a live run, a reader
and a later check agree. Whoever reads an attempt again from its beginning can leave out the
findings that were written before.

Nothing raises out of here. A rule that fails is rebuilt and continues without its history. At its
third fault it is disabled. Its findings stay unchanged, and the other rules continue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from epochal.base.alarm import Call
from epochal.base.guard import Guard
from epochal.health.context import CURVE_ROLES, Context, Roles, evaluation_names
from epochal.health.course import Course, LearningRate
from epochal.health.curve import Curve, is_usable
from epochal.health.families import of_name, recognise
from epochal.health.families.family import Facts, note_names
from epochal.health.finding import Evaluated, Finding, dedup_key
from epochal.health.finding_tracker import FindingTrackers
from epochal.health.observation import Observation
from epochal.health.phase import PhaseDetector
from epochal.health.rate_limiter import RateLimiter, Sample
from epochal.health.rule import Rule, Verdict, with_values
from epochal.records import Axis, Record, finite, scalars_by_name

_LOOP = "loop"
# A rule takes microseconds for a record: one that takes so long hangs.
RULE_BUDGET_S = 1.0
# Own statements, and kinds without numbers that speak only to people.
_IGNORED = frozenset({"finding", "text", "blob", "graph"})
# Members of the fault boundary besides the rules: what all of them are built on.
_CURVES, _PHASE, _RATE_LIMITER = "curves", "phase", "rate limiter"
_RECORD, _FINDINGS = "record", "findings"
_NO_SCALARS = frozenset({"run", "define", "option", "resume", "finish", "message", "event", "span"})


class Health:
    """Watches one run: feed it every record once, in the order they were written.

    ``rules`` are those of the registry unless given, without those that ``silenced`` names. With
    none at all, nothing is evaluated.
    ``thresholds`` replaces numbers by rule and name; what does not fit is a fault, and that rule
    keeps its own. ``config`` is what is known of the run's configuration beforehand; records add to
    it. ``family`` is the name of the family of trainings that the run is of, if the user named it.
    ``guard`` keeps the faults of the rules. ``written`` are the statements that are known
    already, as ``dedup_key`` has them: each is returned once. ``said`` has them in order, a finding
    that grew or closed again.
    """

    def __init__(
        self,
        *,
        thresholds: Mapping[str, Mapping[str, Any]] | None = None,
        silenced: Collection[str] = (),
        rules: Sequence[type[Rule]] | None = None,
        config: Mapping[str, Any] | None = None,
        family: str | None = None,
        guard: Guard | None = None,
        rule_budget_s: float = RULE_BUDGET_S,
    ) -> None:
        self.guard = Guard() if guard is None else guard
        self._thresholds = dict(thresholds or {})
        self.context = Context(config=dict(config or {}))
        self._budget_s = rule_budget_s
        self._curves = Curves(self.context)
        self._rules: list[Rule] = []
        self._is_off = rules is not None and not rules
        if rules is None:
            from epochal.health.registry import all_rules  # a reader may never judge a run

            rules = all_rules(self.guard)
        self._causes = {kind.name: kind.causes for kind in rules}
        self._symptoms = {kind.name: kind.symptom_of for kind in rules}
        for kind in rules:
            if kind.name not in silenced:
                self._add(kind)
        self._wanting: dict[tuple[str, bool], list[Rule]] = {}
        self._roles = Roles()
        self._family = of_name(family)
        self._is_family_given = self._family is not None
        self._names: dict[str, None] = {}  # those of series that may say what the family is
        self._facts: tuple[int, int, bool] | None = None  # how much was known when it was asked
        self._phase = PhaseDetector()
        self._trackers = FindingTrackers(self.context)
        self._rate_limiter = RateLimiter()
        self.written: set[tuple[str, ...]] = set()
        self.said: list[Finding] = []
        self._is_closed = False

    @property
    def open_findings(self) -> list[Finding]:
        """The open findings in their current state, the oldest first."""
        return self.guard.run(_FINDINGS, self._trackers.grown) or []

    @property
    def family(self) -> tuple[str, str] | None:
        """The name of the run's family and the fact that speaks for it; None if it is unknown."""
        return None if self._family is None else (self._family.family.name, self._family.why)

    @property
    def phase(self) -> str:
        """The phase of the training, see ``Phase``; empty with too few points."""
        return self.context.phase

    def feed(self, record: Record, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Take in one record; returns the findings that it opened, closed or made more severe."""
        samples = self.thin([record], rank=rank)
        return [news for one in samples for news in self.judge(one, rank=rank, writer=writer)]

    def thin(self, records: Sequence[Record], *, rank: int = 0) -> list[Sample]:
        """The records that the rules see: all of them, unless there are too many a second.

        Each record goes through here or through ``feed``, and once only.
        """
        if self._is_off:
            return list(map(Sample, records))
        samples = self.guard.run(_RATE_LIMITER, self._rate_limiter.accepted, records, rank)
        return list(map(Sample, records)) if samples is None else samples

    def judge(self, sample: Sample, *, rank: int = 0, writer: str = _LOOP) -> list[Finding]:
        """Pass a record that ``thin`` accepted to the rules; returns as ``feed`` does."""
        kind = str(sample.record.get("log"))
        news: list[Finding] = []
        if kind not in _IGNORED and not self._is_off:
            self.guard.run(_RECORD, self._judge, sample, kind, rank, writer, news)
        return self._new(news)

    def flush(self) -> list[Finding]:
        """Judge the extremes of the records since the last one that the rules saw.

        Call it when no more records are expected.
        """
        rest = self.guard.run(_RATE_LIMITER, lambda: list(self._rate_limiter.rest())) or []
        samples = [(rank, sample) for rank, some in rest for sample in some]
        return [news for rank, sample in samples for news in self.judge(sample, rank=rank)]

    @property
    def evaluated(self) -> Evaluated:
        """How many of the records so far the rules have seen."""
        limiter = self._rate_limiter
        return Evaluated(limiter.num_accepted, limiter.num_records)

    def tick(self, now: float) -> list[Finding]:
        """Call the rules that depend on the clock; ``now`` in Unix seconds."""
        news: list[Finding] = []
        context = self.context
        rules = self._rules_of_family()
        self._ask(rules, lambda one: one.tick(now, context), news, step=context.step, t=now)
        return self._new(news)

    def renotify(self, *, is_over: bool = False) -> list[Finding]:
        """Open findings that go on, with their steps and figures by now; ask now and then.

        A finding is returned when it has lasted several times as long as last reported. With
        ``is_over``, at the end of the records, any growth is enough.
        """
        found = self.guard.run(_FINDINGS, lambda: self._trackers.renotify(is_over=is_over))
        return self._keep(found or [])

    def close(self) -> list[Finding]:
        """The run has ended: the last findings of the rules, once. Open findings stay open."""
        if self._is_closed:
            return []
        self._is_closed = True
        last, news = self.flush(), list[Finding]()
        context = self.context
        rules, at = self._rules_of_family(), context.now
        self._ask(rules, lambda one: one.finish(context), news, step=context.step, t=at)
        return last + self._new(news)

    def statements(self) -> list[Finding]:
        """All reports in order; open findings in their current state."""
        last = {finding.id: place for place, finding in enumerate(self.said)}
        for finding in self.open_findings:
            if finding.id in last:
                self.said[last[finding.id]] = finding
        return list(self.said)

    def latest(self) -> list[Finding]:
        """Each finding once, in its last state, in the order they were found."""
        return list({finding.id: finding for finding in self.statements()}.values())

    def _new(self, findings: list[Finding]) -> list[Finding]:
        return self._keep([f for f in findings if dedup_key(f.record()) not in self.written])

    def _keep(self, findings: list[Finding]) -> list[Finding]:
        self.written.update(dedup_key(finding.record()) for finding in findings)
        self.said += findings
        return findings

    # -- rules and their faults -------------------------------------------------------------------

    def _add(self, kind: type[Rule], place: int | None = None) -> None:
        member = member_of(kind)
        if self.guard.is_disabled(member):
            return
        values = self._thresholds.get(kind.name, {})
        numbers = self.guard.run(f"thresholds of {kind.name}", with_values, kind.Thresholds, values)
        rule = self.guard.run(member, kind, numbers or kind.Thresholds())
        if rule is not None:
            self._rules.insert(len(self._rules) if place is None else place, rule)

    def _ask(
        self,
        rules: Sequence[Rule],
        question: Callable[[Rule], Iterable[Verdict]],
        news: list[Finding],
        *,
        step: int | None,
        t: float,
        may_close: bool = True,
    ) -> None:
        """Ask rules one after the other; with ``may_close`` False only what they find counts."""
        knows = self._trackers.knows

        def visit(asked: Iterator[Rule], call: Call) -> None:
            for rule in asked:
                call.member = rule
                for verdict in question(rule):
                    # Most verdicts clear what was never seen.
                    if verdict.active or (may_close and knows(rule, verdict.subject)):
                        self._track(rule, verdict, step=step, t=t, news=news)

        self._each(rules, visit)

    def _each(self, rules: Sequence[Rule], visit: Callable[[Iterator[Rule], Call], object]) -> None:
        self.guard.each(rules, visit, budget_s=self._budget_s, on_fault=self._replace)

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

    def _judge(
        self, sample: Sample, kind: str, rank: int, writer: str, news: list[Finding]
    ) -> None:
        """Pass a record to the rules that want it.

        They may find something in an extreme of skipped records. Nothing else is known of the
        records around it, so it is no point of a phase, and closes no finding.
        """
        observation = self._observation(sample, kind, rank, writer)
        if not sample.is_extreme:
            self._follow_attempts(observation, news)
            self._note(observation)
        else:
            self.context.updated_curves = {}
            if rank <= 0:
                self._follow_curves(observation)
        self._find_family()
        rules = self._wanting_rules(kind, rank)
        if sample.is_extreme:
            rules = [rule for rule in rules if rule.wants_extremes]
        self._ask(
            rules,
            lambda rule: rule.observe(observation, self.context),
            news,
            step=observation.step,
            t=observation.t,
            may_close=not sample.is_extreme,
        )

    def _observation(self, sample: Sample, kind: str, rank: int, writer: str) -> Observation:
        record = sample.record
        values: dict[str, float] = {} if kind in _NO_SCALARS else scalars_by_name(record)
        roles: dict[str, float] = {}
        if values:
            if self._roles.meet(values):
                note_names(self._names, values)
            for role, name in self._roles.names.items():
                if name in values:
                    roles[role] = values[name]
        step, t = record.get("step"), finite(record.get("t"))
        return Observation(
            kind=kind,
            step=step if isinstance(step, int) else None,
            t=self.context.now if t is None else t,
            rank=rank,
            writer=writer,
            values=values,
            roles=roles,
            record=record,
            is_extreme=sample.is_extreme,
            evaluations={name: values[name] for name in evaluation_names(tuple(values), kind)},
        )

    def _wanting_rules(self, kind: str, rank: int) -> list[Rule]:
        key = (kind, rank <= 0)
        found = self._wanting.get(key)
        if found is None:
            found = self._wanting[key] = [
                rule
                for rule in self._rules_of_family()
                if (not rule.kinds or kind in rule.kinds) and (key[1] or rule.every_rank)
            ]
        return found

    def _rules_of_family(self) -> list[Rule]:
        family = self.context.family.name
        return [rule for rule in self._rules if rule.holds_in(family)]

    def _find_family(self) -> None:
        """Ask for the family again where there are more facts than before."""
        context, names = self.context, self._names
        facts = (len(names), len(context.config), "data" in context.facts)
        if facts == self._facts:
            return
        self._facts = facts
        if not self._is_family_given:
            has_labels = "label_range" in context.facts.get("data", {})
            self._family = recognise(Facts(names, context.config, has_labels)) or self._family
        if self._family is not None and self._family.family is not context.family:
            context.family, self._wanting = self._family.family, {}

    def _track(
        self, rule: Rule, verdict: Verdict, *, step: int | None, t: float, news: list[Finding]
    ) -> None:
        if verdict.active and self.context.open and self._is_explained(rule, verdict.subject):
            self._trackers.interrupt(rule, verdict.subject)
            return
        finding = self._trackers.update(rule, verdict, step=step, t=t)
        if finding is not None:
            news.append(finding)
            if finding.state == "open" and finding.severity != "info" and rule.causes:
                news += self._put_under(finding)

    def _put_under(self, cause: Finding) -> list[Finding]:
        """Findings that were open before their cause: each stands under it from now on."""
        news: list[Finding] = []
        for key, symptom in list(self.context.open.items()):
            if symptom.rule == cause.rule or symptom.id == cause.under:
                continue
            if not self._symptoms.get(symptom.rule, frozenset()).isdisjoint(
                self._causes[cause.rule]
            ):
                told = self._trackers.put_under(key, cause.id)
                news += [] if told is None else [told]
        return news

    def _is_explained(self, rule: Rule, subject: str) -> bool:
        """Return True if another rule has an open finding that is a cause of what this one sees.

        An open error of the rule itself goes on.
        """
        own = self.context.open.get((rule.name, subject))
        if not rule.symptom_of or (own is not None and own.severity == "error"):
            return False
        return any(
            finding.severity != "info" and finding.rule != rule.name
            for finding in self.context.open.values()
            if not rule.symptom_of.isdisjoint(self._causes.get(finding.rule, ()))
        )

    # -- the run as a whole -----------------------------------------------------------------------

    def _note(self, observation: Observation) -> None:
        context = self.context
        context.now = max(context.now, observation.t)
        context.ranks.add(observation.rank)
        if observation.kind == "run" and isinstance(host := observation.record.get("host"), str):
            context.hosts[observation.rank] = host
        if context.started is None:
            context.started = observation.t
        if observation.kind == "define":
            self._roles.define(observation.record)
        context.role_names = self._roles.names
        context.take(observation.record, observation.kind)
        context.updated_curves = {}
        if observation.rank <= 0:
            self._follow_curves(observation)
            loss = observation.roles.get("loss")
            epoch = observation.record.get("epoch") if observation.kind == "epoch" else None
            if observation.step is not None and observation.kind != "span":
                self._note_step(observation, observation.step)
            elif isinstance(epoch, int) and context.step is None and loss is not None:
                self._follow_phase(epoch, loss)  # a run that counts no steps

    def _note_step(self, observation: Observation, step: int) -> None:
        context = self.context
        if observation.roles:
            context.last.update((k, v) for k, v in observation.roles.items() if math.isfinite(v))
            if "loss" in observation.roles:
                self._follow_phase(step, observation.roles["loss"])
        if observation.kind != "resume":
            context.first_step = step if context.first_step is None else context.first_step
            context.step = step if context.step is None else max(context.step, step)

    def _follow_curves(self, observation: Observation) -> None:
        if not observation.roles or self.guard.is_disabled(_CURVES):
            return
        if self.guard.outcome(_CURVES, self._curves.note, observation).error is not None:
            self.context.curves.clear()
            self.context.updated_curves.clear()
            self._curves = Curves(self.context)

    def _follow_phase(self, step: int, loss: float) -> None:
        if self.guard.is_disabled(_PHASE):
            return
        outcome = self.guard.outcome(_PHASE, self._phase.observe, step, loss)
        if outcome.error is not None:
            self._phase = PhaseDetector()
        self.context.phase = self._phase.phase

    def _follow_attempts(self, observation: Observation, news: list[Finding]) -> None:
        """Cut histories back where a newer attempt takes over from an older one."""
        if observation.writer != _LOOP:
            return
        attempt = (
            observation.record.get("attempt") if observation.kind in ("run", "resume") else None
        )
        if isinstance(attempt, int) and attempt > self.context.attempt:
            self.context.attempt = attempt
            self.context.resumed_at = None
        if observation.kind == "resume" and observation.step is not None:
            self._forget_from(observation.step, observation.t, news)
            return
        takes_over = self.context.attempt > 1 and self.context.resumed_at is None
        if takes_over and observation.step is not None and observation.kind != "span":
            self._forget_from(observation.step, observation.t, news)

    def _forget_from(self, step: int, t: float, news: list[Finding]) -> None:
        context = self.context
        context.resumed_at = step
        if context.step is not None and context.step >= step:
            context.step = step - 1
        self.guard.run(_PHASE, self._phase.forget_from, step)
        self.guard.run(_CURVES, self._curves.forget_from, step)
        context.phase = self._phase.phase

        def visit(rules: Iterator[Rule], call: Call) -> None:
            for rule in rules:
                call.member = rule
                rule.forget_from(step, context)

        self._each(self._rules, visit)
        news.extend(self._trackers.forget_from(step, t=t))


def member_of(rule: type[Rule]) -> str:
    """What a rule is called as a member of the fault boundary."""
    return f"rule {rule.name}"


# -- curves of rank 0 ------------------------------------------------------------------------------


class Curves:
    """Updates the curves in a context, once per record, before any rule runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.rate = LearningRate()

    def note(self, observation: Observation) -> None:
        """Take in one record of rank 0."""
        if not observation.roles:
            return
        axis, position = _place(observation)
        if position is None:
            return
        self._note_rate(observation, position)
        for role in CURVE_ROLES:
            value = observation.roles.get(role)
            if value is not None and is_usable(value):
                curve = self._curve(role, axis, is_point=not observation.is_extreme)
                if curve is not None:
                    push = curve.push_extreme if observation.is_extreme else curve.push
                    push(position, value)
                    self._context.updated_curves[role] = curve
                    if role == "loss" and not observation.is_extreme:
                        self._follow_course(curve)

    def forget_from(self, step: int) -> None:
        """A new attempt takes over at a step."""
        for curve in self._context.curves.values():
            if curve.axis == "step":
                curve.forget_from(step)
        if self._context.course is not None:
            self._context.course.forget()

    def _follow_course(self, curve: Curve) -> None:
        course = self._context.course
        if course is None or course.curve is not curve:
            course = self._context.course = Course(curve)
        course.follow()

    def _note_rate(self, observation: Observation, position: int) -> None:
        rate = observation.roles.get("lr")
        if rate is None or not math.isfinite(rate):
            return
        if self._context.rate.push(position, rate, is_point=not observation.is_extreme):
            for curve in self._context.curves.values():
                curve.expect_a_shift()

    def _curve(self, role: str, axis: Axis, *, is_point: bool) -> Curve | None:
        """The curve of a role; a new one when another series plays it, None for a coarser axis.

        A curve begins with a point, not with an extreme of points that were skipped.
        """
        curve = self._context.curves.get(role)
        name = self._context.role_names[role]
        if curve is not None and curve.name == name:
            if curve.axis == axis:
                return curve
            if axis == "epoch":  # the same series was also logged by step, which tells more
                return None
        if not is_point:
            return None
        curve = self._context.curves[role] = Curve(name, axis=axis, is_log=role == "norm")
        return curve


def _place(observation: Observation) -> tuple[Axis, int | None]:
    if observation.kind == "epoch":
        epoch = observation.record.get("epoch")
        return "epoch", epoch if isinstance(epoch, int) else None
    return "step", observation.step
