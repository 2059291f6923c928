"""TensorBoard's own messages, written into a run.

Programs that build summaries themselves hand them to ``SummaryWriter.file_writer``. They are read
like those of an event file, by the importer of such files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from epochal.errors import UsageError
from epochal.records import Record
from epochal.run.run import Run, recorder_of
from epochal.run.samples import store_blob
from epochal.sinks import protobuf as pb

if TYPE_CHECKING:
    from epochal.imports.tfevents_event import Tags


P = ParamSpec("P")


class HasRun(Protocol):
    """What knows the run to write to."""

    @property
    def run(self) -> Run:
        """The run, open."""

    def open(self, *, purge_step: int | None = None) -> Run:
        """Begin a new attempt that hides older records from a step on."""


class FileWriter:
    """What ``SummaryWriter.file_writer`` is: takes events, summaries and graphs.

    ``to`` has the run to write to, ``twin`` gives the writer of real event files, if there is one.
    ``prefix`` is put before every name.
    """

    def __init__(
        self, log_dir: str, to: HasRun, twin: Callable[[], Any], *, prefix: str = ""
    ) -> None:
        self._log_dir = log_dir
        self._prefix = prefix
        self._to = to
        self._twin = twin
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
        self._also("add_event", event, step, walltime)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a ``Summary`` message."""
        step = b"" if global_step is None else pb.whole(2, int(global_step))
        self.write_serialized(_at(walltime) + step + pb.chunk(5, summary.SerializeToString()))
        self._also("add_summary", summary, global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Write a ``GraphDef`` message, and how its steps ran."""
        graph, stats = graph_profile
        metadata = pb.text(1, "step1") + pb.chunk(2, stats.SerializeToString())
        self.write_serialized(_at(walltime) + pb.chunk(4, graph.SerializeToString()))
        self.write_serialized(_at(walltime) + pb.chunk(8, metadata))
        self._also("add_graph", graph_profile, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a ``GraphDef`` message."""
        self.write_serialized(_at(walltime) + pb.chunk(4, graph.SerializeToString()))
        self._also("add_onnx_graph", graph, walltime)

    def flush(self) -> None:
        """Wait until what was written is on the disk."""
        self._to.run.flush()
        self._also("flush")

    def _also(self, call: str, *args: Any) -> None:
        """Make the same call of the writer of real event files, where there is one."""
        twin = self._twin()
        if twin is not None:
            getattr(twin, call)(*args)

    def close(self) -> None:
        """Flush; the ``SummaryWriter`` closes."""
        self.flush()

    def reopen(self) -> None:
        """Do nothing: writing opens what was closed."""

    def write_serialized(self, data: bytes) -> None:
        """Write an ``Event`` message that is encoded already."""
        from epochal.imports.tfevents_event import Tags, read_event  # it needs NumPy

        self._tags = self._tags or Tags()
        event = read_event(data, self._tags)
        run = self._to.open(purge_step=event.step) if event.is_restart else self._to.run
        if event.points:
            points = {f"{self._prefix}{name}": value for name, value in event.points}
            run.write({"log": "metrics", "t": event.t, "step": event.step, "m": points})
        for record in event.records:
            if self._prefix and "name" in record and record["log"] != "event":
                record["name"] = f"{self._prefix}{record['name']}"
            place = event.blobs.get(record.get("file", ""))
            if place is None:
                run.write(record)
            else:
                write_blob(run, record, data[place.start : place.end])


def _at(walltime: float | None) -> bytes:
    return pb.double(1, time.time() if walltime is None else walltime)


def also_to_event_files(method: Callable[P, None]) -> Callable[P, None]:
    """Have a call of a ``SummaryWriter`` made to torch's writer too, where event files are."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> None:
        method(*args, **named)
        writer: Any = args[0]
        if writer._event_files is not None:
            getattr(writer._event_files, method.__name__)(*args[1:], **named)

    return call


def torch_writer() -> Any:
    """Torch's own class ``SummaryWriter``, which writes real event files."""
    try:
        from torch.utils.tensorboard import SummaryWriter as TorchWriter
    except ImportError as error:
        raise UsageError(
            "event_files=True needs torch and tensorboard: pip install torch tensorboard."
        ) from error
    return TorchWriter


def write_blob(run: Run, record: Record, data: bytes) -> None:
    """Store a file of a run and write the record that names it; a full disk is noted."""
    recorder = recorder_of(run)
    if not recorder.is_recorded:
        return
    try:
        store_blob(recorder.folder, record["file"], data)
    except OSError as error:
        recorder.console.notice(f"{record['name']!r} could not be stored: {error}")
        run.event("blob-lost", name_of=record["name"], reason=str(error))
        return
    run.write(record)
