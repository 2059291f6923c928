"""The checkpoints of one training: when they are made, which stay, how one goes on from them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.errors import UsageError
from epochal.journal.process_action import announce_saves, end_saves
from epochal.torch.checkpoint.emergency import SIGNALS, SignalWatch, is_end
from epochal.torch.checkpoint.loss_picture import LossHistory
from epochal.torch.checkpoint.manifest import (
    FOLDER,
    Kind,
    Manifest,
    Mode,
    Pointer,
    best_of,
    list_manifests,
    pointed,
)
from epochal.torch.checkpoint.retention import Retention
from epochal.torch.checkpoint.state import Restored, load_state, save_state
from epochal.torch.checkpoint.state_files import discard, sweep
from epochal.torch.checkpoint.training_state import TrainingState
from epochal.torch.rank_agreement import Ranks
from epochal.torch.worker import CpuWorker

if TYPE_CHECKING:
    from epochal.run.run import Run


class Checkpoints:
    """Saves a training as it goes, and once more when it is asked to stop.

    ``where`` is a run (its folder ``checkpoints`` is used, unless `folder` names another, and each
    save is recorded) or a folder. Every rank makes one, in a ``with`` block, and calls `step` after
    every step::

        with Checkpoints(run, state, every=1000) as checkpoints:
            restored = checkpoints.restore()
            for step in range(restored.next_step if restored else 0, total):
                ...
                checkpoints.step(step, loss=loss)

    `every` saves after each that many steps, counted from 1. With `background` tensors are copied
    and a thread writes them (one rank only). A folder with checkpoints of another training is
    refused unless one of them was restored or `overwrite` is set.
    """

    def __init__(
        self,
        where: Run | str | os.PathLike[str],
        state: TrainingState,
        *,
        folder: str | os.PathLike[str] | None = None,
        every: int | None = None,
        keep: Retention | None = None,
        mode: Mode = "min",
        config: Mapping[str, Any] | None = None,
        external: Mapping[str, str] | None = None,
        signals: Sequence[str] = SIGNALS,
        background: bool = False,
        overwrite: bool = False,
    ) -> None:
        if every is not None and every < 1:
            raise UsageError(f"every must be at least 1 or None, got {every}.")
        self._run: Run | None
        if isinstance(where, (str, os.PathLike)):
            if folder is not None:
                raise UsageError("folder goes with a run: where is a folder already.")
            self._run, self.folder = None, Path(where)
        else:
            self._run = where
            self.folder = where.dir / FOLDER if folder is None else Path(folder)
        self.losses = LossHistory()
        self._state = state
        self._every = every
        self._keep = keep or Retention()
        self._mode: Mode = mode
        self._config = config
        self._external = external
        self._is_ours = overwrite
        self._best: float | None = None
        self._knows_best = False
        self._saved_step: int | None = None
        self._ranks = Ranks.present(on_cpu=True)
        if background and self._ranks.world_size > 1:
            raise UsageError("background must be False in a training of several ranks.")
        self._worker = CpuWorker(max_queued=1) if background else None
        if self._ranks.rank == 0:
            sweep(self.folder)
        self._signals = SignalWatch(signals)
        self._is_announced = (
            self._run is not None and self._ranks.rank == 0 and self._signals.handles_save
        )
        if self._is_announced and self._run is not None:
            announce_saves(self._run.dir)

    def restore(
        self,
        which: Pointer | int | str | None = None,
        *,
        source: str | os.PathLike[str] | None = None,
    ) -> Restored | None:
        """Go on from a checkpoint, by default the latest; None when there is none at all.

        One that is asked for by name must exist. `source` is another training's folder of
        checkpoints: this one then begins where that one was, and saves in its own.
        """
        folder = self.folder if source is None else Path(source)
        has_any = self._ranks.on_first(lambda: bool(list_manifests(folder)))
        if which is None and not has_any:
            return None
        restored = load_state(
            folder,
            self._state,
            which="latest" if which is None else which,
            run=self._run,
            config=self._config,
            losses=self.losses,
            ranks=self._ranks,
        )
        if folder == self.folder:
            self._is_ours, self._knows_best = True, False
            self._saved_step = restored.step
        return restored

    def step(
        self,
        step: int,
        *,
        loss: Any = None,
        epoch: float | None = None,
        metric: float | None = None,
    ) -> Path | None:
        """End a step: save if it is due, if the metric is the best so far, or if a signal came.

        A step that was saved before its metric was known is saved again. The signal is then passed
        on: this call may end the process or raise KeyboardInterrupt. Returns where the checkpoint
        is, None when there was nothing to do.
        """
        if loss is not None:
            self.losses.add(step, loss)
        is_late = metric is not None and step == self._saved_step
        is_told = self._ranks.rank == 0 and (is_late or self.is_best(metric))
        urgency, is_news = self._ranks.highest(self._signals.urgency, int(is_told))
        is_due = self._every is not None and (step + 1) % self._every == 0
        saved = None
        if urgency or is_due or is_news:
            kind: Kind = "emergency" if urgency else "rolling"
            saved = self.save(step, kind=kind, epoch=epoch, metric=metric)
        if urgency:
            self._drain()
            self._signals.pass_on(urgency)
        return saved

    def check_signals(
        self,
        step: int,
        *,
        epoch: float | None = None,
        metric: float | None = None,
        as_it_was: AbstractContextManager[object] | None = None,
        before_end: Callable[[], object] | None = None,
    ) -> Path | None:
        """Inside a long step or evaluation: if a signal came, save as it was after the last step.

        `step` is that last one, below 0 for none, with its `metric` if it has one; weights and
        optimizer are still as it left them. `as_it_was` is entered for the save, to put back what
        has moved since, such as the place in the data. Then the signal is passed on as by `step`,
        after `before_end` was called where it asks for the end. Ranks ask each other, so every rank
        must call it as often.
        """
        (urgency,) = self._ranks.highest(self._signals.urgency)
        if not urgency:
            return None
        saved = None
        if step >= 0 and step != self._saved_step:
            with as_it_was or nullcontext():
                saved = self.save(step, kind="emergency", epoch=epoch, metric=metric)
        self._drain()
        if before_end is not None and is_end(urgency):
            before_end()
        self._signals.pass_on(urgency)
        return saved

    def save(
        self,
        step: int,
        *,
        kind: Kind = "rolling",
        epoch: float | None = None,
        metric: float | None = None,
    ) -> Path:
        """Save now, after a step that is done; replaces what this training saved at that step."""
        self._ranks.on_first(self._claim)
        if self.is_best(metric):
            self._best = metric
        path = save_state(
            self.folder,
            self._state,
            step=step,
            epoch=epoch,
            metric=metric,
            mode=self._mode,
            kind=kind,
            run=self._run,
            config=self._config,
            external=self._external,
            losses=self.losses,
            overwrite=True,
            worker=self._worker,
            ranks=self._ranks,
        )
        self._saved_step = step
        if self._worker is not None:
            self._worker.submit(self._tidy)
        elif self._ranks.rank == 0:
            self._tidy()
        return path

    def is_best(self, metric: float | None) -> bool:
        """Return whether a metric beats that of every checkpoint so far; NaN and None never do."""
        if metric is None or not math.isfinite(metric):
            return False
        if not self._knows_best:
            best = best_of(list_manifests(self.folder), self._mode)
            self._best, self._knows_best = None if best is None else best.metric, True
        if self._best is None:
            return True
        return metric < self._best if self._mode == "min" else metric > self._best

    def list(self) -> list[Manifest]:
        """Return every checkpoint there is, by step."""
        self._drain()
        return list_manifests(self.folder)

    def close(self) -> None:
        """Wait for saves in the background and give the signals back; one that waits is passed on.

        Calling it again does nothing.
        """
        try:
            self._drain()
        finally:
            if self._is_announced and self._run is not None:
                self._is_announced = False
                end_saves(self._run.dir)
            self._signals.release()
        if urgency := self._signals.urgency:
            self._signals.pass_on(urgency)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _claim(self) -> None:
        """Refuse a folder that another training has filled."""
        if self._is_ours:
            return
        others = list_manifests(self.folder)
        run_id = None if self._run is None else self._run.id
        if others and (run_id is None or any(m.run_id != run_id for m in others)):
            raise UsageError(
                f"{self.folder} holds checkpoints of another training, up to {others[-1].name}: "
                "call restore() first, choose another folder, or pass overwrite=True."
            )
        self._is_ours = True

    def _tidy(self) -> None:
        manifests = list_manifests(self.folder)
        pointers: tuple[Pointer, Pointer] = ("latest", "best")
        stay = [name for p in pointers if (name := pointed(self.folder, p)) is not None]
        for manifest in self._keep.superseded(manifests, keep=stay):
            discard(self.folder / manifest.name)

    def _drain(self) -> None:
        if self._worker is not None and not self._worker.is_idle():
            worker, self._worker = self._worker, CpuWorker(max_queued=1)
            worker.finish()
