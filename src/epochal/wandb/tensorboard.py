"""``sync_tensorboard``: what the script's own TensorBoard writers get is recorded as well.

The class that writes event files is asked to show each event. Those are read like the events of a
file. Torch and the packages ``tensorboard`` and ``tensorboardX`` have such a class each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from epochal.integrations.summary_writer import FileWriter
from epochal.run.run import Run, recorder_of
from epochal.wandb.notices import say_once
from epochal.wandb.session import ACTIVE

_WRITERS = ("tensorboard.summary.writer.event_file_writer", "tensorboardX.event_file_writer")


def record_event_files(run: Run) -> Callable[[], None]:
    """Record what TensorBoard writers get from now on; give a function that ends it."""
    writers: dict[str, FileWriter] = {}

    def record(folder: str, event: Any) -> None:
        if run.state == "finished":
            return
        if folder not in writers:
            prefix = "" if not writers else f"{Path(folder).name}/"
            writers[folder] = FileWriter(folder, lambda _step: run, prefix=prefix)
        serialized = event.SerializeToString()
        guard = recorder_of(run).guard
        guard.run("TensorBoard events", writers[folder].write_serialized, serialized)

    found = [name for name in _WRITERS if find_spec(name.partition(".")[0])]
    if not found:
        say_once(
            "sync_tensorboard=True has no effect: neither tensorboard nor tensorboardX is"
            " installed."
        )
    ends = ExitStack()
    for name in found:
        ends.callback(_watch(name, record))
    return ends.close


def patch(*ignored: Any, **more: Any) -> None:
    """Record what TensorBoard writers get, in the run that is open."""
    run = ACTIVE.needed("wandb.tensorboard.patch()")
    run.on_teardown(record_event_files(run.epochal))


def unpatch() -> None:
    """Do nothing: recording ends with the run."""


def _watch(module: str, record: Callable[[str, Any], None]) -> Callable[[], None]:
    writer = import_module(module).EventFileWriter
    add_event = writer.add_event

    def add_and_record(self: Any, event: Any) -> None:
        add_event(self, event)
        record(str(self.get_logdir()), event)

    writer.add_event = add_and_record

    def undo() -> None:
        if writer.add_event is add_and_record:
            writer.add_event = add_event

    return undo
