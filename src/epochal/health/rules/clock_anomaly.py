"""The clock goes back, or leaps ahead."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.format import format_duration
from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.recent import Recent
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

_SUBJECT = "clock"
_MOST_STREAMS = 64

# Records of one writer that are made and written in one order: writer, kind, first name, names.
Stream = tuple[str, str, str | None, int]


class ClockAnomaly(Rule):
    """Times of one writer that go back, or leap ahead while the step's own timer saw nothing.

    A record may be written long after it was made: a loss waits for its GPU, a watched layer for
    the end of its step. So a time is held against the last one of records of the same names, which
    keep their order. A machine that slept leaps too. A gap before an evaluation, a save or a resume
    is none.
    """

    name = "clock-anomaly"
    group = "values"
    meaning = "The machine's clock was set, or the machine slept. Rates across the gap are wrong."
    healthy = "Time passes evenly."
    reports = {
        "warning": (
            "The time goes back by a second or more between records of the same names. Or it "
            "jumps by ten minutes and 100 usual gaps that the step's own timer did not measure."
        )
    }
    kinds = frozenset({"step", "metrics"})
    release = 3

    class Thresholds(RuleThresholds):
        # Clocks are set by some milliseconds all the time; a second is noticed in plots and rates.
        back_s: float = 1.0
        # A gap that the step's own timer does not know of: the machine slept or its clock was set.
        ahead_s: float = 600.0
        ahead_ratio: float = 100.0
        least: int = 20

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._newest: dict[str, float] = {}
        self._streams: dict[Stream, float] = {}
        self._gaps: dict[str, Recent] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the time from the writer's last record to this one."""
        subject = _SUBJECT if observation.rank <= 0 else f"{_SUBJECT} (rank {observation.rank})"
        back = self._note_stream(observation)
        if back > self.thresholds.back_s:
            self._forget(observation.writer)
            self._newest[observation.writer] = observation.t
            return (self._backward(subject, back, observation),)
        newest = self._newest.get(observation.writer)
        self._newest[observation.writer] = (
            observation.t if newest is None else max(newest, observation.t)
        )
        if newest is None:
            return ()
        gap = observation.t - newest
        gaps = self._gaps.setdefault(observation.writer, Recent(200))
        verdict = self._forward(subject, gap, gaps, observation)
        if not verdict.active and gap >= 0:
            gaps.push(gap)
        return (verdict,)

    def forget_from(self, step: int, context: Context) -> None:
        """Between two attempts any time may pass."""
        self._newest.clear()
        self._streams.clear()

    def _note_stream(self, observation: Observation) -> float:
        """How far a record's time lies before the last one of its kind and names."""
        stream = (
            observation.writer,
            observation.kind,
            next(iter(observation.values), None),
            len(observation.values),
        )
        last = self._streams.pop(stream, observation.t)
        if len(self._streams) >= _MOST_STREAMS:
            del self._streams[next(iter(self._streams))]
        self._streams[stream] = observation.t
        return last - observation.t

    def _forget(self, writer: str) -> None:
        """After the clock was set, older times are not comparable."""
        self._streams = {key: t for key, t in self._streams.items() if key[0] != writer}

    def _forward(self, subject: str, gap: float, gaps: Recent, observation: Observation) -> Verdict:
        thresholds = self.thresholds
        if len(gaps) < thresholds.least or gap < thresholds.ahead_s:
            return Verdict(subject, False)
        known_s = observation.values.get("train/duration_ms", 0.0) / 1000
        usual = max(gaps.highest(), known_s)
        if gap < thresholds.ahead_ratio * gaps.median() or gap < 5 * usual:
            return Verdict(subject, False)
        return Verdict(
            subject,
            True,
            "warning",
            f"{format_duration(gap)} passed before step {observation.step or 0:,}, where "
            f"{format_duration(gaps.median())} is usual: the machine slept, or its clock was set.",
            evidence={"gap_s": gap, "usual_s": gaps.median()},
            advice="Rates and times left across the gap are wrong; nothing else is.",
        )

    def _backward(self, subject: str, back: float, observation: Observation) -> Verdict:
        where = f" at step {observation.step:,}" if observation.step is not None else ""
        return Verdict(
            subject,
            True,
            "warning",
            f"The clock went back by {format_duration(back)}{where}.",
            evidence={"back_s": back},
            advice="Let the machine keep its time with NTP; rates across this point are wrong.",
        )
