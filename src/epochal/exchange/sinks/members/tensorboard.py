"""TensorBoard: one event file per run, written without TensorFlow and without TensorBoard."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.exchange.sinks import summaries
from epochal.exchange.sinks.keys import LiveMetrics, RoleTags, histogram_tag, text_tag
from epochal.exchange.sinks.sink import (
    NUMBERS,
    Entry,
    FileSink,
    NotHeldError,
    SinkContext,
    SinkOptions,
    option,
)
from epochal.journal.blobs import TABLE
from epochal.records import scalars_of
from epochal.records.values import flat_items
from epochal.series.importance import Importance

_SAMPLES = ("image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp", "audio/wav", TABLE)
_FILES = (
    *("application/x-npy", "application/x-npz", "application/x-protobuf"),
    *("text/tab-separated-values", "image/png"),
)
_USUAL = "usual"
_TAGS = ("names", _USUAL)
# As many columns as the table of hyperparameters can have and still be read.
_MOST_RESULTS = 20
# As many charts as a person looks at while the training runs.
_MOST_LIVE = 20
_ALL = "all"
# Where 0.2.0 wrote the event file of a run.
_OLD_FOLDER = "tensorboard"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoardOptions(SinkOptions):
    """The folder of the event file, and what is written into it."""

    tensorboard_dir: str | None = option(
        "a folder with one folder per run; default: the event file is in the run's folder",
        is_path=True,
    )
    run_name: str | None = option("the folder in `tensorboard_dir`; default: the run's name")
    tensorboard_tags: str | None = option(
        "`names`: the names as they were logged, or `usual`: tags such as `Loss/train`;"
        " default: `names`"
    )
    tensorboard_metrics: str | None = option(
        "how many metrics to write during the training, the most important first, or `all`;"
        f" default: {_MOST_LIVE}; `epochal sync` always writes all",
        may_be_count=True,
    )


class TensorBoardSink(FileSink):
    """Writes everything that TensorBoard has a tab for, as torch's ``SummaryWriter`` does.

    A resumed run goes on in the same file, after a mark that makes readers forget what it takes
    over. The file is a function of the records: a batch that is sent again gives the same bytes.
    """

    name = "tensorboard"
    summary = "One event file per run, which `tensorboard --logdir` reads as it grows."
    options = TensorBoardOptions
    holds = (
        *(*NUMBERS, "histogram", "text", "option", "define", "graph"),
        *(f"blob:{media_type}" for media_type in _SAMPLES),
        *(f"file:{media_type}" for media_type in _FILES),
    )
    labels = ("config",)

    _context: SinkContext

    def __init__(self) -> None:
        self._tags = RoleTags()
        self._has_usual_tags = False
        self._hparams: dict[str, Any] = {}
        self._has_session = False
        self._live = LiveMetrics(None)
        # The series that say how well the run did, with their tags, in the order they came.
        self._results: dict[str, str] = {}
        self._has_experiment = False
        self._last_t = 0.0
        # What was collected since the last flush.
        self._events: list[bytes] = []

    def open(self, context: SinkContext) -> bool:
        """Open the event file; what was written after the last ``flush`` is taken off again."""
        from epochal.exchange.event_file import EventFile  # it needs NumPy

        self._context = context
        options: TensorBoardOptions = context.options
        if options.tensorboard_tags not in (None, *_TAGS):
            raise UsageError(
                f"tensorboard_tags must be 'names' or 'usual', not {options.tensorboard_tags!r}."
            )
        self._has_usual_tags = options.tensorboard_tags == _USUAL
        most = _most_live(options.tensorboard_metrics) if context.is_live else None
        folder = _folder_of(context)
        state = context.state
        path = Path(str(state.get("file", "")))
        is_there = path.parent in (folder, folder / _OLD_FOLDER) and path.is_file()
        limit = state.get("metrics")  # a file that has all metrics gets all of them
        goes_on = is_there and (limit in (None, most) or not state.get("left_out"))
        if not goes_on:
            state, path = {}, folder / _file_name(context)
        self._live = LiveMetrics(None if goes_on and limit is None else most, state)
        self._tags = RoleTags(state.get("tags"))
        self._hparams = dict(state.get("hparams") or flat_items(context.config))
        self._has_session = bool(state.get("has_session"))
        self._results = dict(state.get("results") or {})
        self._has_experiment = bool(state.get("has_experiment"))
        self._last_t = float(state.get("last_t") or 0.0)
        self._file = EventFile(path, keep_bytes=int(state.get("bytes") or 0))
        if not self._file.num_bytes:
            t = context.created
            # Readers take no notice of the first start; without it the next one is the first.
            self._file.append(
                [summaries.version_event(t, writer="epochal"), summaries.start_event(t, 0)]
            )
        return goes_on or not context.state

    def write(self, entry: Entry) -> None:
        found = getattr(self, f"_on_{entry.kind}", self._on_numbers)(entry)
        if found and not self._has_session:
            self._events += self._session_start(entry.t)
        self._events += found
        self._last_t = max(self._last_t, entry.t)
        is_evaluated = self._tags.has_both_losses and entry.kind in ("eval", "epoch")
        if is_evaluated and self._tags.have_goals(self._results):
            self._events += self._experiment()

    def flush(self) -> dict[str, Any]:
        """Append what was collected; the file, its length, and what the tags were settled to."""
        events, self._events = self._events, []
        self._file.append(events)
        return {
            "file": str(self._file.path),
            "bytes": self._file.num_bytes,
            "tags": self._tags.plain(),
            "hparams": None if self._has_experiment else self._hparams,
            "has_session": self._has_session,
            "results": self._results,
            "has_experiment": self._has_experiment,
            "last_t": self._last_t,
            **self._live.plain(),
        }

    def close(self, status: str | None) -> dict[str, Any]:
        """Say how the run ended, where that is known, and close the file."""
        self._events = []  # what was not flushed is sent again
        if self._file is not None and status is not None and self._hparams:
            start = [] if self._has_session else self._session_start(self._last_t)
            value = summaries.session_end_value(status, t=self._last_t)
            ending = summaries.summary_event(self._last_t, 0, [value])
            self._events = [*start, *self._experiment(), ending]
        return super().close(status)

    def _session_start(self, t: float) -> list[bytes]:
        """The hyperparameters, all that were given before the first thing to be shown."""
        if not self._hparams:
            return []  # they may come later
        self._has_session = True
        name = self._context.fact("id", "")
        value = summaries.session_start_value(self._hparams, name=name, t=self._context.created)
        return [summaries.summary_event(t, 0, [value])]

    def _experiment(self) -> list[bytes]:
        """Which metrics the table of hyperparameters has, once, as far as they are known by now."""
        if self._has_experiment or not self._hparams or not self._results:
            return []
        self._has_experiment = True
        tags = [self._results[name] for name in self._most_important(self._results)]
        value = summaries.experiment_value(self._hparams, tags, t=self._last_t)
        return [summaries.summary_event(self._last_t, 0, [value])]

    def _on_numbers(self, entry: Entry) -> list[bytes]:
        found = dict(scalars_of(entry.record))
        if entry.node is not None:  # telemetry of another machine
            found = {f"{entry.node}/{name}": value for name, value in found.items()}
        self._tags.look(found)
        names = self._live.chosen(
            found, self._tags.importance if entry.node is None else lambda _: Importance.MACHINE
        )
        tags = self._tags_of(names, kind=entry.kind)
        values = [summaries.scalar_value(tags[name], found[name]) for name in names]
        return [summaries.summary_event(entry.t, entry.step, values)] if values else []

    def _tags_of(self, names: Sequence[str], *, kind: str) -> dict[str, str]:
        """The tags of series by name."""
        tags = {name: name for name in names}
        if self._has_usual_tags:
            tags = {name: self._tags.scalar(name, kind=kind) for name in names}
        if not self._has_experiment:
            results = (name for name in names if self._tags.importance(name).is_result)
            self._results |= {name: tags[name] for name in results}
            if len(self._results) > _MOST_RESULTS:
                kept = self._most_important(self._results)[:_MOST_RESULTS]
                self._results = {name: self._results[name] for name in kept}
        return tags

    def _most_important(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self._tags.importance)

    def _on_histogram(self, entry: Entry) -> list[bytes]:
        name = str(entry.record.get("name"))
        tag = histogram_tag(name) if self._has_usual_tags else name
        value = summaries.histogram_value(tag, entry.record)
        return [summaries.summary_event(entry.t, entry.step, [value])]

    def _on_text(self, entry: Entry) -> list[bytes]:
        name, text = str(entry.record.get("name")), str(entry.record.get("text", ""))
        value = summaries.text_value(text_tag(name) if self._has_usual_tags else name, text)
        return [summaries.summary_event(entry.t, entry.step, [value])]

    def _on_file(self, entry: Entry) -> list[bytes]:
        from epochal.exchange.sinks.tensorboard_files import file_events  # it needs NumPy

        path, folder = self._context.file(entry.record), self._file.path.parent
        return file_events(entry, path, folder)

    _on_blob = _on_file

    def _on_graph(self, entry: Entry) -> list[bytes]:
        nodes = entry.record.get("nodes")
        if not nodes:
            raise NotHeldError("the graph is only a picture.")
        return [summaries.graph_event(entry.t, nodes)]

    def _on_option(self, entry: Entry) -> list[bytes]:
        self._hparams[str(entry.record.get("name"))] = entry.record.get("value")
        return []

    def _on_define(self, entry: Entry) -> list[bytes]:
        self._tags.define(entry.record)
        self._live.reconsider()
        return []

    def _on_resume(self, entry: Entry) -> list[bytes]:
        return [summaries.start_event(entry.t, entry.step)]


def _folder_of(context: SinkContext) -> Path:
    options: TensorBoardOptions = context.options
    if options.tensorboard_dir is None:
        return context.folder.path
    return Path(options.tensorboard_dir) / (options.run_name or context.folder.path.name)


def _most_live(text: str | None) -> int | None:
    """The number of metrics of a live file; None for all."""
    if text is None:
        return _MOST_LIVE
    if text == _ALL:
        return None
    if not text.isdecimal() or not int(text):
        raise UsageError(f"tensorboard_metrics must be 'all' or a number above 0, not {text!r}.")
    return int(text)


def _file_name(context: SinkContext) -> str:
    """As TensorBoard's own writers name it; the run's id keeps two runs of one folder apart."""
    run_id = context.fact("id", context.folder.path.name)
    return f"events.out.tfevents.{int(context.created):010d}.{socket.gethostname()}.{run_id}"
