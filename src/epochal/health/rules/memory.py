"""Memory that grows, is about to run out, or has run out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, RuleThresholds, Verdict
from epochal.records import Record, finite
from epochal.records.format import format_bytes

if TYPE_CHECKING:
    from epochal.health.context import Context

OUT_OF_MEMORY = "out-of-memory"
_MACHINE = "system/ram_used"
_TITLES = {
    _MACHINE: "The memory of the machine",
    "system/rss": "The memory of the training process",
    "system/children_rss": "The memory of the loader workers",
}
LESS_MEMORY = (
    "Use a smaller batch with gradient accumulation, shorter sequences or activation checkpointing."
)
# Three minutes, ten minutes and an hour of samples, which are at least nine seconds apart.
_WINDOWS = (18, 60, 360)
_APART_S = 9.0
_BLOCKS = 6


class Growth(NamedTuple):
    """A steady rise of a minimum."""

    before: float
    rise: float
    per_second: float


def growth_of(samples: Sequence[tuple[float, float]]) -> Growth | None:
    """Return the growth of samples (Unix seconds, bytes) whose minimum rises in every sixth.

    None for a single jump, for what swings more than it rises, and for caches, which fill up ever
    more slowly.
    """
    size = len(samples) // _BLOCKS
    blocks = [[value for _, value in samples[n * size :][:size]] for n in range(_BLOCKS)]
    floors = [min(block) for block in blocks]
    rises = [after - before for before, after in pairwise(floors)]
    rise, half = sum(rises), len(rises) // 2
    swing = median(max(block) - floor for block, floor in zip(blocks, floors, strict=True))
    is_steady = min(rises) > 0.25 * rise / len(rises)
    is_lasting = sum(rises[-half:]) >= 0.6 * sum(rises[:half])
    # A steady rise is itself a swing within each block.
    if not is_steady or not is_lasting or rise <= 2 * max(swing - rise / len(rises), 0.0):
        return None
    return Growth(floors[0], rise, rise / (samples[(_BLOCKS - 1) * size][0] - samples[0][0]))


class MemoryGrowth(Rule):
    """Memory grows steadily, often because the program keeps objects that it no longer needs. When
    it is full, the run is killed.

    The memory of a process or GPU grows in every part of a window, or is about to be full.
    """

    name = "memory-growth"
    group = "memory"
    healthy = (
        "Constant after some minutes. A sawtooth, caches and a GPU that is always full are normal."
    )
    reports = {
        "warning": (
            "After {skip_s:duration} of training, the minimum rises in every sixth of ten minutes "
            "or an hour, without slowing down, by {share:percent} and {min_bytes:bytes}. Or memory "
            "that is half full will be full within {soon_s:duration}, or the memory of the machine "
            "is {full:percent} full."
        ),
        "error": "Full within {very_soon_s:duration}.",
    }
    messages = {
        "grows": Message(
            "{title} grew from {before_bytes:bytes} to {now_bytes:bytes}, by "
            "{per_hour_bytes:bytes} an hour, without slowing down.",
            "Look for tensors that are kept with their graph (log loss.item(), or detach them), "
            "lists that only grow, caches keyed by shape, and workers with large Python objects.",
        ),
        "soon full": Message(
            "{title} will be full in {left_s:duration}: {used_bytes:bytes} of {total_bytes:bytes} "
            "are used, and {per_minute_bytes:bytes} more each minute.",
            "Save a checkpoint now. Then look for tensors that are kept with their graph and lists "
            "that only grow, or use a smaller batch.",
        ),
        "full": Message(
            "{title} is almost full: {left_bytes:bytes} of {total_bytes:bytes} are left.",
            "Use fewer loader workers or smaller prefetch queues, and close other programs. The "
            "system kills the largest process when no memory is left.",
        ),
    }
    kinds = frozenset({"system", "gpu"})
    release = 6

    class Thresholds(RuleThresholds):
        # Imports, first batches and compilation take memory that stays.
        skip_s: float = 120.0
        # Less than this is what allocators round by.
        min_bytes: float = 64.0 * 1024**2
        share: float = 0.06
        # The time in which someone can still save and stop.
        soon_s: float = 1800.0
        very_soon_s: float = 300.0
        # Linux starts to kill, or to swap, in the last percents of memory.
        full: float = 0.95

    thresholds: Thresholds

    def reset(self) -> None:
        """Start again: a new attempt is a new process."""
        self._samples: dict[str, deque[tuple[float, float]]] = {}
        self._trains_since: float | None = None
        self._judged: dict[str, float] = {}  # by subject: when

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check each memory of a record separately."""
        if self._trains_since is None and context.first_step is not None:
            # The memory of data, model and first batches does not keep growing.
            self._trains_since = observation.t
            self._samples.clear()
        since = context.started if self._trains_since is None else self._trains_since
        is_ready = since is not None and observation.t - since >= self.thresholds.skip_s
        for name, value in observation.values.items():
            if name in _TITLES or name.endswith("/dram_used"):
                samples = self._sampled(observation, name, value) if is_ready else ()
                verdict = self._judge(observation, name, value, samples, context)
                last = self._judged.get(verdict.subject, observation.t)
                if verdict.active:
                    yield verdict
                elif is_ready:  # before, nothing is known of growth
                    yield verdict._replace(extent=max(0.0, observation.t - last))
                self._judged[verdict.subject] = observation.t

    def _sampled(
        self, observation: Observation, name: str, value: float
    ) -> Sequence[tuple[float, float]]:
        key = f"{observation.rank}/{observation.writer}/{name}"
        samples = self._samples.setdefault(key, deque(maxlen=_WINDOWS[-1]))
        if samples and observation.t - samples[-1][0] < _APART_S:
            samples[-1] = (samples[-1][0], min(samples[-1][1], value))
        else:
            samples.append((observation.t, value))
        return tuple(samples)

    def _judge(
        self,
        observation: Observation,
        name: str,
        value: float,
        samples: Sequence[tuple[float, float]],
        context: Context,
    ) -> Verdict:
        limits, subject = self.thresholds, name + observation.rank_suffix
        title = _TITLES.get(name, f"The memory of GPU {observation.record.get('id', 0)}")
        found: Callable[..., Verdict] = partial(
            self.found,
            subject=subject,
            words={"title": title + context.of_rank(observation.rank)},
            **context.rank_evidence(observation.rank),
        )
        windows = [samples[-count:] if len(samples) >= count else () for count in _WINDOWS]
        fast, *slow = (growth_of(window) if window else None for window in windows)
        lengths_s = [window[-1][0] - window[0][0] if window else 0.0 for window in windows]
        total = observation.values.get(name.replace("_used", "_total"), 0.0)
        has_total = name.endswith("_used") and total > 0
        if has_total and fast and value >= total / 2 and fast.rise >= 0.01 * total:
            left_s = (total - value) / fast.per_second
            if left_s <= limits.soon_s:
                return found(
                    "soon full",
                    severity="error" if left_s <= limits.very_soon_s else None,
                    extent=lengths_s[0],
                    left_s=round(left_s),
                    used_bytes=value,
                    total_bytes=total,
                    per_minute_bytes=round(60 * fast.per_second),
                )
        if name == _MACHINE:
            if has_total and value >= limits.full * total:
                return found("full", left_bytes=total - value, total_bytes=total)
            return Verdict(subject, False)
        # At an even pace the rise within a window becomes an ever smaller share.
        known = context.open.get((self.name, subject))
        for growth, length_s in zip(slow, lengths_s[1:], strict=True):
            if growth and (
                known or growth.rise >= max(limits.min_bytes, limits.share * growth.before)
            ):
                before = known.evidence.get("before_bytes") if known else None
                return found(
                    "grows",
                    extent=length_s,
                    before_bytes=before or growth.before,
                    now_bytes=growth.before + growth.rise,
                    per_hour_bytes=round(3600 * growth.per_second),
                )
        return Verdict(subject, False)


