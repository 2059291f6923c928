"""Which run ``wandb.run`` and ``wandb.log`` mean; ``login``, ``setup`` and the like.

What W&B configures with these calls does not exist here, as nothing is sent anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from epochal.wandb.errors import Error, UsageError
from epochal.wandb.notices import say_once, term
from epochal.wandb.settings import Settings, as_settings

if TYPE_CHECKING:
    from epochal.run.run import Run


class ActiveRun(Protocol):
    """What this module and the calls of the current run use of it."""

    epochal: Run

    @property
    def finished(self) -> bool:
        """Whether the run has ended; not if it only ended because Python did."""

    def log_artifact(self, artifact_or_path: Any) -> Any:
        """Copy the files of an artifact into the run's folder, and record what it is."""

    def on_teardown(self, call: Callable[[], None]) -> None:
        """Have something called when the run finishes, before its last record."""

    def finish(self, exit_code: int | None = None) -> None:
        """End the run: finished, or failed with an exit code that is not 0."""


class ActiveRuns:
    """The runs that ``wandb.init`` opened and that have not finished, in order."""

    def __init__(self) -> None:
        self._runs: list[ActiveRun] = []

    @property
    def current(self) -> ActiveRun | None:
        """The run opened last that is still open."""
        self._runs = [run for run in self._runs if not run.finished]
        return self._runs[-1] if self._runs else None

    def __iter__(self) -> Iterator[ActiveRun]:
        return iter([run for run in self._runs if not run.finished])

    def add(self, run: ActiveRun) -> None:
        """Make a run the current one."""
        self._runs.append(run)

    def needed(self, call: str) -> ActiveRun:
        """The current run; raises ``wandb.UsageError`` where there is none."""
        run = self.current
        if run is None:
            raise UsageError(f"You must call wandb.init() before {call}")
        return run


ACTIVE = ActiveRuns()


class BeforeInit:
    """What ``wandb.config`` and ``wandb.summary`` are before ``init``."""

    _name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _refuse(self, key: str, value: object = None) -> NoReturn:
        if key.startswith("__"):
            raise AttributeError(key)
        raise Error(f"You must call wandb.init() before {self._name}[{key!r}]")

    __getattr__ = __setattr__ = __getitem__ = __setitem__ = _refuse


class AlertLevel(Enum):
    """How urgent an alert is."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def login(key: str | None = None, *ignored: Any, **more: Any) -> bool:
    """Return True: runs are recorded on this machine, and no key is read or kept."""
    say_once("wandb.login() has no effect: runs are recorded on this machine.")
    return True


def setup(settings: Settings | None = None) -> Settings:
    """Return the settings."""
    return as_settings(settings)


def teardown(exit_code: int | None = None) -> None:
    """Finish every open run."""
    for run in ACTIVE:
        run.finish(exit_code)


def finish(exit_code: int | None = None, **ignored: Any) -> None:
    """Finish the current run; does nothing when there is none."""
    if (run := ACTIVE.current) is not None:
        run.finish(exit_code)


join = finish


def attach(*args: Any, **options: Any) -> Any:
    """Return the run of this process; a process of ``multiprocessing`` joins its parent's."""
    return ACTIVE.current


def accept(*ignored: Any, **more: Any) -> None:
    """Do nothing: what W&B configures with this call does not exist here."""


ensure_configured = pin_config_keys = require = termsetup = accept


def termlog(string: str = "", **ignored: Any) -> None:
    """Print a line as W&B does."""
    term(string)


def termwarn(string: str = "", **ignored: Any) -> None:
    """Print a warning as W&B does."""
    term(f"WARNING {string}")


def termerror(string: str = "", **ignored: Any) -> None:
    """Print an error as W&B does."""
    term(f"ERROR {string}")
