"""Ranks that stop, that make the others wait, or whose copies of the model are not equal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from epochal.health.context import Context
from epochal.health.layer_series import WEIGHT_NORMS, holds_layers
from epochal.health.observation import Observation
from epochal.health.rule import CONCLUSIVE, Message, Rule, RuleThresholds, Verdict
from epochal.records import finite
from epochal.records.format import format_duration
from epochal.series.window import Recent

_COMPANION = ("telemetry", "findings")
# What ranks other than 0 log regularly; their messages and events come at any time.
_REGULAR = frozenset({"step", "metrics", "phases", "epoch"})
# The usual distance of fewer records is not known.
_LEAST_RECORDS = 10
# Where a rank waits, and what the first rank does for all of them.
_NO_WORK = frozenset({"phase/sync", "phase/other", "phase/eval", "phase/save", "phase/log"})
_MOST_STEPS = 512
# What is equal on all ranks differs by rounding.
_EQUAL = 1e-5


@dataclass(slots=True)
class _Pace:
    """How often a rank logs, and its last record."""

    last: float
    step: int | None = None
    stride: int = 1
    longest: float = 0.0
    num_records: int = 0
    gaps: Recent = field(default_factory=partial(Recent, 200))

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
        return self.gaps.median() if len(self.gaps) else 0.0

    def is_ahead_of(self, other: _Pace) -> bool:
        """Whether it trains on without the other: it logs later steps, not only an evaluation."""
        if self.step is None or other.step is None:
            return True
        return self.step > other.step + 2 * other.stride


class SilentRun(Rule):
    """The run, or one of its ranks, has not logged anything for longer than ever before.

    No record for much longer than usual; a live run is judged by the clock.

    A finished journal is judged by the telemetry that went on. The finding names the rank whose
    records stopped first: the one that did not log a step that another rank logged.
    """

    name = "silent-run"
    group = "operation"
    certainty = "fact"
    healthy = "Records of every rank at the usual rate."
    reports = {
        "info": (
            "A rank is silent for {min_s:duration}, {gaps:plain} usual intervals and "
            "{longest:plain} times its longest pause."
        ),
        "warning": (
            "The same while the processes are idle. After {unknown_s:duration} if that is not "
            "known, after {warning_s:duration} if they are busy."
        ),
    }
    messages = {
        "silent": Message(
            "{what} for {silent_s:duration}{last}; usually a record comes every "
            "{usual_s:duration}.{which}{machine}",
            "Inspect the process (py-spy dump --pid …). A rank that waits for another in a "
            "collective operation, a data loader that hangs and a full disk are usual reasons.",
            "info",
        )
    }
    kinds = frozenset()

    class Thresholds(RuleThresholds):
        # Less is not worth a note.
        min_s: float = 45.0
        # Against the usual distance of records, and the longest pause that turned out well.
        gaps: float = 10.0
        longest: float = 2.5
        # A first evaluation or save may be silent for minutes, but then the processes work.
        warning_s: float = 600.0
        unknown_s: float = 180.0
        idle_pct: float = 5.0

    thresholds: Thresholds

    def reset(self) -> None:
        self._ranks: dict[int, _Pace] = {}
        self._first = 0  # the rank that stopped first
        # Per cent of a core and of each GPU that the processes use, by the writer of telemetry.
        self._use: dict[str, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Learn the interval of records; check by the time of the companion's records."""
        if observation.writer.startswith(_COMPANION):
            gpu = observation.record.get("id", 0)
            for name in ("system/process_cpu_pct", f"gpu/{gpu}/gpu_util"):
                if name in observation.values:
                    self._use[f"{observation.writer}/{name}"] = observation.values[name]
            return self.tick(observation.t, context)
        rank = max(observation.rank, 0)
        if observation.kind == "finish":
            self._ranks.pop(rank, None)
            if rank == 0:
                self._ranks.clear()  # the run has ended, whatever the others do
        elif observation.kind in ("run", "resume") or rank not in self._ranks:
            self._ranks[rank] = _Pace(observation.t, observation.step)
        else:
            is_regular = rank == 0 or observation.kind in _REGULAR
            self._ranks[rank].observe(observation, is_regular=is_regular)
        # Of a thousand ranks, only the record of the one that was named may end the silence.
        may_close = rank == self._first or observation.kind == "finish"
        if may_close and context.is_open(self.name, "") and not self._is_silent(observation.t):
            return (Verdict("", False, extent=CONCLUSIVE),)
        return ()

    def tick(self, now: float, context: Context) -> Iterable[Verdict]:
        return self._judge(now, context) if self._is_silent(now) else ()

    def _is_silent(self, now: float) -> bool:
        limits = self.thresholds
        return any(
            now - pace.last
            > max(limits.min_s, limits.gaps * pace.usual, limits.longest * pace.longest)
            for pace in self._known().values()
        )

    def _known(self) -> dict[int, _Pace]:
        return {r: pace for r, pace in self._ranks.items() if pace.num_records >= _LEAST_RECORDS}

    def _judge(self, now: float, context: Context) -> Iterable[Verdict]:
        limits, ranks = self.thresholds, self._known()
        # Others that have stopped as well need not have been silent for as long as they may be.
        quiet = {r: pace for r, pace in ranks.items() if now - pace.last > limits.gaps * pace.usual}
        newest = max(pace.step or 0 for pace in ranks.values())
        behind = [
            rank
            for rank, pace in quiet.items()
            if pace.step is not None and pace.step + pace.stride <= newest
        ]
        first = min(behind or quiet, key=lambda rank: (quiet[rank].step or 0, quiet[rank].last))
        pace, self._first = ranks[first], first
        until = pace.last + limits.gaps * pace.usual
        going = [other for r, other in ranks.items() if r not in quiet and other.last > until]
        if going and not any(other.is_ahead_of(pace) for other in going):
            return
        evidence: dict[str, Any] = {}
        warning_s, machine, which = limits.unknown_s, "", ""
        if self._use:
            evidence["use_pct"] = use = max(self._use.values())
            is_idle = use < limits.idle_pct
            warning_s = 0.0 if is_idle else limits.warning_s
            machine = f" Its processes are {'idle' if is_idle else f'busy ({use:.0f} %)'}."
        if len(ranks) > 1 and not behind and not going:
            which = " The ranks stopped at about the same time."
        elif len(ranks) > 1:
            evidence |= context.rank_evidence(first)
            later_s = max(other.last for other in ranks.values()) - pace.last
            which = (
                f" It is {context.rank_name(first)}; the other ranks go on."
                if going
                else f" The first to stop was {context.rank_name(first)}; the last of the others "
                f"stopped {format_duration(later_s)} later."
            )
        silent_s = now - pace.last
        yield self.found(
            "silent",
            "",
            severity="warning" if silent_s >= warning_s else None,
            words={
                "what": "A rank has logged nothing" if going else "Nothing has been logged",
                "last": "" if pace.step is None else f" (the last was step {pace.step:,})",
                "which": which,
                "machine": machine,
            },
            silent_s=round(silent_s, 1),
            usual_s=round(pace.usual, 3),
            longest_s=round(pace.longest, 1),
            **evidence,
        )


