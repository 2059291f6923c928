"""TensorBoard's own messages, written into a run.

Programs that build summaries themselves hand them to ``SummaryWriter.file_writer``. They are read
like those of an event file, by the importer of such files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from epochal.exchange.sinks import protobuf as pb
from epochal.run.run import Run, recorder_of

if TYPE_CHECKING:
    from epochal.exchange.imports.tfevents_event import Tags


class FileWriter:
    """What ``SummaryWriter.file_writer`` is: takes events and summaries.

    ``open_run`` gives the run to write to. With a step, it begins a new attempt that hides older
    records from this step on. ``prefix`` is put before every name.
    """

    def __init__(
        self, log_dir: str, open_run: Callable[[int | None], Run], *, prefix: str = ""
    ) -> None:
        self._log_dir = log_dir
        self._prefix = prefix
        self._open_run = open_run
        self._tags: Tags | None = None

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return self._log_dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an ``Event`` message."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.write_serialized(event.SerializeToString())

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a ``Summary`` message."""
        at = pb.double(1, time.time() if walltime is None else walltime)
        step = b"" if global_step is None else pb.whole(2, int(global_step))
        self.write_serialized(at + step + pb.chunk(5, summary.SerializeToString()))

    def flush(self) -> None:
        """Wait until what was written is on the disk."""
        self._open_run(None).flush()

    close = flush  # the ``SummaryWriter`` closes

    def write_serialized(self, data: bytes) -> None:
        """Write an ``Event`` message that is encoded already."""
        from epochal.exchange.imports.tfevents_event import Tags, read_event  # it needs NumPy

        self._tags = self._tags or Tags()
        event = read_event(data, self._tags)
        run = self._open_run(event.step if event.is_restart else None)
        if event.points:
            points = {f"{self._prefix}{name}": value for name, value in event.points}
            run.write({"log": "metrics", "t": event.t, "step": event.step, "m": points})
        for record in event.records:
            if self._prefix and "name" in record and record["log"] != "event":
                record["name"] = f"{self._prefix}{record['name']}"
            run.write(record)
        for name, sample in event.samples:
            named = f"{self._prefix}{name}"
            recorder_of(run).write_sample(named, sample, event.step, t=event.t)
