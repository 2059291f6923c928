"""``login``, ``setup`` and the like: accepted, and without effect, as nothing is sent anywhere."""

from __future__ import annotations

from enum import Enum
from typing import Any

from epochal.wandb.active import ACTIVE
from epochal.wandb.notices import say_once, term
from epochal.wandb.settings import Settings, as_settings


class AlertLevel(Enum):
    """How urgent an alert is."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def login(
    key: str | None = None,
    relogin: bool | None = None,
    host: str | None = None,
    force: bool | None = None,
    timeout: int | None = None,
    verify: bool = True,
    referrer: str | None = None,
    prompt: bool = True,
    anonymous: Any = None,
) -> bool:
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


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """Finish the current run; does nothing when there is none."""
    if (run := ACTIVE.current) is not None:
        run.finish(exit_code)


def attach(*args: Any, **options: Any) -> Any:
    """Return the run of this process; a process of ``multiprocessing`` joins its parent's."""
    return ACTIVE.current


def require(requirement: Any = None, experiment: Any = None) -> None:
    """Accept any requirement."""


def ensure_configured() -> None:
    """Do nothing: there is nothing to configure."""


def restore(
    name: str, run_path: str | None = None, replace: bool = False, root: str | None = None
) -> Any:
    """Open a file that was saved in the current run; None where there is none."""
    return ACTIVE.needed("wandb.restore()").restore(name, run_path, replace, root)


def termlog(string: str = "", newline: bool = True, repeat: bool = True, **options: Any) -> None:
    """Print a line as W&B does."""
    term(string)


def termwarn(string: str = "", newline: bool = True, repeat: bool = True, **options: Any) -> None:
    """Print a warning as W&B does."""
    term(f"WARNING {string}")


def termerror(string: str = "", newline: bool = True, repeat: bool = True, **options: Any) -> None:
    """Print an error as W&B does."""
    term(f"ERROR {string}")


def termsetup(settings: Any = None, logger: Any = None) -> None:
    """Do nothing."""