_DURATIONS = 30  # step records of each rank


class Straggler(Rule):
    """All ranks wait for one rank at every step.

    A rank whose own work takes longer than the other ranks'.
    """

    name = "straggler"
    group = "speed"
    healthy = "Ranks are within a few per cent of each other."
    reports = {
        "warning": (
            "A rank takes {share:plain} times the median of the others, and is outside their "
            "range. Of two ranks, one takes {share_of_two:plain} times as long. `sync`, `eval`, "
            "`save`, `log` and waiting in `backward` are not counted."
        )
    }
    messages = {
        "slow": Message(
            "All ranks wait for {name}: it takes {own_ms} ms a step where the others take "
            "{usual_ms} ms ({ratio:times} times as long).",
            "Compare its GPU's clock and temperature, its data and other programs on its machine "
            "with the others'. Give ranks batches of equal length.",
        )
    }
    needs = (
        "Timed phases of every rank, or the duration of its own work in each step record. The "
        "duration of a whole step is the same on all ranks that wait for each other."
    )
    kinds = frozenset({"phases", "step"})
    patience = 3
    release = 3

    class Thresholds(RuleThresholds):
        # Ranks on equal machines differ by a few percent; all wait for the slowest at every step.
        share: float = 1.2
        # Of two ranks nobody knows which is usual, nor how much ranks differ.
        share_of_two: float = 1.5
        # And the slowest must stand out from how much the others differ among themselves.
        deviations: float = 4.0

    thresholds: Thresholds

    def reset(self) -> None:
        """Measure again: a new attempt may have other machines."""
        # By rank: the last five times of a step's work, and that of the backward pass, in ms.
        self._times: dict[int, Recent] = {}
        self._backward: dict[int, float] = {}
        self._durations: dict[int, Recent] = {}  # of steps, while no phases are known

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Store one rank's time, and compare it with those of the others."""
        rank, work = observation.rank, _work(observation)
        if work is None or rank < 0:
            return
        if observation.kind == "step":
            kept = self._durations.setdefault(rank, Recent(_DURATIONS))
            kept.push(work)
            is_full = min(map(len, self._durations.values())) == _DURATIONS
            if not self._times and is_full and (observation.step or 0) % 10 == 0:
                levels = {one: times.median() for one, times in self._durations.items()}
                yield from self._judge_slowest(rank, levels, context)
            return
        self._times.setdefault(rank, Recent(5)).push(work)
        if "phase/backward" in observation.values:
            self._backward[rank] = observation.values["phase/backward"]
        if len(self._times) < 2 or min(map(len, self._times.values())) < 2:
            return
        # A backward pass that is longer than another's waits for it.
        least = min(self._backward.values(), default=0.0)
        levels = {
            one: times.median() - (self._backward.get(one, least) - least)
            for one, times in self._times.items()
        }
        yield from self._judge_slowest(rank, levels, context)

    def _judge_slowest(
        self, rank: int, levels: Mapping[int, float], context: Context
    ) -> Iterable[Verdict]:
        # The slowest is judged by every rank's record: the last of a run may be another's.
        for one in {rank, max(levels, key=lambda rank: levels[rank])}:
            if len(levels) > 1:
                yield self._judge(one, levels, context)

    def _judge(self, rank: int, levels: Mapping[int, float], context: Context) -> Verdict:
        limits, own = self.thresholds, levels[rank]
        others = [level for other, level in levels.items() if other != rank]
        usual = median(others)
        spread = median(abs(level - usual) for level in others)
        share = limits.share if len(others) > 1 else limits.share_of_two
        if usual <= 0 or own <= max(share * usual, usual + limits.deviations * spread):
            return Verdict(f"rank {rank}", False)
        return self.found(
            "slow",
            f"rank {rank}",
            words={"name": context.rank_name(rank)},
            **context.rank_evidence(rank),
            own_ms=own,
            usual_ms=usual,
            ratio=round(own / usual, 2),
            ranks=len(levels),
        )


