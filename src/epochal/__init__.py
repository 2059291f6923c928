"""Epochal watches a training run.

Importing this package loads nothing heavy: each name below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from epochal.console.verbosity import (
        LogVerbosity,
        Verbosity,
        debug,
        enabled,
        msg,
        set_verbosity,
        trace,
        verbose,
        verbosity,
    )
    from epochal.errors import EpochalError, RunFinishedError, RunNotFoundError, UsageError
    from epochal.format import format_duration
    from epochal.monitor import EpochMetrics, EpochRecord, Monitor, RankMetrics
    from epochal.reading import load
    from epochal.reading import open as open  # noqa: A004 (epochal.open reads like it does)
    from epochal.run.current import current_run, finish, log
    from epochal.run.run import Run
    from epochal.run.start import init
    from epochal.series.lost_time import LostTime, explain_phases
    from epochal.series.trend import Trend, TrendGroup
    from epochal.torch import *  # noqa: F403 (the list is kept in one place, epochal/torch)
    from epochal.training_log import TrainingRunLogger

_HOMES = {
    "EpochMetrics": "epochal.monitor",
    "EpochRecord": "epochal.monitor",
    "EpochalError": "epochal.errors",
    "LogVerbosity": "epochal.console.verbosity",
    "LostTime": "epochal.series.lost_time",
    "Monitor": "epochal.monitor",
    "RankMetrics": "epochal.monitor",
    "Run": "epochal.run.run",
    "RunFinishedError": "epochal.errors",
    "RunNotFoundError": "epochal.errors",
    "TrainingRunLogger": "epochal.training_log",
    "Trend": "epochal.series.trend",
    "TrendGroup": "epochal.series.trend",
    "UsageError": "epochal.errors",
    "Verbosity": "epochal.console.verbosity",
    "current_run": "epochal.run.current",
    "debug": "epochal.console.verbosity",
    "enabled": "epochal.console.verbosity",
    "explain_phases": "epochal.series.lost_time",
    "finish": "epochal.run.current",
    "format_duration": "epochal.format",
    "init": "epochal.run.start",
    "load": "epochal.reading",
    "log": "epochal.run.current",
    "msg": "epochal.console.verbosity",
    "open": "epochal.reading",
    "set_verbosity": "epochal.console.verbosity",
    "trace": "epochal.console.verbosity",
    "verbose": "epochal.console.verbosity",
    "verbosity": "epochal.console.verbosity",
}

# `open` is left out: `from epochal import *` would replace the builtin.
__all__ = [
    "EpochMetrics",
    "EpochRecord",
    "EpochalError",
    "LogVerbosity",
    "LostTime",
    "Monitor",
    "RankMetrics",
    "Run",
    "RunFinishedError",
    "RunNotFoundError",
    "TrainingRunLogger",
    "Trend",
    "TrendGroup",
    "UsageError",
    "Verbosity",
    "__version__",
    "current_run",
    "debug",
    "enabled",
    "explain_phases",
    "finish",
    "format_duration",
    "init",
    "load",
    "log",
    "msg",
    "set_verbosity",
    "trace",
    "verbose",
    "verbosity",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or _torch_names().get(name)
    if home is None:
        raise AttributeError(f"module 'epochal' has no attribute {name!r}")
    try:
        value = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        from epochal.errors import MissingPackageError

        raise MissingPackageError(f"epochal.{name}", error) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_torch_names()})


def _torch_names() -> dict[str, str]:
    """What sits around a PyTorch loop, and where; asking for the list does not import torch."""
    return dict.fromkeys(import_module("epochal.torch").__all__, "epochal.torch")
