"""Epochal watches a training run.

Importing this package loads nothing heavy: each name below is imported when it is first used.
What belongs to a PyTorch loop but not to every one (schedules, initialisers, memory, seeds, …) is
in `epochal.torch`; messages and verbosity are in `epochal.run.console`.
"""

from __future__ import annotations

from epochal.base.torch_hooks import register_torch_hooks

TYPE_CHECKING = False  # as in typing, which takes longer to load than all that is loaded here
if TYPE_CHECKING:
    from typing import Any

    from epochal import health as health
    from epochal import torch as torch
    from epochal.api.frame import Frame as Frame
    from epochal.api.frame import frame as frame
    from epochal.api.frame import points as points
    from epochal.api.monitor import EpochMetrics as EpochMetrics
    from epochal.api.monitor import EpochRecord as EpochRecord
    from epochal.api.monitor import Monitor as Monitor
    from epochal.api.monitor import RankMetrics as RankMetrics
    from epochal.api.reading import load as load
    from epochal.api.reading import open as open  # noqa: A004 (epochal.open reads like it does)
    from epochal.api.training_log import TrainingRunLogger as TrainingRunLogger
    from epochal.errors import EpochalError as EpochalError
    from epochal.errors import RunFinishedError as RunFinishedError
    from epochal.errors import RunNotFoundError as RunNotFoundError
    from epochal.errors import UsageError as UsageError
    from epochal.exchange.media.types import Audio as Audio
    from epochal.exchange.media.types import Html as Html
    from epochal.exchange.media.types import Image as Image
    from epochal.exchange.media.types import Markdown as Markdown
    from epochal.exchange.media.types import Table as Table
    from epochal.exchange.media.types import Video as Video
    from epochal.integrations.summary_writer import SummaryWriter as SummaryWriter
    from epochal.run import console as console
    from epochal.run.board import board as board
    from epochal.run.console.messages import LogVerbosity as LogVerbosity
    from epochal.run.current import current_run as current_run
    from epochal.run.current import finish as finish
    from epochal.run.current import log as log
    from epochal.run.run import Run as Run
    from epochal.run.start import init as init
    from epochal.run.track import track as track
    from epochal.series.lost_time import LostTime as LostTime
    from epochal.series.lost_time import explain_phases as explain_phases
    from epochal.series.trend import Trend as Trend
    from epochal.series.trend import TrendGroup as TrendGroup
    from epochal.torch.checkpoint.checkpoints import Checkpoints as Checkpoints
    from epochal.torch.checkpoint.manifest import Retention as Retention
    from epochal.torch.checkpoint.training_state import TrainingState as TrainingState
    from epochal.torch.data.watch import watch_data as watch_data
    from epochal.torch.early_stopping import EarlyStopping as EarlyStopping
    from epochal.torch.flops import speed_of_light as speed_of_light
    from epochal.torch.graph.builder import FlowBuilder as FlowBuilder
    from epochal.torch.graph.graph import Graph as Graph
    from epochal.torch.memory import watch_memory as watch_memory
    from epochal.torch.moe import watch_moe as watch_moe
    from epochal.torch.preflight.preflight import preflight as preflight
    from epochal.torch.watching import watch as watch
    from epochal.version import __version__ as __version__

# Where each name is defined. `tests/test_surface.py` holds the same list: a new name is a decision.
_HOMES = {
    name: module
    for module, names in {
        "epochal.run.console.messages": "LogVerbosity",
        "epochal.errors": "EpochalError RunFinishedError RunNotFoundError UsageError",
        "epochal.integrations.summary_writer": "SummaryWriter",
        "epochal.exchange.media.types": "Audio Html Image Markdown Table Video",
        "epochal.api.frame": "Frame frame points",
        "epochal.api.monitor": "EpochMetrics EpochRecord Monitor RankMetrics",
        "epochal.api.reading": "load open",
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
        "epochal.torch.moe": "watch_moe",
        "epochal.torch.preflight.preflight": "preflight",
        "epochal.torch.watching": "watch",
        "epochal.api.training_log": "TrainingRunLogger",
        "epochal.version": "__version__",
    }.items()
    for name in names.split()
}
# Packages with public names of their own, so that `epochal.torch.set_lr` needs one import only.
_PACKAGES = {"console": "epochal.run.console", "health": "epochal.health", "torch": "epochal.torch"}

# `open` is left out: `from epochal import *` would replace the builtin.
__all__ = [name for name in _HOMES if name != "open"]


def __getattr__(name: str) -> Any:
    import sys
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(_PACKAGES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'epochal' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from epochal.errors import MissingPackageError

        raise MissingPackageError(f"epochal.{name}", error) from error
    globals()[name] = value
    # The calls of a run, too: while Python shuts down nothing can be imported.
    for other, home in _HOMES.items():
        if other not in globals() and hasattr(sys.modules.get(home), other):
            globals()[other] = getattr(sys.modules[home], other)
    return value


def __dir__() -> list[str]:
    return sorted({*_HOMES, *_PACKAGES})


def _load_torch_hooks() -> Any:
    """Load what a run calls where torch is in use; the run itself must not import it."""
    from epochal.torch import hooks

    return hooks


register_torch_hooks(_load_torch_hooks)
