"""Memory ran out, and the training went on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.format import format_bytes
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.records import Record, finite

if TYPE_CHECKING:
    from epochal.health.context import Context

EVENT = "out-of-memory"
_OVER_RECORDS = 200  # so many without another such error, and it is over
_GOES_ON = frozenset({"step", "metrics", "epoch"})


class OutOfMemory(Rule):
    """An error of too little memory that the program caught: the work it belonged to is lost.

    Said with the first record after it. One that ended the run is told by how the run ended.
    """

    name = "out-of-memory"
    group = "memory"
    meaning = "An allocation failed and the loop continued without it."
    healthy = "Free memory at the peak of a step."
    reports = {
        "warning": (
            "Memory ran out and the program caught the error (`run.memory_guard`). If the error "
            "ends the run, the finding is `failed`."
        )
    }
    kinds = frozenset({"event", "step", "metrics", "epoch", "finish"})
    replaces_text = True

    def __init__(self, thresholds: RuleThresholds) -> None:
        super().__init__(thresholds)
        self._newest: dict[str, Observation] = {}  # by device, what no record has come after
        self._steps: dict[str, tuple[int, int]] = {}
        self._times: dict[str, int] = {}
        self._since: dict[str, int] = {}  # records since, of what is open

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Store an error; check it with the records after it."""
        if observation.kind == "event":
            if observation.record.get("name") == EVENT:
                self._take(observation, context)
            return ()
        if not self._newest and not self._since:
            return ()
        if observation.kind == "finish" and observation.record.get("status") not in (
            None,
            "finished",
        ):
            self._newest.clear()
            return ()
        return [*self._news(), *(self._over() if observation.kind in _GOES_ON else ())]

    def forget_from(self, step: int, context: Context) -> None:
        """Forget: a new attempt is a new process."""
        for kept in (self._newest, self._steps, self._times):
            kept.clear()

    def _take(self, observation: Observation, context: Context) -> None:
        device = _device(observation.record, observation.rank)
        if not context.is_open(self.name, device) and device not in self._newest:
            self._times[device] = 0
            self._steps.pop(device, None)
        self._newest[device] = observation
        self._times[device] = self._times.get(device, 0) + 1
        if context.step is not None:
            first = self._steps.get(device, (context.step, context.step))[0]
            self._steps[device] = (first, context.step)

    def _news(self) -> Iterable[Verdict]:
        for device, observation in self._newest.items():
            yield self._described(device, observation.record)
            self._since[device] = 0
        self._newest.clear()

    def _over(self) -> Iterable[Verdict]:
        for device in list(self._since):
            self._since[device] += 1
            if self._since[device] > _OVER_RECORDS:
                del self._since[device]
                yield Verdict(device, active=False)

    def _described(self, device: str, record: Record) -> Verdict:
        times = self._times.get(device, 1)
        return Verdict(
            device,
            active=True,
            sentence=f"{described(record)}{f', {times} times' if times > 1 else ''}; the training "
            "went on.",
            steps=self._steps.get(device),
            evidence={**evidence_of(record), "times": times},
            advice="That work is lost. Use a smaller batch with gradient accumulation,"
            " shorter sequences or activation checkpointing; the text 'out-of-memory' of the run "
            "shows how the memory was used.",
        )


def described(record: Record) -> str:
    """The failed allocation in words: device, requested size and place."""
    asked, where = record.get("asked"), record.get("where")
    words = f"Memory ran out on {record.get('device', 'the device')}"
    if isinstance(asked, int):
        words += f" when {format_bytes(asked)} more were requested"
    return words + (f" at {where}" if isinstance(where, str) and where else "")


def evidence_of(record: Record) -> dict[str, float | int | str]:
    """The figures of such an event, in bytes as people read them."""
    found: dict[str, float | int | str] = {}
    for name in ("asked", "allocated", "reserved", "resident", "free", "total"):
        value = finite(record.get(name))
        if value is not None:
            found[name] = format_bytes(value)
    return found


def _device(record: Record, rank: int) -> str:
    device = str(record.get("device", "device"))
    return device if rank <= 0 else f"{device} of rank {rank}"
