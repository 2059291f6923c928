"""Epochal watches a training run.

Importing this package loads nothing heavy: each name below is imported when it is first used.
What belongs to a PyTorch loop but not to every one (schedules, initialisers, memory, seeds, …) is
in `epochal.torch`; messages and verbosity are in `epochal.console`.
"""

from __future__ import annotations

from epochal.torch_hooks import TorchHooks, register_torch_hooks

TYPE_CHECKING = False  # as in typing, which takes longer to load than all that is loaded here
if TYPE_CHECKING:
    from typing import Any

    from epochal import console as console
    from epochal import health as health
    from epochal import torch as torch
    from epochal.console.messages import LogVerbosity
    from epochal.errors import EpochalError, RunFinishedError, RunNotFoundError, UsageError
    from epochal.integrations.summary_writer import SummaryWriter
    from epochal.media.types import Audio, Html, Image, Markdown, Table, Video
    from epochal.monitor import EpochMetrics, EpochRecord, Monitor, RankMetrics
    from epochal.reading import load
    from epochal.reading import open as open  # noqa: A004 (epochal.open reads like it does)
    from epochal.run.board import board
    from epochal.run.current import current_run, finish, log
    from epochal.run.run import Run
    from epochal.run.start import init
    from epochal.run.track import track
    from epochal.series.lost_time import LostTime, explain_phases
    from epochal.series.trend import Trend, TrendGroup
    from epochal.torch.checkpoint.checkpoints import Checkpoints
    from epochal.torch.checkpoint.manifest import Retention
    from epochal.torch.checkpoint.training_state import TrainingState
    from epochal.torch.data.watch import watch_data
    from epochal.torch.early_stopping import EarlyStopping
    from epochal.torch.flops import speed_of_light
    from epochal.torch.graph.builder import FlowBuilder
    from epochal.torch.graph.graph import Graph
    from epochal.torch.memory import watch_memory
    from epochal.torch.moe.watch import watch_moe
    from epochal.torch.watching import watch
    from epochal.training_log import TrainingRunLogger
    from epochal.version import __version__

# Where each name is defined. `tests/test_surface.py` holds the same list: a new name is a decision.
_HOMES = {
    name: module
    for module, names in {
        "epochal.console.messages": "LogVerbosity",
        "epochal.errors": "EpochalError RunFinishedError RunNotFoundError UsageError",
        "epochal.integrations.summary_writer": "SummaryWriter",
        "epochal.media.types": "Audio Html Image Markdown Table Video",
        "epochal.monitor": "EpochMetrics EpochRecord Monitor RankMetrics",
        "epochal.reading": "load open",
        "epochal.run.board": "board",
        "epochal.run.current": "current_run finish log",
        "epochal.run.run": "Run",
        "epochal.run.start": "init",
        "epochal.run.track": "track",
        "epochal.series.lost_time": "LostTime explain_phases",
        "epochal.series.trend": "Trend TrendGroup",
        "epochal.torch.checkpoint.checkpoints": "Checkpoints",
        "epochal.torch.checkpoint.manifest": "Retention",
        "epochal.torch.checkpoint.training_state": "TrainingState",
        "epochal.torch.data.watch": "watch_data",
        "epochal.torch.early_stopping": "EarlyStopping",
        "epochal.torch.flops": "speed_of_light",
        "epochal.torch.graph.builder": "FlowBuilder",
        "epochal.torch.graph.graph": "Graph",
        "epochal.torch.memory": "watch_memory",
        "epochal.torch.moe.watch": "watch_moe",
        "epochal.torch.watching": "watch",
        "epochal.training_log": "TrainingRunLogger",
        "epochal.version": "__version__",
    }.items()
    for name in names.split()
}
# Packages with public names of their own, so that `epochal.torch.set_lr` needs one import only.
_PACKAGES = ("console", "health", "torch")

# `open` is left out: `from epochal import *` would replace the builtin.
__all__ = [
    "Audio",
    "Checkpoints",
    "EarlyStopping",
    "EpochMetrics",
    "EpochRecord",
    "EpochalError",
    "FlowBuilder",
    "Graph",
    "Html",
    "Image",
    "LogVerbosity",
    "LostTime",
    "Markdown",
    "Monitor",
    "RankMetrics",
    "Retention",
    "Run",
    "RunFinishedError",
    "RunNotFoundError",
    "SummaryWriter",
    "Table",
    "TrainingRunLogger",
    "TrainingState",
    "Trend",
    "TrendGroup",
    "UsageError",
    "Video",
    "__version__",
    "board",
    "current_run",
    "explain_phases",
    "finish",
    "init",
    "load",
    "log",
    "speed_of_light",
    "track",
    "watch",
    "watch_data",
    "watch_memory",
    "watch_moe",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"epochal.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'epochal' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from epochal.errors import MissingPackageError

        raise MissingPackageError(f"epochal.{name}", error) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_PACKAGES})


def _load_torch_hooks() -> TorchHooks:
    """Load what a run calls where torch is in use; the run itself must not import it."""
    from epochal.torch.hooks import HOOKS

    return HOOKS


register_torch_hooks(_load_torch_hooks)
