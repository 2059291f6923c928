"""Turns one rule's verdicts on one subject into a finding that opens, worsens and closes."""

from __future__ import annotations

from dataclasses import replace

from epochal.health.context import Context
from epochal.health.finding import Finding, finding_id, is_more_severe
from epochal.health.rule import Rule, Verdict

# An open finding that goes on is said again when it has lasted so many times as long as was said:
# two dozen times in a run of a million steps.
_TIMES = 1.5
_LEAST_STEPS = 100.0
_LEAST_S = 100.0


class FindingTracker:
    """The state of one rule and one subject: verdicts in a row, and the open finding.

    It opens after ``patience`` verdicts that hold. It closes after ``release`` in a row that do
    not, once they rest on as much evidence as opened it; after closing it stays shut for
    ``cooldown_steps``. ``finding`` is what was said last.
    """

    def __init__(self, rule: Rule) -> None:
        self.finding: Finding | None = None
        self._rule = rule
        self._holding = 0
        self._clear = 0
        self._recovered = 0.0  # the extent of the verdicts that do not hold
        self._needed = 0.0  # the extent of those that opened the finding
        self._began: tuple[int | None, float] = (None, 0.0)
        self._held: Verdict | None = None
        self._last_held: int | None = None
        self._last_t = 0.0
        self._closed_at: int | None = None

    def update(self, verdict: Verdict, *, step: int | None, t: float) -> Finding | None:
        """Take in a verdict; what it returns was just opened, closed or made more severe."""
        if not verdict.active:
            return self._hear_clear(verdict.extent, t)
        self.interrupt()
        self._holding += 1
        if self._holding == 1:
            first = verdict.steps[0] if verdict.steps is not None else step
            self._began = (first, t)
        self._held, self._last_t = self._shown(verdict), t
        self._last_held = verdict.steps[1] if verdict.steps is not None else step
        if self.finding is not None:
            return self._grow(verdict, t)
        closed, cooldown = self._closed_at, self._rule.cooldown_steps
        is_cooling = step is not None and closed is not None and step < closed + cooldown
        if self._holding < self._rule.patience or is_cooling:
            return None
        self.finding = self._opened(verdict, t)
        return self.finding

    def _shown(self, verdict: Verdict) -> Verdict:
        """The verdict that an open finding shows: the newest, or that of the peak."""
        held, name = self._held, self._rule.peak
        if self.finding is None or held is None or not name or held.severity != verdict.severity:
            return verdict
        before, now = held.evidence.get(name), verdict.evidence.get(name)
        are_numbers = isinstance(before, (int, float)) and isinstance(now, (int, float))
        return held if are_numbers and now < before else verdict  # type: ignore[operator]

    def interrupt(self) -> None:
        """Count recovery from its beginning: the fault was seen again."""
        self._clear, self._recovered = 0, 0.0

    @property
    def grown(self) -> Finding | None:
        """The open finding as it is now: its last step, and the sentence of the newest evidence.

        Weaker evidence replaces nothing: a warning after an error has another sentence.
        """
        finding, held = self.finding, self._held
        if finding is None or held is None:
            return finding
        steps = self._steps_by_now(finding)
        if is_more_severe(finding.severity, held.severity):
            return replace(finding, steps=steps)
        return replace(
            finding,
            steps=steps,
            sentence=held.sentence,
            evidence=dict(held.evidence),
            advice=held.advice or finding.advice,
            certainty=held.certainty or self._rule.certainty,
        )

    def put_under(self, cause: str) -> Finding | None:
        """The finding turned out to be a consequence of another one; None where that is known."""
        grown = self.grown
        if grown is None or grown.under == cause:
            return None
        self.finding = replace(grown, under=cause, t=self._last_t)
        return self.finding

    def renotify(self, *, is_over: bool) -> Finding | None:
        """The finding, if it has grown several times since its report; at the end, any growth."""
        told, grown = self.finding, self.grown
        if told is None or grown is None:
            return None
        if told.steps is not None and grown.steps is not None:
            first, before, now = float(told.steps[0]), float(told.steps[1]), float(grown.steps[1])
            least = _LEAST_STEPS
        else:
            first, before, now, least = self._began[1], told.t, self._last_t, _LEAST_S
        if now <= before or not (is_over or now - first >= max(_TIMES * (before - first), least)):
            return None
        self.finding = replace(grown, t=self._last_t)
        return self.finding

    def forget_from(self, step: int, *, t: float) -> Finding | None:
        """A new attempt takes over at ``step``: close what began there or after."""
        self._holding = 0
        self.interrupt()
        if self._closed_at is not None and self._closed_at >= step:
            self._closed_at = None
        finding = self.finding
        if finding is None or finding.steps is None or finding.steps[0] < step:
            return None
        return self._close(finding, t)

    def _hear_clear(self, extent: float, t: float) -> Finding | None:
        self._holding = 0
        if self.finding is None:
            return None
        self._clear += 1
        self._recovered += extent
        if self._clear < self._rule.release or self._recovered < self._needed:
            return None
        return self._close(self.finding, t)

    def _close(self, finding: Finding, t: float) -> Finding:
        grown = self.grown or finding
        if grown.steps is not None:
            self._closed_at = grown.steps[1]
        self.finding, self._held = None, None
        self.interrupt()
        return replace(grown, state="closed", t=t)

    def _opened(self, verdict: Verdict, t: float) -> Finding:
        self._needed = max(verdict.extent, self._holding)
        first, began_t = self._began
        steps = verdict.steps
        if steps is None and first is not None and self._last_held is not None:
            steps = (min(first, self._last_held), max(first, self._last_held))
        opened = began_t if first is None else first
        return Finding(
            id=finding_id(self._rule.name, verdict.subject, opened),
            rule=self._rule.name,
            severity=verdict.severity,
            sentence=verdict.sentence,
            series=verdict.subject or None,
            steps=steps,
            evidence=dict(verdict.evidence),
            advice=verdict.advice,
            state="open",
            t=t,
            certainty=verdict.certainty or self._rule.certainty,
            experiment=self._rule.experiment,
            apart=dict(self._rule.apart),
        )

    def _grow(self, verdict: Verdict, t: float) -> Finding | None:
        finding = self.finding
        if finding is None or not is_more_severe(verdict.severity, finding.severity):
            return None
        self._needed = max(self._needed, verdict.extent)
        self.finding = replace(
            finding,
            severity=verdict.severity,
            sentence=verdict.sentence,
            evidence=dict(verdict.evidence),
            advice=verdict.advice or finding.advice,
            certainty=verdict.certainty or self._rule.certainty,
            steps=self._steps_by_now(finding),
            t=t,
        )
        return self.finding

    def _steps_by_now(self, finding: Finding) -> tuple[int, int] | None:
        if finding.steps is None or self._last_held is None:
            return finding.steps
        return finding.steps[0], max(finding.steps[1], self._last_held)


