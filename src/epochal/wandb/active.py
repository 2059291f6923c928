"""Which run ``wandb.run``, ``wandb.log`` and ``wandb.config`` mean: the last one still open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from epochal.wandb.errors import Error, UsageError

if TYPE_CHECKING:
    from epochal.wandb.wandb_run import Run


class ActiveRuns:
    """The runs that ``wandb.init`` opened and that have not finished, in order."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    @property
    def current(self) -> Run | None:
        """The run opened last that is still open."""
        self._runs = [run for run in self._runs if not run.finished]
        return self._runs[-1] if self._runs else None

    def __iter__(self) -> Iterator[Run]:
        return iter([run for run in self._runs if not run.finished])

    def add(self, run: Run) -> None:
        """Make a run the current one."""
        self._runs.append(run)

    def needed(self, call: str) -> Run:
        """The current run; raises ``wandb.UsageError`` where there is none."""
        run = self.current
        if run is None:
            raise UsageError(f"You must call wandb.init() before {call}")
        return run


ACTIVE = ActiveRuns()


class BeforeInit:
    """What ``wandb.config`` and ``wandb.summary`` are before ``init``."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _refuse(self, key: str, value: object = None) -> NoReturn:
        if key.startswith("__"):
            raise AttributeError(key)
        raise Error(f"You must call wandb.init() before {self._name}[{key!r}]")

    __getattr__ = __setattr__ = __getitem__ = __setitem__ = _refuse
