"""Which trainings there are: healthy ones of every kind, and every fault on its kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import zip_longest
from typing import Literal

from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.kinds import KINDS, ROOMS
from benchmarks.clinic.task import BLIND, WHOLE, Half, Kind

# quick: one training of each fault. full: as much as fits into the time that the clinic may take,
# with the kinds of one half whole. all: every training that there is evidence of.
Tier = Literal["quick", "full", "all"]
HEALTHY = "healthy"
FAULT_SEEDS = 3
# Healthy twins of each optimizer that come before any fault, where the time is short.
FIRST_SEEDS = 2
# What a full run has of kinds that were judged before: so many kinds of each fault, and so many
# healthy seeds with the optimizers of these; of the others one, of blind kinds with one optimizer.
FULL_KINDS, FULL_SEEDS = 3, 2
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
    def waits_s(self) -> float:
        """How much of its time is waiting, which takes no longer on a busy machine."""
        return 0.0 if self.fault is None else self.fault.wait_s

    @property
    def expected_s(self) -> float:
        """About how long it takes on an idle core."""
        kind = self.kind
        return START_S + self.waits_s + kind.steps * max(8.0, kind.pace_ms) / 1000 * kind.world


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
    kind; then the other seeds, the healthy ones first. Each kind begins with other faults, but
    with those that wait for long, which would not end in time later.
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
        turned = group[first:] + group[:first]
        for turn, one in enumerate(sorted(turned, key=lambda one: -one.waits_s)):
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
    planted = {place for fault in FAULTS.values() for place in _of_both_halves(fault.kinds())}

    def seeds(kind: Kind, optimizer: str) -> int:
        if _is_whole(kind, tier):
            return kind.seeds
        if (kind.name, optimizer) in planted:
            return FULL_SEEDS
        return int(kind.half not in BLIND or optimizer == kind.optimizers[0].name)

    return [
        Training(kind.name, choice.name, HEALTHY, seed)
        for kind in KINDS.values()
        for choice in kind.optimizers
        for seed in range(seeds(kind, choice.name))
    ]


def _is_whole(kind: Kind, tier: Tier) -> bool:
    return tier == "all" or kind.half == WHOLE


def faulty(tier: Tier) -> list[Training]:
    """Every fault on its kinds with several seeds; quickly, on one kind only."""
    found = []
    for fault in FAULTS.values():
        places = fault.kinds()
        if tier == "quick":
            if fault.name not in _SLOW:
                found.append(Training(*places[0], fault.name, 0))
            continue
        if tier == "full":
            places = _of_both_halves(places)
        found += [
            Training(kind, optimizer, fault.name, seed)
            for kind, optimizer in places
            for seed in range(FAULT_SEEDS)
        ]
    return found if tier == "quick" else found + _own(tier)


def _of_both_halves(places: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Some of a fault's places, in turn of the tuning half and of the unseen one."""
    tuning = [place for place in places if KINDS[place[0]].half == "tuning"]
    others = [place for place in places if place not in tuning]
    mixed = [one for pair in zip_longest(tuning, others) for one in pair if one is not None]
    return tuple(mixed[:FULL_KINDS])


def _own(tier: Tier) -> list[Training]:
    """Faults that kinds name themselves; a full run has none of kinds that were judged before."""
    return [
        Training(kind.name, choice.name, fault, seed)
        for kind in KINDS.values()
        if kind.faults and _is_whole(kind, tier)
        for choice, faults in zip(kind.optimizers, kind.faults, strict=True)
        for fault in faults.split()
        for seed in range(kind.fault_seeds)
    ]
