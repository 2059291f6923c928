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