class FindingTrackers:
    """The dockets of all rules and subjects, and the findings that are open."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trackers: dict[tuple[str, str], FindingTracker] = {}

    def knows(self, rule: Rule, subject: str) -> bool:
        """Whether a subject ever had an active verdict; else an inactive one means nothing."""
        return (rule.name, subject) in self._trackers

    def update(self, rule: Rule, verdict: Verdict, *, step: int | None, t: float) -> Finding | None:
        """Take in one verdict of a rule."""
        key = (rule.name, verdict.subject)
        tracker = self._trackers.get(key)
        if tracker is None:
            if not verdict.active:
                return None
            tracker = self._trackers[key] = FindingTracker(rule)
        news = tracker.update(verdict, step=step, t=t)
        if news is not None:
            self._keep(key, tracker)
        return news

    def interrupt(self, rule: Rule, subject: str) -> None:
        """An active verdict that another finding explains is no news, but no recovery either."""
        tracker = self._trackers.get((rule.name, subject))
        if tracker is not None:
            tracker.interrupt()

    def put_under(self, key: tuple[str, str], cause: str) -> Finding | None:
        """Note that a finding is a consequence of another one; what it returns is news."""
        tracker = self._trackers.get(key)
        news = None if tracker is None else tracker.put_under(cause)
        if news is not None and tracker is not None:
            self._keep(key, tracker)
        return news

    def grown(self) -> list[Finding]:
        """The open findings as far as they have come, the oldest first."""
        found = (self._trackers[key].grown for key in self._context.open)
        return [finding for finding in found if finding is not None]

    def renotify(self, *, is_over: bool) -> list[Finding]:
        """The open findings that have grown so much that they are reported again."""
        news: list[Finding] = []
        for key in list(self._context.open):
            tracker = self._trackers[key]
            finding = tracker.renotify(is_over=is_over)
            if finding is not None:
                self._keep(key, tracker)
                news.append(finding)
        return news

    def forget_from(self, step: int, *, t: float) -> list[Finding]:
        """Close what began at ``step`` or after; what it returns was closed."""
        closed: list[Finding] = []
        for key, tracker in self._trackers.items():
            news = tracker.forget_from(step, t=t)
            if news is not None:
                self._keep(key, tracker)
                closed.append(news)
        return closed

    def _keep(self, key: tuple[str, str], tracker: FindingTracker) -> None:
        if tracker.finding is None:
            self._context.open.pop(key, None)
        else:
            self._context.open[key] = tracker.finding
