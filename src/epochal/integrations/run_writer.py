"""What a ``SummaryWriter`` writes with: its run, the steps of its calls, its files."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Number
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.journal.layout import is_run_folder
from epochal.media.types import Sample
from epochal.run.accepted import CallValues
from epochal.run.run import Run, recorder_of
from epochal.run.start import init_in
from epochal.values import element_count


class RunWriter:
    """Writes one writer's records to the run of a folder, which other writers may share."""

    def __init__(
        self, log_dir: str | os.PathLike[str], *, report_to: str | Iterable[str] | None = None
    ) -> None:
        if "://" in str(log_dir):
            raise UsageError(
                f"log_dir={str(log_dir)!r} is not a folder of this machine: Epochal records to a"
                " local folder."
            )
        self.folder = Path(log_dir).expanduser().absolute()
        self._report_to = report_to
        self._run: Run | None = None
        self._counts: Counter[str] = Counter()

    @property
    def run(self) -> Run:
        """The run; opened again when it was closed, here or by another writer."""
        run = self._run
        return self.open() if run is None or run.state == "finished" else run

    def open_at(self, purge_step: int | None) -> Run:
        """The run; with a step, a new attempt that hides older records from there on."""
        return self.run if purge_step is None else self.open(purge_step=purge_step)

    def open(self, *, purge_step: int | None = None) -> Run:
        """Open the run of the folder, or share it; hide older records from ``purge_step`` on."""
        has_others = self._run is None and _has_event_files(self.folder)
        self._run = SHARED_RUNS.hold(
            self.folder, self, resume_step=purge_step, report_to=self._report_to
        )
        if has_others:
            recorder_of(self._run).console.notice(
                f"{self.folder} has event files of TensorBoard, which are not part of this run:"
                f" 'epochal import {self.folder}' copies them into a run of their own."
            )
        return self._run

    def close(self, error: BaseException | None) -> None:
        """Finish the run, unless another writer holds it."""
        self._run = None
        SHARED_RUNS.release(self.folder, self, error)

    def step(self, tag: str, global_step: Any) -> int:
        """The step of a call: the given one, or how many calls of the tag had none before."""
        if global_step is not None:
            return int(global_step)
        self._counts[tag] += 1
        return self._counts[tag] - 1

    def add_numbers(
        self, numbers: Mapping[str, Any], tag: str, global_step: Any, walltime: float | None
    ) -> None:
        """Write points of several series; tensors on a GPU are not waited for."""
        run, step = self.run, self.step(tag, global_step)
        if walltime is None:
            run.log(numbers, step)
            return
        flat = CallValues(recorder_of(run).values).metrics(numbers)
        run.write({"log": "metrics", "t": float(walltime), "step": step, "m": flat})

    def add_sample(
        self, tag: str, sample: Sample, global_step: Any, walltime: float | None = None
    ) -> None:
        """Write a picture, a sound, a table, a text or a file."""
        run, step = self.run, self.step(tag, global_step)
        recorder_of(run).write_sample(name_of(tag), sample, step, t=walltime)


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


def time_of(walltime: float | None) -> float:
    """A given time, or now, in Unix seconds."""
    return time.time_ns() // 1_000_000 / 1000 if walltime is None else float(walltime)


