"""A run, or one of its ranks, that has stopped logging."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochal.format import format_duration
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.series.window import RecentMedian

if TYPE_CHECKING:
    from epochal.health.context import Context

_COMPANION = ("telemetry", "findings")
# What ranks other than 0 log regularly; their messages and events come at any time.
_REGULAR = frozenset({"step", "metrics", "phases", "epoch"})


@dataclass(slots=True)
class _Rank:
    """The records of one rank: how often they come, and the last of them."""

    last: float
    step: int | None = None
    stride: int = 1
    longest: float = 0.0
    num_records: int = 0
    gaps: RecentMedian = field(default_factory=RecentMedian)

    def observe(self, observation: Observation, *, is_regular: bool) -> None:
        gap_s = observation.t - self.last
        if gap_s > 0:  # records of one moment (a step, its histograms) count once
            self.gaps.push(gap_s)
            self.longest = max(self.longest, gap_s)
            self.last = observation.t
        if observation.step is not None:
            self.stride = max(observation.step - (self.step or 0), 0) or self.stride
            self.step = observation.step
        self.num_records += is_regular

    @property
    def usual(self) -> float:
        return self.gaps.median() or 0.0

    def bar_s(self, limits: SilentRun.Thresholds) -> float:
        """How long it may be silent."""
        return max(limits.min_s, limits.gaps * self.usual, limits.longest * self.longest)

    def is_ahead_of(self, other: _Rank) -> bool:
        """Whether it trains on without the other: it logs later steps, not only an evaluation."""
        if self.step is None or other.step is None:
            return True
        return self.step > other.step + 2 * other.stride


class SilentRun(Rule):
    """No record of the training for much longer than usual, while the run has not ended.

    Every rank is followed. The finding names the one whose records stopped first. A live run is
    judged by the clock, a finished journal by the telemetry that went on.
    """

    name = "silent-run"
    group = "operation"
    meaning = "The run, or one of its ranks, has not logged anything for longer than ever before."
    healthy = "Records of every rank at the usual rate."
    reports = {
        "info": "A rank is silent for 45 s, ten usual intervals and 2.5 times its longest pause.",
        "warning": (
            "The same while the processes are idle. After three minutes if that is not known, "
            "after ten if they are busy."
        ),
    }
    what_to_try = (
        "Run `py-spy dump` on the rank that stopped first: the others wait for it. Check for a "
        "data loader that hangs and a full disk."
    )
    kinds = frozenset()
    replaces_text = True

    class Thresholds(RuleThresholds):
        # Less is not worth a note.
        min_s: float = 45.0
        # Against the usual distance of records, and the longest pause that turned out well.
        gaps: float = 10.0
        longest: float = 2.5
        min_records: int = 10
        # A first evaluation or save may be silent for minutes, but then the processes work.
        warning_s: float = 600.0
        unknown_s: float = 180.0
        idle_pct: float = 5.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._ranks: dict[int, _Rank] = {}
        self._first = 0
        # Per cent of a core and of each GPU that the processes use, by the writer of telemetry.
        self._use: dict[str, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Learn the interval of records; check by the time of the companion's records."""
        if observation.writer.startswith(_COMPANION):
            self._note_machine(observation)
            return self._judge(observation.t, context)
        rank = max(observation.rank, 0)
        if observation.kind == "finish":
            self._ranks.pop(rank, None)
            if rank == 0:
                self._ranks.clear()  # the run has ended, whatever the others do
        elif observation.kind in ("run", "resume") or rank not in self._ranks:
            self._ranks[rank] = _Rank(observation.t, observation.step)
        else:
            is_regular = rank == 0 or observation.kind in _REGULAR
            self._ranks[rank].observe(observation, is_regular=is_regular)
        # Of a thousand ranks, only the record of the one that was named may end the silence.
        may_close = rank == self._first or observation.kind == "finish"
        if not may_close or (self.name, "") not in context.open or self._silent(observation.t):
            return ()
        return (Verdict("", active=False),)

    def tick(self, now: float, context: Context) -> Iterable[Verdict]:
        """Check by the clock."""
        return self._judge(now, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Learn again."""
        self._ranks.clear()

    def _note_machine(self, observation: Observation) -> None:
        gpu = observation.record.get("id", 0)
        for name in ("system/process_cpu_pct", f"gpu/{gpu}/gpu_util"):
            if name in observation.values:
                self._use[f"{observation.writer}/{name}"] = observation.values[name]

    def _silent(self, now: float) -> bool:
        limits = self.thresholds
        return any(now - one.last > one.bar_s(limits) for one in self._judged().values())

    def _judged(self) -> dict[int, _Rank]:
        least = self.thresholds.min_records
        return {rank: one for rank, one in self._ranks.items() if one.num_records >= least}

    def _judge(self, now: float, context: Context) -> Iterable[Verdict]:
        if not self._silent(now):
            return
        limits, ranks = self.thresholds, self._judged()
        # Others that have stopped as well need not have been silent for as long as they may be.
        quiet = {r: one for r, one in ranks.items() if now - one.last > limits.gaps * one.usual}
        first, is_clear = _first_to_stop(quiet, ranks)
        record, self._first = ranks[first], first
        until = record.last + limits.gaps * record.usual
        going = [one for rank, one in ranks.items() if rank not in quiet and one.last > until]
        if going and not any(one.is_ahead_of(record) for one in going):
            return
        silent_s = now - record.last
        evidence: dict[str, float | int | str] = {
            "silent_s": round(silent_s, 1),
            "usual_s": round(record.usual, 3),
            "longest_s": round(record.longest, 1),
        }
        warning_s, machine = limits.unknown_s, ""
        if self._use:
            evidence["use_pct"] = use = max(self._use.values())
            is_idle = use < limits.idle_pct
            warning_s = 0.0 if is_idle else limits.warning_s
            machine = f" Its processes are {'idle' if is_idle else f'busy ({use:.0f} %)'}."
        which = ""
        if len(ranks) > 1:
            later_s = max(one.last for one in ranks.values()) - record.last
            which = _which(context.rank_name(first), later_s, going=bool(going), is_clear=is_clear)
            evidence |= context.rank_evidence(first) if is_clear else {}
        last = "" if record.step is None else f" (the last was step {record.step:,})"
        what = "A rank has logged nothing" if going else "Nothing has been logged"
        yield Verdict(
            "",
            active=True,
            severity="warning" if silent_s >= warning_s else "info",
            sentence=f"{what} for {format_duration(silent_s)}{last}; usually a record comes every "
            f"{format_duration(record.usual)}.{which}{machine}",
            evidence=evidence,
            advice="Inspect the process (py-spy dump --pid …). A rank that waits for another in a "
            "collective operation, a data loader that hangs and a full disk are usual reasons.",
        )


def _which(name: str, later_s: float, *, going: bool, is_clear: bool) -> str:
    """Which rank stopped first, and what the others did."""
    if not is_clear:
        return " The ranks stopped at about the same time."
    if going:
        return f" It is {name}; the other ranks go on."
    later = f"{format_duration(later_s)} later" if later_s > 0 else "at the same time"
    return f" The first to stop was {name}; the last of the others stopped {later}."


def _first_to_stop(quiet: Mapping[int, _Rank], ranks: Mapping[int, _Rank]) -> tuple[int, bool]:
    """The rank that stopped first, and whether the records tell it.

    Ranks that wait for one another stop within a step. The one that did not log a step that was due
    and that another rank logged stopped first. Without steps, a whole interval must lie between.
    """
    first = min(quiet, key=lambda rank: quiet[rank].last)
    steps = [one.step for one in ranks.values() if one.step is not None]
    if len(steps) < len(ranks):
        later = [one.last - quiet[first].last for rank, one in ranks.items() if rank != first]
        return first, min(later, default=math.inf) > quiet[first].usual
    behind = {
        rank: (one.step or 0, one.last)
        for rank, one in quiet.items()
        if (one.step or 0) + one.stride <= max(steps)
    }
    return min(behind, key=lambda rank: behind[rank], default=first), bool(behind)
