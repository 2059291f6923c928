"""Memory that is about to run out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochal.format import format_bytes, format_duration
from epochal.health.growth import GrowthThresholds, GrowthWatch
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict

if TYPE_CHECKING:
    from epochal.health.context import Context


@dataclass(frozen=True, slots=True)
class _Store:
    """One memory: its series, what it is called, used and total bytes."""

    series: str
    called: str
    used: float
    total: float

    @property
    def share(self) -> float:
        return self.used / self.total


class MemoryFull(Rule):
    """A memory that grows and will reach its limit soon, or a host's that is all but full.

    A full GPU is no fault by itself: allocators keep what they once had.
    """

    name = "memory-full"
    group = "memory"
    meaning = "At this rate memory runs out and the run is killed."
    healthy = "No growth towards the limit. A GPU that is constantly full is normal."
    reports = {
        "warning": (
            "After two minutes of training: full within half an hour at a rate that has lasted "
            "150 s, or a host above 95 %."
        ),
        "error": "Full within five minutes, or a host above 98 %.",
    }
    kinds = frozenset({"system", "gpu"})
    replaces_text = True
    release = 3

    class Thresholds(GrowthThresholds):
        # Three minutes of ten-second records.
        window: int = 18
        share: float = 0.01
        # However often a machine is read, less than this may be one large thing being loaded.
        lasting_s: float = 150.0
        # The time in which someone can still save and stop.
        soon_s: float = 1800.0
        very_soon_s: float = 300.0
        # Projections from far below the limit are guesses.
        from_share: float = 0.5
        # Linux starts to kill, or to swap, in the last percents of memory. GPUs are filled on
        # purpose.
        ram_share: float = 0.95
        ram_grave: float = 0.98

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._watches: dict[str, GrowthWatch] = {}
        self._growing_since: dict[str, float] = {}
        self._trains_since: float | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the memory that one record tells of."""
        store = _store(observation)
        if store is None:
            return ()
        key = f"{observation.rank}/{observation.writer}/{store.series}"
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = self._watch()
        if observation.t - self._begun(observation, context) >= self.thresholds.skip_s:
            watch.push(observation.t, store.used)
        return (self._judge(key, observation, store, watch),)

    def _watch(self) -> GrowthWatch:
        limits = self.thresholds
        return GrowthWatch(
            window=limits.window,
            blocks=limits.blocks,
            swing=limits.swing,
            steady=limits.steady,
            lasting=limits.lasting,
        )

    def _begun(self, observation: Observation, context: Context) -> float:
        """Since when memory is checked: it starts again with the first step, because the memory of
        data, model and first batches does not keep growing.
        """
        if self._trains_since is None and context.first_step is not None:
            self._trains_since = observation.t
            for watch in self._watches.values():
                watch.clear()
        if self._trains_since is not None:
            return self._trains_since
        return context.started if context.started is not None else observation.t

    def forget_from(self, step: int, context: Context) -> None:
        """Start again: a new attempt is a new process."""
        self._watches.clear()
        self._growing_since.clear()
        self._trains_since = None

    def _judge(
        self, key: str, observation: Observation, store: _Store, watch: GrowthWatch
    ) -> Verdict:
        limits = self.thresholds
        growth = watch.growth()
        if growth is None or growth.rise < limits.share * store.total:
            self._growing_since.pop(key, None)
        elif observation.t - self._growing_since.setdefault(key, growth.since) >= limits.lasting_s:
            left_s = (store.total - store.used) / growth.per_second
            if store.share >= limits.from_share and left_s <= limits.soon_s:
                return self._will_be_full(store, left_s, growth.per_second)
        if observation.kind == "system" and store.share >= limits.ram_share:
            return self._is_full(store)
        return Verdict(store.series, active=False)

    def _will_be_full(self, store: _Store, left_s: float, per_second: float) -> Verdict:
        is_near = left_s <= self.thresholds.very_soon_s
        return Verdict(
            store.series,
            active=True,
            severity="error" if is_near else "warning",
            sentence=f"{store.called} will be full in {format_duration(left_s)}: "
            f"{format_bytes(store.used)} of {format_bytes(store.total)} are used, and "
            f"{format_bytes(60 * per_second)} more each minute.",
            evidence={
                "used_bytes": store.used,
                "total_bytes": store.total,
                "left_s": round(left_s),
                "per_minute_bytes": round(60 * per_second),
            },
            advice="Save a checkpoint now. Then find what grows (see memory-creep), or use a "
            "smaller batch, shorter sequences or activation checkpointing.",
        )

    def _is_full(self, store: _Store) -> Verdict:
        is_grave = store.share >= self.thresholds.ram_grave
        return Verdict(
            store.series,
            active=True,
            severity="error" if is_grave else "warning",
            sentence=f"{store.called} is {100 * store.share:.0f} % full: "
            f"{format_bytes(store.total - store.used)} of {format_bytes(store.total)} are left.",
            evidence={"used_bytes": store.used, "total_bytes": store.total},
            advice="Use fewer loader workers or smaller prefetch queues, and close other programs: "
            "the system kills the largest process when none is left.",
        )


def _store(observation: Observation) -> _Store | None:
    if observation.kind == "system":
        series, called, total = "system/ram_used", "The machine's memory", "system/ram_total"
    else:
        prefix = f"gpu/{observation.record.get('id', 0)}"
        series, total = f"{prefix}/dram_used", f"{prefix}/dram_total"
        called = f"The memory of GPU {observation.record.get('id', 0)}"
    used, bound = observation.values.get(series), observation.values.get(total)
    if used is None or bound is None or bound <= 0:
        return None
    return _Store(series, called, used, bound)