class OutOfMemory(Rule):
    """An allocation failed and the loop continued without it.

    An out-of-memory error that the program caught; one that ended the run is in its ending.
    """

    name = "out-of-memory"
    group = "memory"
    certainty = "fact"
    healthy = "Free memory at the peak of a step."
    reports = {
        "warning": (
            "Memory ran out and the program caught the error (`epochal.torch.memory_guard`). If "
            "the error ends the run, the finding is `failed`."
        )
    }
    messages = {
        "caught": Message(
            "{what}{often}; the training went on.",
            f"The work of that step is lost. {LESS_MEMORY} The text 'out-of-memory' of the run "
            "shows how the memory was used.",
        )
    }
    kinds = frozenset({"event", "step", "metrics", "epoch", "finish"})

    def reset(self) -> None:
        """A new attempt came after an error that ended the one before."""
        # By device: how many errors, the steps of the first and the last, and one not reported yet.
        self._counts: Counter[str] = Counter()
        self._steps: dict[str, tuple[int, int]] = {}
        self._new: dict[str, Observation] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Store an error, and report it with the next record: then the program has gone on."""
        record, step = observation.record, context.step
        if observation.kind == "event":
            if record.get("name") == OUT_OF_MEMORY:
                device = str(record.get("device", "device")) + observation.rank_suffix
                self._counts[device] += 1
                self._new[device] = observation
                if step is not None:
                    self._steps[device] = (self._steps.get(device, (step, step))[0], step)
            return
        if observation.kind == "finish" and record.get("status") not in (None, "finished"):
            self._new.clear()
        for device, error in self._new.items():
            count = self._counts[device]
            often = f", {count} times" if count > 1 else ""
            what = described(error.record, context.of_rank(error.rank))
            yield self.found(
                "caught",
                device,
                steps=self._steps.get(device),
                words={"what": what, "often": often},
                **evidence_of(error.record),
                **context.rank_evidence(error.rank),
                times=count,
            )
        self._new.clear()


def described(record: Record, whose: str = "") -> str:
    """Return a failed allocation in words: device, rank, requested size and place."""
    asked, where = record.get("asked"), record.get("where")
    words = f"Memory ran out on {record.get('device', 'the device')}{whose}"
    if isinstance(asked, int):
        words += f" when {format_bytes(asked)} more were requested"
    return words + (f" at {where}" if isinstance(where, str) and where else "")


def evidence_of(record: Record) -> dict[str, Any]:
    """Return the sizes in an out-of-memory event as people read them."""
    names = ("asked", "allocated", "reserved", "resident", "free", "total")
    sizes = ((name, finite(record.get(name))) for name in names)
    return {name: format_bytes(size) for name, size in sizes if size is not None}
