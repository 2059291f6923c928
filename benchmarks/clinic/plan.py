"""Which trainings there are: healthy ones of every kind, and every fault on its kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.kinds import KINDS, ROOMS
from benchmarks.clinic.task import BLIND, Half, Kind

Tier = Literal["quick", "full"]
HEALTHY = "healthy"
FAULT_SEEDS = 3
# Kinds that name their own faults have many of them each.
OWN_FAULT_SEEDS = 2
# Healthy twins of each optimizer that come before any fault, where the time is short.
FIRST_SEEDS = 2
# Starting Python and torch, building data and model, and what a run does at its end.
START_S = 8.0
# These take minutes of waiting: not for a quick look.
_SLOW = ("memory_leak", "hang")


@dataclass(frozen=True, slots=True, order=True)
class Training:
    """One training; its id is ``kind-optimizer-fault-seed``."""

    kind_name: str
    optimizer: str
    fault_name: str
    seed: int

    @property
    def id(self) -> str:
        return f"{self.kind_name}-{self.optimizer}-{self.fault_name}-{self.seed}"

    @property
    def kind(self) -> Kind:
        return KINDS[self.kind_name]

    @property
    def half(self) -> Half:
        return self.kind.half

    @property
    def fault(self) -> Fault | None:
        return FAULTS.get(self.fault_name)

    @property
    def expected_s(self) -> float:
        """About how long it takes on an idle core."""
        fault, kind = self.fault, self.kind
        waits_s = 0.0 if fault is None else fault.wait_s
        return START_S + waits_s + kind.steps * max(8.0, kind.pace_ms) / 1000 * kind.world


def parse(text: str) -> Training:
    """The training of an id."""
    parts = text.split("-")
    if len(parts) != 4 or parts[0] not in KINDS or not parts[3].isdigit():
        raise ValueError(f"{text!r} is no id of a training: kind-optimizer-fault-seed")
    if parts[2] != HEALTHY and parts[2] not in FAULTS:
        raise ValueError(f"no fault {parts[2]!r}; there are {', '.join(FAULTS)}")
    return Training(parts[0], parts[1], parts[2], int(parts[3]))


def trainings(
    tier: Tier, only: tuple[str, ...] = (), *, half: Half | Literal["all"] = "all"
) -> list[Training]:
    """The trainings of a tier, the longest first; ``only`` has patterns such as ``mlp/rate_*``."""
    found = [one for one in healthy(tier) + faulty(tier) if half in ("all", one.half)]
    if only:
        found = [one for one in found if matches(one, only)]
    return sorted(found, key=lambda one: (-one.expected_s, one))


def balanced(wanted: Iterable[Training]) -> list[Training]:
    """In an order that may be cut off anywhere: no kind and no fault is far ahead of another.

    Two healthy seeds of each kind and optimizer come first, then a seed of each fault, in turn by
    kind; then the other seeds, the healthy ones first. Each kind begins with other faults.
    """
    groups: dict[tuple[int, bool, str], list[Training]] = {}
    for one in sorted(wanted, key=lambda one: (one.seed, one.fault_name, one.optimizer)):
        is_faulty = one.fault is not None
        if is_faulty:
            wave = one.seed + 1
        else:
            wave = 0 if one.seed < FIRST_SEEDS else one.seed - FIRST_SEEDS + 2
        groups.setdefault((wave, is_faulty, one.kind_name), []).append(one)
    kinds = sorted({kind for _, _, kind in groups})
    keyed = []
    for (wave, is_faulty, kind), group in groups.items():
        place = kinds.index(kind)
        first = place * len(group) // len(kinds) if is_faulty else 0
        for turn, one in enumerate(group[first:] + group[:first]):
            keyed.append(((wave, is_faulty, turn, place), one))
    return [one for _, one in sorted(keyed)]


def matches(training: Training, only: tuple[str, ...]) -> bool:
    """Whether a training fits one of the patterns, such as ``mlp/rate_*`` or ``*/healthy``."""
    return any(
        fnmatch(training.kind_name, kind) and fnmatch(training.fault_name, fault or "*")
        for kind, _, fault in (one.partition("/") for one in only)
    )


def healthy(tier: Tier) -> list[Training]:
    """Every kind with each of its optimizers and several seeds; quickly, one of each file's."""
    if tier == "quick":
        firsts = (room.KINDS[0] for room in ROOMS)
        return [
            Training(kind.name, kind.optimizers[0].name, HEALTHY, 0)
            for kind in firsts
            if kind.half not in BLIND
        ]
    return [
        Training(kind.name, choice.name, HEALTHY, seed)
        for kind in KINDS.values()
        for choice in kind.optimizers
        for seed in range(kind.seeds)
    ]


def faulty(tier: Tier) -> list[Training]:
    """Every fault on its kinds with several seeds; quickly, on one kind only."""
    found = []
    for fault in FAULTS.values():
        places = fault.kinds()
        if tier == "quick":
            if fault.name not in _SLOW:
                found.append(Training(*places[0], fault.name, 0))
            continue
        found += [
            Training(kind, optimizer, fault.name, seed)
            for kind, optimizer in places
            for seed in range(FAULT_SEEDS)
        ]
    if tier == "full":
        found += [
            Training(kind.name, choice.name, fault, seed)
            for kind in KINDS.values()
            if kind.faults
            for choice, faults in zip(kind.optimizers, kind.faults, strict=True)
            for fault in faults.split()
            for seed in range(OWN_FAULT_SEEDS)
        ]
    return found
