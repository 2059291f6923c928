"""Which run ``wandb.run``, ``wandb.log`` and ``wandb.config`` mean: the last one still open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from epochal.wandb.errors import Error, UsageError

if TYPE_CHECKING:
    from epochal.wandb.wandb_run import Run


class ActiveRuns:
    """The runs that ``wandb.init`` opened and that have not finished, in order."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._latest: Run | None = None

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
        self._latest = run

    @property
    def latest(self) -> Run | None:
        """The run opened last, finished or not."""
        return self._latest

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

    def _refuse(self, access: str) -> NoReturn:
        raise Error(f"You must call wandb.init() before {self._name}{access}")

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        self._refuse(f".{key}")

    def __setattr__(self, key: str, value: Any) -> None:
        self._refuse(f".{key}")

    def __getitem__(self, key: str) -> Any:
        self._refuse(f"[{key!r}]")

    def __setitem__(self, key: str, value: Any) -> None:
        self._refuse(f"[{key!r}]")

    def __repr__(self) -> str:
        return f"<{self._name} before wandb.init()>"
