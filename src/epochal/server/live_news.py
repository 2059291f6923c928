"""What is new of the machines of runs that somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from epochal.server.wire import LiveEvent, LiveMachine
from epochal.store.answers import Machine
from epochal.store.store import RunView


class LiveNews:
    """Remembers what was told of each run, so that nothing is told twice."""

    def __init__(self, find: Callable[[str], RunView | None]) -> None:
        self._find = find
        self._told: dict[str, tuple[float, ...]] = {}

    def look(self, run_ids: Iterable[str]) -> dict[str, LiveEvent]:
        """What has come of these runs; of one whose machines are no longer read, that."""
        found = {}
        told = {}
        for run_id in run_ids:
            run = self._find(run_id)
            machines = () if run is None else run.machines()
            told[run_id] = tuple(machine.t for machine in machines)
            if told[run_id] != self._told.get(run_id, ()):
                found[run_id] = LiveEvent(run_id, [_row(machine) for machine in machines])
        self._told = told
        return found


def _row(machine: Machine) -> LiveMachine:
    return LiveMachine(
        node=machine.node,
        rank=machine.rank,
        t=machine.t,
        gpus=[dict(gpu) for gpu in machine.gpus],
        system=dict(machine.system),
    )
