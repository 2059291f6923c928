"""Which trainings there are, and which of them a tier runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from benchmarks.clinic.faults import FAULTS, Fault
from benchmarks.clinic.task import Task
from benchmarks.clinic.tasks import TASKS, UNSEEN

HEALTHY = "healthy"
# fast: every third place of each fault. full: everything, with more seeds. record: for rule-check.
Tier = Literal["fast", "full", "record"]
TaskSet = Literal["known", "unseen"]  # unseen: the rules were frozen before these were written
_EVERY: dict[Tier, int] = {"fast": 3, "full": 1, "record": 4}
_HEALTHY_SEEDS: dict[Tier, int] = {"fast": 2, "full": 3, "record": 1}
_HEALTHY_SEEDS_UNSEEN: dict[Tier, int] = {**_HEALTHY_SEEDS, "full": 8}
_FAULT_SEEDS: dict[Tier, int] = {"fast": 1, "full": 2, "record": 1}


@dataclass(frozen=True, slots=True, order=True)
class Training:
    """One training of the clinic; its id is ``task-fault-seed``."""

    task_name: str
    fault_name: str
    seed: int

    @property
    def id(self) -> str:
        return f"{self.task_name}-{self.fault_name}-{self.seed}"

    @property
    def task(self) -> type[Task]:
        return (TASKS | UNSEEN)[self.task_name]

    @property
    def fault(self) -> Fault | None:
        return FAULTS.get(self.fault_name)


def parse(text: str) -> Training:
    """The training of an id."""
    task, _, rest = text.partition("-")
    fault, _, seed = rest.partition("-")
    if task not in TASKS | UNSEEN or fault not in (HEALTHY, *FAULTS) or not seed.isdigit():
        raise ValueError(f"{text!r} is not a training: it must be task-fault-seed.")
    return Training(task, fault, int(seed))


def trainings(
    tier: Tier, only: tuple[str, ...] = (), task_set: TaskSet = "known"
) -> list[Training]:
    """The trainings of a tier; ``only`` has patterns such as ``vae/*`` or ``*/lr_x30``."""
    tasks = UNSEEN if task_set == "unseen" else TASKS
    seeds = (_HEALTHY_SEEDS_UNSEEN if task_set == "unseen" else _HEALTHY_SEEDS)[tier]
    return _selected(trainings_of(tasks, FAULTS, tier, seeds), only)


def trainings_of_pack(
    tasks: Mapping[str, type[Task]], faults: Mapping[str, Fault], only: tuple[str, ...] = ()
) -> list[Training]:
    """Every fault of a pack on each of its tasks that it fits, and healthy trainings."""
    return _selected(trainings_of(tasks, faults, "full", _HEALTHY_SEEDS["full"]), only)


def trainings_of(
    tasks: Mapping[str, type[Task]], faults: Mapping[str, Fault], tier: Tier, seeds: int
) -> list[Training]:
    """Healthy trainings with so many seeds, and the faults that a tier has."""
    found = [Training(name, HEALTHY, seed) for seed in range(seeds) for name in tasks]
    for number, fault in enumerate(faults.values()):
        places = [name for name, task in tasks.items() if fault.fits(task)]
        found += [
            Training(name, fault.name, seed)
            for seed in range(_FAULT_SEEDS[tier])
            for name in places[number % _EVERY[tier] :: _EVERY[tier]]
        ]
    return found


def _selected(found: list[Training], only: tuple[str, ...]) -> list[Training]:
    patterns = [one if "/" in one else f"{one}/*" for one in only]
    if patterns:
        found = [
            t for t in found if any(fnmatch(f"{t.task_name}/{t.fault_name}", p) for p in patterns)
        ]
    return found
