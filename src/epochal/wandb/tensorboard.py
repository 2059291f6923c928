"""``sync_tensorboard``: what the script's own TensorBoard writers get is recorded as well.

The class that writes event files is asked to show each event. Those are read like the events of a
file. Torch and the packages ``tensorboard`` and ``tensorboardX`` have such a class each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from epochal.integrations.file_writer import FileWriter
from epochal.run.run import Run, recorder_of
from epochal.wandb.active import ACTIVE
from epochal.wandb.notices import say_once

_WRITERS = ("tensorboard.summary.writer.event_file_writer", "tensorboardX.event_file_writer")


class _Recorded:
    """Turns events of any writer into records of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._writers: dict[str, FileWriter] = {}

    def add(self, folder: str, event: Any) -> None:
        if self._run.state == "finished":
            return
        writer = self._writers.get(folder)
        if writer is None:
            prefix = "" if not self._writers else f"{Path(folder).name}/"
            writer = self._writers[folder] = FileWriter(
                folder, lambda _step: self._run, prefix=prefix
            )
        recorder_of(self._run).guard.run(
            "TensorBoard events", writer.write_serialized, event.SerializeToString()
        )


def record_event_files(run: Run) -> Callable[[], None]:
    """Record what TensorBoard writers get from now on; give a function that ends it."""
    recorded = _Recorded(run)
    undo = [_watch(name, recorded) for name in _WRITERS if _is_there(name)]
    if not undo:
        say_once(
            "sync_tensorboard=True has no effect: neither tensorboard nor tensorboardX is"
            " installed."
        )

    def end() -> None:
        for one in undo:
            one()

    return end


def patch(
    save: bool = True,
    tensorboard_x: bool | None = None,
    pytorch: bool | None = None,
    root_logdir: str = "",
) -> None:
    """Record what TensorBoard writers get, in the run that is open."""
    run = ACTIVE.needed("wandb.tensorboard.patch()")
    run.on_teardown(record_event_files(run.epochal))


def unpatch() -> None:
    """Do nothing: recording ends with the run."""


def _is_there(module: str) -> bool:
    package = module.partition(".")[0]
    return package in sys.modules or find_spec(package) is not None


def _watch(module: str, recorded: _Recorded) -> Callable[[], None]:
    writer = import_module(module).EventFileWriter
    add_event = writer.add_event

    def add_and_record(self: Any, event: Any) -> None:
        add_event(self, event)
        recorded.add(str(self.get_logdir()), event)

    writer.add_event = add_and_record

    def undo() -> None:
        if writer.add_event is add_and_record:
            writer.add_event = add_event

    return undo
