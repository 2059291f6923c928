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
_ADVICE = "Set up NTP on the machine. Rates and times left across this point are wrong."

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
        # By writer: its newest time, and its usual gaps. By stream: its last time.
        self._newest: dict[str, float] = {}
        self._gaps: dict[str, Recent] = {}
        self._streams: dict[Stream, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the time from the writer's last record to this one."""
        t, writer, rank, limits = (
            observation.t,
            observation.writer,
            observation.rank,
            self.thresholds,
        )
        subject = _SUBJECT if rank <= 0 else f"{_SUBJECT} (rank {rank})"
        where = f" of {context.rank_name(rank)}" if rank > 0 or len(context.ranks) > 1 else ""
        at = "" if observation.step is None else f" at step {observation.step:,}"
        back_s = self._last_of_stream(observation) - t
        if back_s > limits.back_s:  # older times are not comparable any more
            self._streams = {key: last for key, last in self._streams.items() if key[0] != writer}
            self._newest[writer] = t
            sentence = f"The clock{where} went back by {format_duration(back_s)}{at}."
            evidence = {"back_s": back_s}
            return (Verdict(subject, True, "warning", sentence, None, evidence, _ADVICE),)
        newest = self._newest.get(writer, t)
        gap_s, self._newest[writer] = t - newest, max(newest, t)
        gaps = self._gaps.setdefault(writer, Recent(200))
        known_s = observation.values.get("train/duration_ms", 0.0) / 1000
        if len(gaps) < limits.least or gap_s < max(
            limits.ahead_s, limits.ahead_ratio * gaps.median(), 5 * gaps.highest(), 5 * known_s
        ):
            if gap_s >= 0:
                gaps.push(gap_s)
            return (Verdict(subject, False),)
        sentence = (
            f"{format_duration(gap_s)} passed{at} where {format_duration(gaps.median())} is usual:"
            f" the machine{where} slept, or its clock was set."
        )
        evidence = {"gap_s": gap_s, "usual_s": gaps.median()}
        return (Verdict(subject, True, "warning", sentence, None, evidence, _ADVICE),)

    def forget_from(self, step: int, context: Context) -> None:
        """Between two attempts any time may pass."""
        self._newest.clear()
        self._streams.clear()

    def _last_of_stream(self, observation: Observation) -> float:
        """The time of the last record of this writer, kind and names."""
        values = observation.values
        stream = (observation.writer, observation.kind, next(iter(values), None), len(values))
        last = self._streams.pop(stream, observation.t)
        if len(self._streams) >= _MOST_STREAMS:
            del self._streams[next(iter(self._streams))]
        self._streams[stream] = observation.t
        return last
