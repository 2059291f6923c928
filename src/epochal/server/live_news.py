"""What is new of the machines of runs that somebody watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from epochal.server.wire import LiveEvent, LiveMachine
from epochal.store.answers import Machine
from epochal.store.store import RunView


class LiveNews:
    """Remembers what was told of each run, so that nothing is told twice."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, ...]] = {}

    def look(
        self, run_ids: Iterable[str], held: Mapping[str, RunView | None]
    ) -> dict[str, LiveEvent]:
        """What has come of these runs; of one whose machines are no longer read, that.

        Of a run that is not among those held, nothing is known at this moment.
        """
        found = {}
        told = {}
        for run_id in run_ids:
            if run_id not in held:
                told[run_id] = self._told.get(run_id, ())
                continue
            run = held[run_id]
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
