"""What a ``SummaryWriter`` writes with: its run, the steps of its calls, its values."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from numbers import Number
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.integrations.file_writer import FileWriter
from epochal.journal.layout import is_run_folder
from epochal.journal.line import now
from epochal.media.types import Sample
from epochal.records import Record
from epochal.run.accepted import CallValues
from epochal.run.run import Run, recorder_of
from epochal.run.start import init_in
from epochal.values import element_count

# The open runs by their folders, and their writers: the last one to close finishes the run.
_RUNS: dict[Path, Run] = {}
_HOLDERS: defaultdict[Path, weakref.WeakSet[RunWriter]] = defaultdict(weakref.WeakSet)
_LOCK = threading.RLock()


class RunWriter:
    """Opens the run of a folder, which several writers may share, and writes to it."""

    def __init__(
        self, log_dir: str | os.PathLike[str], report_to: str | Iterable[str] | None
    ) -> None:
        if "://" in str(log_dir):
            raise UsageError(f"log_dir={str(log_dir)!r} is not a folder of this machine.")
        self.log_dir = log_dir
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._folder = Path(log_dir).expanduser().absolute()
        self._report_to = report_to
        self._run: Run | None = None
        # The run's own call, for plain numbers; None while closed.
        self._log: Callable[..., None] | None = None
        self._counts: Counter[str] = Counter()

    def get_logdir(self) -> str | os.PathLike[str]:
        """The folder of the run, as it was given."""
        return self.log_dir

    def flush(self) -> None:
        """Wait until everything added so far is on the disk."""
        if self._run is not None:
            self._open().flush()

    def close(self) -> None:
        """Finish the run, unless another writer of the folder is open; adding opens it again."""
        self.__exit__(None, None, None)

    def __exit__(self, exc_type: Any, exc_val: BaseException | None, exc_tb: Any) -> None:
        if self._run is None:
            return
        self._run = self._log = self.file_writer = self.all_writers = None
        with _LOCK:
            _HOLDERS[self._folder].discard(self)
            run = None if _HOLDERS[self._folder] else _RUNS.pop(self._folder, None)
        if run is not None:
            run.__exit__(exc_type, exc_val, exc_tb)

    def _get_file_writer(self) -> FileWriter:
        """The writer of TensorBoard's own messages; opens the run again after ``close``."""
        self._open()
        assert self.file_writer is not None
        return self.file_writer

    def _open(self, purge_step: int | None = None) -> Run:
        """The run; opened again when it was closed, here or by another writer.

        ``purge_step`` begins a new attempt that hides older records from this step on.
        """
        run = self._run
        if purge_step is None and run is not None and run.state != "finished":
            return run
        has_others = run is None and _has_event_files(self._folder)
        with _LOCK:
            run = _RUNS.get(self._folder)
            if run is not None and purge_step is not None:
                run.finish(reason=f"another writer takes over at step {purge_step}")
            if run is None or run.state == "finished":
                run = init_in(self._folder, resume_step=purge_step, report_to=self._report_to)
            _RUNS[self._folder] = self._run = run
            _HOLDERS[self._folder].add(self)
        self._log = run.log
        if self.file_writer is None:
            log_dir = str(self.log_dir)
            self.file_writer = FileWriter(log_dir, self._open)
            self.all_writers = {log_dir: self.file_writer}
        if has_others:
            recorder_of(run).console.notice(
                f"{self._folder} has event files of TensorBoard, which are not part of this run:"
                f" 'epochal import {self._folder}' copies them into a run of their own."
            )
        return run

    def _step(self, tag: str, global_step: Any) -> int:
        """The step of a call: the given one, or how many calls of the tag had none before."""
        if global_step is not None:
            return int(global_step)
        self._counts[tag] += 1
        return self._counts[tag] - 1

    def _add_numbers(
        self, numbers: Mapping[str, Any], tag: str, global_step: Any, walltime: float | None
    ) -> None:
        """Write points of several series; tensors on a GPU are not waited for."""
        run, step = self._open(), self._step(tag, global_step)
        if walltime is None:
            run.log(numbers, step)
            return
        flat = CallValues(recorder_of(run).values).metrics(numbers)
        run.write({"log": "metrics", "t": float(walltime), "step": step, "m": flat})

    def _write(self, record: Record, tag: str, global_step: Any, walltime: float | None) -> None:
        """Write a record, whose time and step are those of the call."""
        at = now() if walltime is None else float(walltime)
        self._open().write({**record, "t": at, "step": self._step(tag, global_step)})

    def _add(
        self,
        tag: str,
        sample: Sample | list[Sample],
        global_step: Any,
        walltime: float | None = None,
    ) -> None:
        """Write a picture, a sound, a table, a text or a file, or a list of them."""
        run, step = self._open(), self._step(tag, global_step)
        recorder_of(run).write_sample(name_of(tag), sample, step, t=walltime)

    def _hparams_folder(self, run_name: str | None) -> Path:
        """Where another set of hyperparameters is recorded.

        TensorBoard puts it into a folder within the writer's. Readers of runs do not look into
        runs, so ours lies beside the writer's; a ``run_name`` that leads elsewhere is followed.
        """
        folder = self._folder
        inner = Path(os.path.normpath(folder / (run_name or str(time.time()))))
        if inner == folder or folder not in inner.parents:
            return inner
        return folder.with_name(f"{folder.name}_{'_'.join(inner.relative_to(folder).parts)}")


def _has_event_files(folder: Path) -> bool:
    """Whether a folder that is no run of ours yet has event files."""
    if not folder.is_dir() or is_run_folder(folder):
        return False
    return any("tfevents" in path.name for path in folder.iterdir())


def name_of(tag: Any) -> str:
    """The name under which a tag is recorded; raises TypeError for what is no text."""
    if not isinstance(tag, str):
        raise TypeError(f"tag must be a text, not {type(tag).__name__}.")
    return tag or "unnamed"


def one_number(value: Any) -> Any:
    """A plain number; a tensor on a GPU stays there. Raises what torch raises for anything else."""
    if isinstance(value, str):
        value = float(value)
    count = 1 if getattr(value, "ndim", None) == 0 else element_count(value)
    if count is None and not isinstance(value, Number):
        raise NotImplementedError(f"Got {type(value)}, but a number or a tensor is expected.")
    if count not in (None, 1):
        raise AssertionError(f"Tensor should contain one element (0 dimensions); it has {count}.")
    if getattr(value, "is_cuda", False):
        return value
    number = value.item() if hasattr(value, "item") else value
    return number if type(number) in (float, int) else float(number)


def checked_hparams(hparams: Any, metrics: Any) -> dict[str, Any]:
    """The hyperparameters as plain values; raises TypeError or ValueError as torch does."""
    if type(hparams) is not dict or type(metrics) is not dict:
        raise TypeError("hparam_dict and metric_dict should be dictionary.")
    return {name: _plain_hparam(name, value) for name, value in hparams.items()}


def _plain_hparam(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if element_count(value) == 1 and hasattr(value, "item"):
        return value.item()
    raise ValueError(f"hyperparameter {name!r} must not be a {type(value).__name__}.")


def draw_model(run: Run, model: Any) -> None:
    """Record a picture of a model's structure."""
    from epochal.monitor import log_picture
    from epochal.torch import picture_of

    log_picture(run, model, picture_of(model))