def _work(observation: Observation) -> float | None:
    """Return the milliseconds in which a rank did not wait for others."""
    values = observation.values
    if observation.kind == "step":
        return values.get("train/duration_ms")
    phases = [name for name in values if name.startswith("phase/") and name not in _NO_WORK]
    wall_ms = finite(observation.record.get("wall_ms"))
    if phases or wall_ms is None:
        return finite(sum(values[name] for name in phases)) or None
    return wall_ms - values.get("phase/sync", 0.0)


class RankTable:
    """One value of every rank at the same step, row by row as the records come in."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, float]] = {}
        self._ranks: set[int] = set()

    def push(self, step: int, rank: int, value: float) -> Mapping[int, float] | None:
        """Add a value; returns the row if every rank that ever had the value is in it now."""
        self._ranks.add(rank)
        row = self._rows.setdefault(step, {})
        row[rank] = value
        if not math.isfinite(value) or len(row) >= max(2, len(self._ranks)):
            del self._rows[step]
            return row if math.isfinite(value) else None
        if len(self._rows) > _MOST_STEPS:
            del self._rows[next(iter(self._rows))]
        return None


@dataclass(slots=True)
class _Copies:
    """A value that may be equal on every rank: first learned, then checked."""

    learn: int  # so many steps
    table: RankTable = field(default_factory=RankTable)
    is_equal: bool = True
    streak: int = 0  # steps in a row that differ
    since: int = 0

    def observe(self, step: int, spread: float, apart: float) -> None:
        if self.learn:
            self.learn -= 1
            self.is_equal = self.is_equal and spread <= _EQUAL
        elif not self.is_equal or spread <= apart:
            self.streak = 0
        else:
            self.since = self.since if self.streak else step
            self.streak += 1


class ReplicaDrift(Rule):
    """Copies of the model on different ranks are no longer equal.

    Norms that were the same on all ranks and differ.

    Norms that differ from the beginning are those of sharded weights, or gradients that are not
    exchanged: those differ in both directions.
    """

    name = "replica-drift"
    group = "layers"
    certainty = "fact"
    healthy = "Norms are equal on all ranks except for rounding."
    reports = {
        "warning": "Gradient norms of the first {unequal} steps show that they are not exchanged.",
        "error": "Norms that were equal differ by {apart:percent} {lasting} times in a row.",
    }
    messages = {
        "apart": Message(
            "The ranks have drifted apart: {series} was the same on all of them and has differed "
            "since step {since}, by {spread:percent} now; {far_name} has {far}, {near_name} "
            "{near}.",
            "Check that every rank takes part in every exchange (no branch that skips it, no "
            "unused parameters), that seeds differ only for the data, and that buffers are "
            "broadcast. Restart from the last checkpoint at which the ranks agreed.",
            "error",
        ),
        "not exchanged": Message(
            "The gradient norm differs between ranks at each of the first {unequal} steps, in both "
            "directions by {spread:percent}: the gradients are not exchanged, or the norm is taken "
            "before the exchange.",
            "Check that the model is wrapped in DistributedDataParallel, that the loop calls the "
            "wrapper, and that no_sync() ends before the last backward pass of a step.",
        ),
    }
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"step", "metrics"})
    release = 20

    class Thresholds(RuleThresholds):
        apart: float = 1e-3
        lasting: int = 3
        # Norms of so many steps from the first that differ.
        unequal: int = 50

    thresholds: Thresholds

    def reset(self) -> None:
        """Learn again: a new attempt starts from equal weights."""
        self._copies: dict[str, _Copies] = {}
        self._weight: str | None = None  # the first that is apart
        self._ratios: list[float] = []  # of the norms of the first two ranks, as logarithms

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the record with those of the other ranks at its step."""
        step, rank = observation.step, observation.rank
        if step is None or rank < 0 or len(context.ranks) < 2:
            return
        values = {
            context.role_names[role]: observation.roles[role]
            for role in ("norm", "loss")
            if role in observation.roles
        }
        if holds_layers(observation):
            norms = WEIGHT_NORMS.of(observation.values)
            values |= {WEIGHT_NORMS.name(layer): norm for layer, norm in norms.items()}
        for name, value in values.items():
            if name not in self._copies and value == 0:
                continue  # as zero on every shard as on every copy
            # Weights are watched rarely. Copies start equal; shards of a model never are.
            learn = 1 if name.startswith(WEIGHT_NORMS.prefix) else 5
            copies = self._copies.setdefault(name, _Copies(learn))
            row = copies.table.push(step, rank, value)
            if row is not None:
                yield self._judge(name, step, row, context)
                if name == context.role_names.get("norm"):
                    yield from self._judge_exchange(name, step, row)

    def _judge(self, name: str, step: int, row: Mapping[int, float], context: Context) -> Verdict:
        copies, scale = self._copies[name], max(map(abs, row.values()))
        spread = (max(row.values()) - min(row.values())) / scale if scale > 0 else 0.0
        copies.observe(step, spread, self.thresholds.apart)
        is_apart = copies.streak >= self.thresholds.lasting
        if is_apart and name.startswith(WEIGHT_NORMS.prefix):  # one finding for all of them
            self._weight = self._weight or name
            is_apart = name == self._weight
        if not is_apart:
            return Verdict(name, False)
        middle = median(row.values())
        near, *_, far = sorted(row, key=lambda rank: (abs(row[rank] - middle), rank))
        return self.found(
            "apart",
            name,
            steps=(copies.since, step),
            words={
                "series": name,
                "far_name": context.rank_name(far),
                "near_name": context.rank_name(near),
            },
            **context.rank_evidence(far),
            since=copies.since,
            spread=spread,
            far=row[far],
            near=row[near],
        )

    def _judge_exchange(self, name: str, step: int, row: Mapping[int, float]) -> Iterable[Verdict]:
        """Check whether norms differ from the start in both directions, as single ranks' do."""
        wanted, ratios = self.thresholds.unequal, self._ratios
        if len(ratios) >= wanted or min(row.values()) <= 0:
            return
        first, second = (row[rank] for rank in sorted(row)[:2])
        ratios.append(math.log(second) - math.log(first))
        usual = median(ratios)
        spread = median(abs(ratio - usual) for ratio in ratios)
        # Shards of a model have norms that differ in one direction.
        differ = min(map(abs, ratios)) >= _EQUAL and spread >= max(0.01, abs(usual))
        if len(ratios) == wanted and differ:
            yield self.found(
                "not exchanged", f"{name} of all ranks", steps=(0, step), spread=spread
            )