def one_number(value: Any) -> Any:
    """A plain number; a tensor on a GPU stays there. Raises what torch raises for anything else."""
    if getattr(value, "ndim", None) == 0:  # the usual case: nothing to count
        return _read(value)
    if isinstance(value, (float, int)):
        return float(value) if isinstance(value, (float, bool)) else int(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ValueError(
                f"{value!r} is a text, not a number: names of Caffe2 blobs are not supported, pass"
                " the value."
            ) from None
    count = element_count(value)
    if count is None and not isinstance(value, Number):
        raise NotImplementedError(
            f"Got {type(value)}, but a number, numpy array or torch tensor is expected."
        )
    if count not in (None, 1):
        raise AssertionError(f"Tensor should contain one element (0 dimensions); it has {count}.")
    return float(value) if count is None else _read(value)


def _read(value: Any) -> Any:
    if getattr(value, "is_cuda", False):
        return value
    number = value.item()
    return number if type(number) in (float, int) else float(number)


@dataclass(slots=True)
class _Held:
    run: Run
    holders: weakref.WeakSet[object] = field(default_factory=weakref.WeakSet)


class SharedRuns:
    """The runs that writers hold; a run is finished when its last holder lets go of it."""

    def __init__(self) -> None:
        self._held: dict[Path, _Held] = {}
        self._lock = threading.RLock()

    def hold(
        self,
        folder: Path,
        holder: object,
        *,
        resume_step: int | None = None,
        report_to: str | Iterable[str] | None = None,
    ) -> Run:
        """The open run of a folder, or a new attempt of it.

        ``resume_step`` begins a new attempt in any case and hides steps from there on.
        """
        with self._lock:
            held = self._held.get(folder)
            if held is not None and resume_step is not None:
                held.run.finish(reason=f"another writer takes over at step {resume_step}")
            if held is None or held.run.state == "finished":
                run = init_in(folder, resume_step=resume_step, report_to=report_to)
                held = self._held.setdefault(folder, _Held(run))
                held.run = run
            held.holders.add(holder)
            return held.run

    def release(self, folder: Path, holder: object, error: BaseException | None = None) -> None:
        """Let go of a folder's run; ``error`` is what ends its last holder, if anything does."""
        with self._lock:
            held = self._held.get(folder)
            if held is None:
                return
            held.holders.discard(holder)
            if held.holders:
                return
            del self._held[folder]
        if error is None:
            held.run.finish()
        else:
            held.run.__exit__(type(error), error, error.__traceback__)


SHARED_RUNS = SharedRuns()


def checked_hparams(hparams: Any, metrics: Any, domains: Any) -> dict[str, Any]:
    """The hyperparameters as plain values; raises TypeError or ValueError as torch does."""
    if type(hparams) is not dict or type(metrics) is not dict:
        raise TypeError("hparam_dict and metric_dict should be dictionary.")
    if not isinstance(domains or {}, dict):
        raise TypeError("hparam_domain_discrete should be a dictionary.")
    for name, values in (domains or {}).items():
        kind = type(hparams.get(name))
        is_known = name in hparams and isinstance(values, list)
        if not is_known or not all(isinstance(value, kind) for value in values):
            raise TypeError(
                f"hparam_domain_discrete[{name}] should be a list of values of the type of"
                f" hparam_dict[{name}]."
            )
    return {name: _plain_hparam(name, value) for name, value in hparams.items()}


def hparams_folder(folder: Path, run_name: str | None) -> Path:
    """Where another set of hyperparameters is recorded.

    TensorBoard puts it into a folder within the writer's. Readers of runs do not look into runs, so
    a folder of ours lies beside the writer's; a ``run_name`` that leads elsewhere is followed.
    """
    inner = Path(os.path.normpath(folder / (run_name or str(time.time()))))
    if inner == folder or folder not in inner.parents:
        return inner
    return folder.with_name(f"{folder.name}_{'_'.join(inner.relative_to(folder).parts)}")


def _plain_hparam(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if element_count(value) == 1 and hasattr(value, "item"):
        return value.item()
    raise ValueError(
        f"hyperparameter {name!r} should be one of int, float, str, bool, or torch.Tensor, not"
        f" {type(value).__name__}."
    )


def draw_model(run: Run, model: Any, inputs: Any, *, verbose: bool, strict: bool) -> None:
    """Record the picture of a model; raises RuntimeError when its inputs do not fit.

    The inputs are only checked; the picture shows the structure of the model.
    """
    from epochal.monitor import log_picture
    from epochal.torch import picture_of

    if inputs is not None:
        import torch

        was_training = model.training
        model.eval()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                traced = torch.jit.trace(model, inputs, strict=strict)  # type: ignore[no-untyped-call]
        finally:
            model.train(was_training)
        if verbose:
            sys.stdout.write(f"{traced.graph}\n")
    log_picture(run, model, picture_of(model))
