"""A run, or one of its ranks, that has stopped logging."""

from __future__ import annotations

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
# Ranks whose records come at about the same interval can be compared by their last steps.
_SAME_INTERVAL = 1.5


@dataclass(slots=True)
class _Rank:
    """The records of one rank: how often they come, and the last of them."""

    last: float
    step: int | None = None
    longest: float = 0.0
    num_records: int = 0
    gaps: RecentMedian = field(default_factory=RecentMedian)

    def observe(self, observation: Observation, *, is_regular: bool) -> None:
        gap_s = observation.t - self.last
        if gap_s > 0:  # records of one moment (a step, its histograms) count once
            self.gaps.push(gap_s)
            self.longest = max(self.longest, gap_s)
            self.last = observation.t
        self.step = self.step if observation.step is None else observation.step
        self.num_records += is_regular

    @property
    def usual(self) -> float:
        return self.gaps.median() or 0.0

    def is_quiet(self, now: float, limits: SilentRun.Thresholds) -> bool:
        return now - self.last > limits.gaps * self.usual

    def is_silent(self, now: float, limits: SilentRun.Thresholds) -> bool:
        bar = max(limits.min_s, limits.longest * self.longest)
        return self.is_quiet(now, limits) and now - self.last > bar


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
        # By writer of telemetry (a node), and by its GPU, in per cent.
        self._cpu: dict[str, float] = {}
        self._gpu: dict[str, float] = {}

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
        if (self.name, "") not in context.open or self._quiet(observation.t):
            return ()
        return (Verdict("", active=False),)

    def tick(self, now: float, context: Context) -> Iterable[Verdict]:
        """Check by the clock."""
        return self._judge(now, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Learn again."""
        self._ranks.clear()

    def _note_machine(self, observation: Observation) -> None:
        if observation.kind == "system":
            use = observation.values.get("system/process_cpu_pct")
            if use is not None:
                self._cpu[observation.writer] = use
        elif observation.kind == "gpu":
            gpu = observation.record.get("id", 0)
            use = observation.values.get(f"gpu/{gpu}/gpu_util")
            if use is not None:
                self._gpu[f"{observation.writer}/{gpu}"] = use

    def _quiet(self, now: float) -> dict[int, _Rank]:
        """The ranks that have stopped; empty unless one of them has for long enough."""
        limits = self.thresholds
        quiet = {rank: one for rank, one in self._judged().items() if one.is_quiet(now, limits)}
        return quiet if any(one.is_silent(now, limits) for one in quiet.values()) else {}

    def _judged(self) -> dict[int, _Rank]:
        least = self.thresholds.min_records
        return {rank: one for rank, one in self._ranks.items() if one.num_records >= least}

    def _judge(self, now: float, context: Context) -> Iterable[Verdict]:
        quiet = self._quiet(now)
        if not quiet:
            return
        first, is_clear = _first_to_stop(quiet)
        record = quiet[first]
        silent_s = now - record.last
        evidence: dict[str, float | int | str] = {
            "silent_s": round(silent_s, 1),
            "usual_s": round(record.usual, 3),
            "longest_s": round(record.longest, 1),
        }
        if self._cpu:
            evidence["process_cpu_pct"] = max(self._cpu.values())
        if self._gpu:
            evidence["gpu_util_pct"] = max(self._gpu.values())
        others = [one for rank, one in self._judged().items() if rank != first]
        if others and is_clear:
            evidence |= context.rank_evidence(first)
        last = "" if record.step is None else f" (the last was step {record.step:,})"
        is_all = len(quiet) > len(others)
        what = "Nothing has been logged" if is_all else "A rank has logged nothing"
        which = ""
        if others:
            later_s = max(one.last for one in others) - record.last
            which = _which(context.rank_name(first), later_s, is_all=is_all, is_clear=is_clear)
        yield Verdict(
            "",
            active=True,
            severity="warning" if silent_s >= self._warning_s() else "info",
            sentence=f"{what} for {format_duration(silent_s)}{last}; usually a record comes every "
            f"{format_duration(record.usual)}.{which}{self._machine()}",
            evidence=evidence,
            advice="Inspect the process (py-spy dump --pid …). A rank that waits for another in a "
            "collective operation, a data loader that hangs and a full disk are usual reasons.",
        )

    def _warning_s(self) -> float:
        limits = self.thresholds
        if not self._cpu and not self._gpu:
            return limits.unknown_s
        return 0.0 if self._is_idle() else limits.warning_s

    def _is_idle(self) -> bool:
        return max((*self._cpu.values(), *self._gpu.values())) < self.thresholds.idle_pct

    def _machine(self) -> str:
        if not self._cpu and not self._gpu:
            return ""
        if self._is_idle():
            return " Its processes are idle."
        shown = [f"{max(self._cpu.values()):.0f} % of a core"] if self._cpu else []
        shown += [f"{max(self._gpu.values()):.0f} % of a GPU"] if self._gpu else []
        return f" Its processes use {' and '.join(shown)}."


def _which(name: str, later_s: float, *, is_all: bool, is_clear: bool) -> str:
    """Which rank stopped first, and what the others did."""
    if not is_clear:
        return " The ranks stopped at about the same time."
    if not is_all:
        return f" It is {name}; the other ranks go on."
    later = f"{format_duration(later_s)} later" if later_s > 0 else "at the same time"
    return f" The first to stop was {name}; the last of the others stopped {later}."


def _first_to_stop(quiet: Mapping[int, _Rank]) -> tuple[int, bool]:
    """The rank that stopped first, and whether the records tell it clearly.

    Ranks that wait for one another stop within an interval of records. The one that did not reach
    the last step stopped first; without such a step it is clear only after a whole interval.
    """
    usual = [one.usual for one in quiet.values()]
    steps = {rank: one.step for rank, one in quiet.items() if one.step is not None}
    if len(steps) == len(quiet) and max(usual) <= _SAME_INTERVAL * min(usual):
        first = min(steps, key=lambda rank: (steps[rank], quiet[rank].last))
        if list(steps.values()).count(steps[first]) == 1:
            return first, True
    ordered = sorted(quiet, key=lambda rank: quiet[rank].last)
    first = ordered[0]
    is_clear = len(ordered) == 1 or quiet[ordered[1]].last - quiet[first].last > max(usual)
    return first, is_clear
