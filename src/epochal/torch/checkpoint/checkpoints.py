"""The checkpoints of one training: when they are made, which stay, how one goes on from them.

Every rank makes a `Checkpoints`. A checkpoint appears under its name when every rank has written
its file and the manifest is on the disk.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from epochal.console.messages import error as say_error
from epochal.errors import UsageError, ValueTypeError
from epochal.journal.process_action import announce_saves, end_saves
from epochal.redact import Redactor
from epochal.run.run import Run, recorder_of
from epochal.torch.checkpoint.emergency import SIGNALS, SignalWatch
from epochal.torch.checkpoint.file import Content, write_checkpoint
from epochal.torch.checkpoint.manifest import (
    FOLDER,
    MODEL,
    Drift,
    FileFacts,
    Kind,
    Manifest,
    Mode,
    Pointer,
    Retention,
    best_of,
    config_drift,
    discard,
    facts_of,
    find,
    list_manifests,
    pointed,
    prepare,
    publish,
    read_manifest,
    step_name,
    sweep,
    verify,
)
from epochal.torch.checkpoint.model_file import Load, LoadReport, chosen_hash, content_of
from epochal.torch.checkpoint.training_state import TrainingState, packed, read_state
from epochal.torch.rank_agreement import Ranks
from epochal.values import plain_json

SHARED = "shared.safetensors"


@dataclass(frozen=True, slots=True)
class Restored:
    """The checkpoint that a training resumes from. Continue with `next_step`: `step` is done.

    `left` names what the checkpoint held and this training has no place for; `drift` is how the
    configuration differs from the saved one.
    """

    path: Path
    manifest: Manifest
    report: LoadReport
    left: tuple[str, ...]
    drift: tuple[Drift, ...]

    @property
    def step(self) -> int:
        """The last step that is in the checkpoint."""
        return self.manifest.step

    @property
    def next_step(self) -> int:
        """The first step that is not in the checkpoint."""
        return self.manifest.step + 1


class Checkpoints:
    """Saves a training as it goes, and once more when it is asked to stop.

    ``where`` is a run (its folder ``checkpoints`` is used, unless `folder` names another, and each
    save is recorded) or a folder. Every rank makes one, in a ``with`` block, and calls `step` after
    every step::

        with Checkpoints(run, state, every=1000) as checkpoints:
            restored = checkpoints.restore()
            for step in range(restored.next_step if restored else 0, total):
                ...
                checkpoints.step(step)

    `every` saves after each that many steps, counted from 1. `config` is the run's unless given,
    `external` keeps ids of the run elsewhere. A folder with checkpoints of another training is
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
        overwrite: bool = False,
    ) -> None:
        if every is not None and every < 1:
            raise UsageError(f"every must be at least 1 or None, got {every}.")
        if mode not in get_args(Mode):
            raise UsageError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}.")
        self._run: Run | None
        if isinstance(where, (str, os.PathLike)):
            if folder is not None:
                raise UsageError("folder goes with a run: where is a folder already.")
            self._run, self.folder = None, Path(where)
        else:
            self._run = where
            self.folder = where.dir / FOLDER if folder is None else Path(folder)
        self._state = state
        self._every = every
        self._keep = keep or Retention()
        self._mode: Mode = mode
        self._config = config
        self._external = dict(external or {})
        self._is_ours = overwrite
        self._best: float | None = None
        self._knows_best = False
        self._saved_step: int | None = None
        self._ranks = Ranks.present(on_cpu=True)
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
        any_world_size: bool = False,
    ) -> Restored | None:
        """Go on from a checkpoint, by default the latest; None when there is none at all.

        ``which`` is ``"latest"``, ``"best"``, a step, or a name such as ``"step-1000"``, which must
        exist. `source` is another training's folder of checkpoints: this one then begins where
        that one was, and saves in its own. All files are read and compared with their checksums
        before anything is changed. Hyperparameters that differ from the saved ones are shown. A
        checkpoint of another number of ranks is refused unless `any_world_size`: data position and
        generators then stay as they are.

        Raises LookupError when there is no such checkpoint, ValueError when it is damaged or does
        not fit.
        """
        folder = self.folder if source is None else Path(source)
        has_any = self._ranks.on_first(lambda: bool(list_manifests(folder)))
        if which is None and not has_any:
            return None
        path = self._ranks.on_first(lambda: find(folder, "latest" if which is None else which))
        answers = self._ranks.together(
            lambda: load_state(path, self._state, self._ranks, any_world_size=any_world_size)
        )
        manifest, report, left = answers[self._ranks.rank]
        has_config = self._config is not None or self._run is not None
        drift = config_drift(manifest.config, self._plain_config()) if has_config else ()
        if drift and self._ranks.rank == 0:
            lines = "".join(f"\n  {one}" for one in drift)
            self._warn(f"hyperparameters have changed since {manifest.name} was saved:{lines}")
        if folder == self.folder:
            self._is_ours, self._knows_best = True, False
            self._saved_step = manifest.step
        return Restored(path, manifest, report, tuple(left), drift)

    def step(
        self, step: int, *, epoch: float | None = None, metric: float | None = None
    ) -> Path | None:
        """End a step: save if it is due, if the metric is the best so far, or if a signal came.

        A step that was saved before its metric was known is saved again. The signal is then passed
        on: this call may end the process or raise KeyboardInterrupt. Returns where the checkpoint
        is, None when there was nothing to do.
        """
        is_late = metric is not None and step == self._saved_step
        is_told = self._ranks.rank == 0 and (is_late or self.is_best(metric))
        urgency, is_news = self._ranks.highest(self._signals.urgency, int(is_told))
        is_due = self._every is not None and (step + 1) % self._every == 0
        saved = None
        if urgency or is_due or is_news:
            kind: Kind = "emergency" if urgency else "rolling"
            saved = self.save(step, kind=kind, epoch=epoch, metric=metric)
        if urgency:
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
        """Save now, after a step that is done; replaces what this training saved at that step.

        Writes ``<folder>/step-<step>``, then has ``latest`` name it, and ``best`` the checkpoint
        with the lowest (``mode="max"``: highest) metric. Every rank must call it.
        """
        if kind not in get_args(Kind):
            raise UsageError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}.")
        self._ranks.on_first(self._claim)
        if self.is_best(metric):
            self._best = metric
        final = self.folder / step_name(step)
        manifest = Manifest(
            step=step,
            kind=kind,
            saved=time.time(),
            files={},
            world_size=self._ranks.world_size,
            epoch=None if epoch is None else float(epoch),
            metric=None if metric is None else float(metric),
            mode=self._mode,
            run_id=None if self._run is None else self._run.id,
            attempt=None if self._run is None else recorder_of(self._run).attempt,
            config=self._plain_config(),
            external=self._external,
            hash=chosen_hash(self._state.model, "auto"),
            torch=str(torch.__version__),
        )
        files: dict[str, Content] = {}
        self._ranks.together(lambda: files.update(self._take()))
        temporary = self._ranks.on_first(lambda: prepare(final))
        self._write(files, temporary, final, manifest)
        self._saved_step = step
        return final

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
        return list_manifests(self.folder)

    def close(self) -> None:
        """Give the signals back; one that waits is passed on. Calling it again does nothing."""
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

    def _take(self) -> dict[str, Content]:
        """The files that this rank writes; what all ranks have in common is for rank 0."""
        contents = {rank_file(self._ranks.rank): packed(self._state.own_state(), name="rank")}
        if self._ranks.rank == 0:
            contents[MODEL] = content_of(self._state.model)
            contents[SHARED] = packed(self._state.shared_state(), name="state")
        return contents

    def _write(
        self, files: dict[str, Content], temporary: Path, final: Path, manifest: Manifest
    ) -> None:
        def write_own() -> dict[str, FileFacts]:
            for name, content in files.items():
                write_checkpoint(temporary / name, content)
            return {name: facts_of(temporary / name) for name in files}

        try:
            written = dict(ChainMap(*self._ranks.together(write_own)))
            complete = self._ranks.on_first(lambda: publish(temporary, final, manifest, written))
        except BaseException:
            if self._ranks.rank == 0:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if self._ranks.rank != 0:
            return
        if self._run is not None:
            self._run.event(
                "checkpoint",
                step=complete.step,
                kind=complete.kind,
                path=str(final),
                bytes=complete.size_bytes,
                metric=complete.metric,
                is_best=complete.best is not None and complete.best.step == complete.step,
            )
        self._tidy()

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
        pointers: tuple[Pointer, Pointer] = ("latest", "best")
        stay = [name for p in pointers if (name := pointed(self.folder, p)) is not None]
        for manifest in self._keep.superseded(list_manifests(self.folder), keep=stay):
            discard(self.folder / manifest.name)

    def _plain_config(self) -> dict[str, Any]:
        run = self._run
        given = self._config if self._config is not None else run.config if run is not None else {}
        plain = plain_json(given)
        if not isinstance(plain, dict):
            raise ValueTypeError(f"config must be a mapping, got {type(given).__name__}.")
        # By the run's own rule, or by the usual one: the manifest lies in the run's folder.
        return Redactor().config(plain) if run is None else recorder_of(run).redactor.config(plain)

    def _warn(self, text: str) -> None:
        if self._run is not None and not self._run.finished:
            self._run.message(text, level="warning")
        else:
            say_error("%s", f"epochal: {text}")


def rank_file(rank: int) -> str:
    """The file of what one rank has for itself."""
    return f"rank-{rank:04d}.safetensors"


def load_state(
    path: Path, state: TrainingState, ranks: Ranks, *, any_world_size: bool = False
) -> tuple[Manifest, LoadReport, list[str]]:
    """Put a training back to where one checkpoint was saved, after all of it was checked."""
    manifest = read_manifest(path)
    same_world = manifest.world_size == ranks.world_size
    if not same_world and not any_world_size:
        raise UsageError(
            f"{path} was saved by {manifest.world_size} ranks and this training has "
            f"{ranks.world_size}: pass any_world_size=True to go on without each rank's data "
            "position and generators."
        )
    own_file = rank_file(ranks.rank) if same_world else None
    verify(path, manifest, [MODEL, SHARED, *([own_file] if own_file else [])])
    load = Load(path / MODEL, state.model)
    if not load.report.is_complete:
        raise UsageError(f"{path} does not fit the model: {load.report}.")
    shared = read_state(path / SHARED)
    own = read_state(path / own_file) if own_file else None
    state.check_shared(shared)
    left = state.restore_shared(shared)
    load.fill()
    left += ["data", "rng"] if own is None else state.restore_own(own)
    return manifest, load.report, left
