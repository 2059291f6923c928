"""What a training shows in a terminal: lines, blocks, a progress bar, and how much of each.

Public here: messages at a level, the level itself, and how durations are written. Runs in the
training process: nothing here loads numpy, psutil, rich or torch.
"""

from epochal.records.format import format_duration
from epochal.run.console.messages import (
    Verbosity,
    debug,
    enabled,
    msg,
    set_verbosity,
    trace,
    verbose,
    verbosity,
)

__all__ = [
    "Verbosity",
    "debug",
    "enabled",
    "format_duration",
    "msg",
    "set_verbosity",
    "trace",
    "verbose",
    "verbosity",
]
