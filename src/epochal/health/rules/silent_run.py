"""A run that has stopped saying anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.format import format_duration
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.series.window import RecentMedian

if TYPE_CHECKING:
    from epochal.health.context import Context

_COMPANION = ("telemetry", "findings")


class SilentRun(Rule):
    """No record of the training for much longer than usual, while the run has not ended.

    The clock tells it live; in a finished journal, the telemetry that went on meanwhile.
    """

    name = "silent-run"
    group = "operation"
    meaning = "The run has not recorded anything for longer than ever before. It may hang."
    healthy = "Records at the usual rate."
    reports = {
        "info": ("No record for 45 s, ten usual intervals and 2.5 times the longest pause."),
        "warning": (
            "The same while the processes are idle. After three minutes if that is not known, "
            "after ten if they are busy."
        ),
    }
    kinds = frozenset()

    class Thresholds(RuleThresholds):
        # Less is not worth a note.
        min_s: float = 45.0
        # Against the usual distance of records, and the longest pause that turned out well.
        gaps: float = 10.0
        longest: float = 2.5
        min_records: int = 10
        # A first evaluation or save may be silent for minutes, but then the processes work. Where
        # they do nothing it is a warning at once; where that is not known, or they work, after so
        # long.
        warning_s: float = 600.0
        unknown_s: float = 180.0
        idle_pct: float = 5.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._gaps = RecentMedian()
        self._longest = 0.0
        self._num_records = 0
        self._last: float | None = None
        self._last_step: int | None = None
        self._has_ended = False
        self._cpu_pct: float | None = None
        self._use: dict[str, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Learn the interval of records; check by the time of the companion's records."""
        if observation.writer.startswith(_COMPANION):
            self._note_machine(observation)
            return self._judge(observation.t)
        if observation.rank > 0:
            return ()
        if observation.kind in ("run", "resume", "finish"):
            self._begin(has_ended=observation.kind == "finish")
            self._last = observation.t
        else:
            self._note_record(observation)
        return (Verdict("", active=False),) if (self.name, "") in context.open else ()

    def tick(self, now: float, context: Context) -> Iterable[Verdict]:
        """Check by the clock."""
        return self._judge(now)

    def forget_from(self, step: int, context: Context) -> None:
        """Learn again."""
        self._begin(has_ended=False)

    def _begin(self, *, has_ended: bool) -> None:
        self._gaps = RecentMedian()
        self._longest = 0.0
        self._num_records = 0
        self._last = None
        self._has_ended = has_ended

    def _note_record(self, observation: Observation) -> None:
        if self._last is not None and observation.t > self._last:
            gap_s = observation.t - self._last
            # Records of one moment (a step, its histograms) are one word.
            self._gaps.push(gap_s)
            self._longest = max(self._longest, gap_s)
        self._last = observation.t if self._last is None else max(self._last, observation.t)
        self._last_step = observation.step if observation.step is not None else self._last_step
        self._num_records += 1
        self._has_ended = False

    def _note_machine(self, observation: Observation) -> None:
        if observation.kind == "system":
            self._cpu_pct = observation.values.get("system/process_cpu_pct")
        elif observation.kind == "gpu":
            use = observation.values.get(f"gpu/{observation.record.get('id', 0)}/gpu_util")
            if use is not None:
                self._use[f"{observation.writer}/{observation.record.get('id', 0)}"] = use

    def _judge(self, now: float) -> Iterable[Verdict]:
        limits = self.thresholds
        usual = self._gaps.median()
        if self._last is None or usual is None or self._has_ended:
            return
        if self._num_records < limits.min_records:
            return
        silent_s = now - self._last
        bar = max(limits.min_s, limits.gaps * usual, limits.longest * self._longest)
        if silent_s <= bar:
            return
        last = "" if self._last_step is None else f" (the last was step {self._last_step:,})"
        yield Verdict(
            "",
            active=True,
            severity="warning" if silent_s >= self._warning_s() else "info",
            sentence=f"Nothing has been logged for {format_duration(silent_s)}{last}; usually a "
            f"record comes every {format_duration(usual)}.{self._machine()}",
            evidence=self._evidence(silent_s, usual),
            advice="Inspect the process (py-spy dump --pid …). A rank that waits for "
            "another in an exchange, a loader that hangs and a full disk are usual reasons.",
        )

    def _warning_s(self) -> float:
        limits = self.thresholds
        if self._cpu_pct is None and not self._use:
            return limits.unknown_s
        return 0.0 if self._is_idle() else limits.warning_s

    def _is_idle(self) -> bool:
        limit = self.thresholds.idle_pct
        return (self._cpu_pct or 0.0) < limit and max(self._use.values(), default=0.0) < limit

    def _machine(self) -> str:
        if self._cpu_pct is None and not self._use:
            return ""
        if self._is_idle():
            return " Its processes are idle."
        use = max(self._use.values(), default=0.0)
        shown = [] if self._cpu_pct is None else [f"{self._cpu_pct:.0f} % of a core"]
        shown += [f"{use:.0f} % of a GPU"] if self._use else []
        return f" Its processes use {' and '.join(shown)}."

    def _evidence(self, silent_s: float, usual: float) -> dict[str, float | int | str]:
        evidence: dict[str, float | int | str] = {
            "silent_s": round(silent_s, 1),
            "usual_s": round(usual, 3),
            "longest_s": round(self._longest, 1),
        }
        if self._cpu_pct is not None:
            evidence["process_cpu_pct"] = self._cpu_pct
        if self._use:
            evidence["gpu_util_pct"] = max(self._use.values())
        return evidence
