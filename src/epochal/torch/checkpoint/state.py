"""A whole training in a folder: one call saves it, one call goes on from it.

Every rank calls both. A checkpoint appears under its name when every rank has written its file and
the manifest is on the disk. Until then it is a folder whose name starts with a dot.
"""

from __future__ import annotations

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
from epochal.redact import Redactor
from epochal.run.run import Run, recorder_of
from epochal.torch.checkpoint.drift import Drift, config_drift
from epochal.torch.checkpoint.file import open_checkpoint
from epochal.torch.checkpoint.loss_picture import LossHistory
from epochal.torch.checkpoint.manifest import (
    Best,
    Kind,
    Manifest,
    Mode,
    Pointer,
    find,
    read_manifest,
    step_name,
)
from epochal.torch.checkpoint.model_file import LoadReport, check_hash, stage
from epochal.torch.checkpoint.named_tensors import chosen_hash, named_tensors
from epochal.torch.checkpoint.state_files import (
    MODEL,
    SHARED,
    StateFiles,
    prepare,
    publish,
    rank_file,
    read_tree,
    verify,
)
from epochal.torch.checkpoint.training_state import TrainingState
from epochal.torch.rank_agreement import Ranks
from epochal.torch.worker import CpuWorker
from epochal.values import plain_json


def describe_drift(name: str, drifts: Sequence[Drift]) -> str:
    """The differences as a message to people."""
    lines = "".join(f"\n  {drift}" for drift in drifts)
    return f"hyperparameters have changed since {name} was saved:{lines}"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a training goes on from. Go on with `next_step`: `step` is done.

    `left` names what the checkpoint held and this training has no place for; `drift` is how the
    configuration differs from the saved one.
    """

    path: Path
    step: int
    epoch: float | None
    kind: Kind
    metric: float | None
    best: Best | None
    run_id: str | None
    attempt: int | None
    config: Mapping[str, Any]
    external: Mapping[str, str]
    report: LoadReport
    left: tuple[str, ...]
    drift: tuple[Drift, ...]

    @property
    def next_step(self) -> int:
        """The first step that is not in the checkpoint."""
        return self.step + 1


def save_state(
    folder: str | os.PathLike[str],
    state: TrainingState,
    *,
    step: int,
    epoch: float | None = None,
    metric: float | None = None,
    mode: Mode = "min",
    kind: Kind = "rolling",
    run: Run | None = None,
    config: Mapping[str, Any] | None = None,
    external: Mapping[str, str] | None = None,
    losses: LossHistory | None = None,
    overwrite: bool = False,
    worker: CpuWorker | None = None,
    ranks: Ranks | None = None,
) -> Path:
    """Save a training after a step, which must be done: optimizer and scheduler have stepped.

    Writes ``<folder>/step-<step>``, then has ``latest`` name it, and ``best`` the checkpoint with
    the lowest (``mode="max"``: highest) metric. Every rank must call it. ``config`` is the run's
    unless given; ``external`` keeps ids of the run elsewhere. With ``worker`` everything is copied
    first and written in the background, which a training of several ranks cannot do.

    Raises UsageError when that checkpoint exists, unless ``overwrite``.
    """
    if kind not in get_args(Kind) or mode not in get_args(Mode):
        raise UsageError(
            f"kind must be one of {', '.join(get_args(Kind))} and mode one of "
            f"{', '.join(get_args(Mode))}, got {kind!r} and {mode!r}."
        )
    ranks = ranks or Ranks.present()
    if worker is not None and ranks.world_size > 1:
        raise UsageError("worker must be None in a training of several ranks.")
    final = Path(folder) / step_name(step)
    manifest = Manifest(
        step=step,
        kind=kind,
        saved=time.time(),
        files={},
        world_size=ranks.world_size,
        epoch=None if epoch is None else float(epoch),
        metric=None if metric is None else float(metric),
        mode=mode,
        run_id=None if run is None else run.id,
        attempt=None if run is None else recorder_of(run).attempt,
        config=_config(config, run),
        external=dict(external or {}),
        hash=chosen_hash(state.model, "auto"),
        torch=str(torch.__version__),
    )
    taken: list[StateFiles] = []

    def take() -> None:
        copied = worker is not None
        taken.append(StateFiles.of(state, rank=ranks.rank, losses=losses, copied=copied))

    ranks.together(take)
    temporary = ranks.on_first(lambda: prepare(final, overwrite=overwrite))

    def write() -> None:
        try:
            written = dict(ChainMap(*ranks.together(lambda: taken[0].write(temporary))))
            whole = ranks.on_first(lambda: publish(temporary, final, manifest, written))
        except BaseException:
            if ranks.rank == 0:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if run is not None and ranks.rank == 0:
            _record(run, whole, final)

    if worker is None:
        write()
    else:
        worker.submit(write)
    return final


def load_state(
    folder: str | os.PathLike[str],
    state: TrainingState,
    *,
    which: Pointer | int | str = "latest",
    run: Run | None = None,
    config: Mapping[str, Any] | None = None,
    losses: LossHistory | None = None,
    any_world_size: bool = False,
    ranks: Ranks | None = None,
) -> Restored:
    """Put a training back to where it was saved, so that it goes on as if never interrupted.

    ``which`` is ``"latest"``, ``"best"``, a step, or a name such as ``"step-1000"``. All files are
    read and compared with their checksums before anything is changed. Hyperparameters that differ
    from the saved ones are shown on stderr. A checkpoint of another number of ranks is refused
    unless ``any_world_size``: data position and generators then stay as they are.

    Raises LookupError when there is no such checkpoint, ValueError when it is damaged or does not
    fit.
    """
    ranks = ranks or Ranks.present()
    path = ranks.on_first(lambda: find(Path(folder), which))
    answers = ranks.together(
        lambda: _restore(path, state, ranks, losses, any_world_size=any_world_size)
    )
    manifest, report, left = answers[ranks.rank]
    is_known = config is not None or run is not None
    drift = config_drift(manifest.config, _config(config, run)) if is_known else ()
    if drift and ranks.rank == 0:
        _show(run, describe_drift(manifest.name, drift))
    return Restored(
        path=path,
        step=manifest.step,
        epoch=manifest.epoch,
        kind=manifest.kind,
        metric=manifest.metric,
        best=manifest.best,
        run_id=manifest.run_id,
        attempt=manifest.attempt,
        config=manifest.config,
        external=manifest.external,
        report=report,
        left=tuple(left),
        drift=drift,
    )


def _restore(
    path: Path,
    state: TrainingState,
    ranks: Ranks,
    losses: LossHistory | None,
    *,
    any_world_size: bool,
) -> tuple[Manifest, LoadReport, list[str]]:
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
    with open_checkpoint(path / MODEL, verify=False) as reader:
        check_hash(reader, chosen_hash(state.model, "auto"))
        staged = stage(reader, named_tensors(state.model))
    if not staged.report.is_complete:
        raise UsageError(f"{path} does not fit the model: {staged.report}.")
    shared = read_tree(path / SHARED)
    own = read_tree(path / own_file) if own_file else None
    saved_losses = shared.pop("losses", None)
    state.check_shared(shared)
    left = state.restore_shared(shared)
    staged.fill()
    if losses is not None and saved_losses is not None:
        losses.load_state_dict(saved_losses)
    left += ["data", "rng"] if own is None else state.restore_own(own)
    return manifest, staged.report, left


def _config(config: Mapping[str, Any] | None, run: Run | None) -> dict[str, Any]:
    given = config if config is not None else run.config if run is not None else {}
    plain = plain_json(given)
    if not isinstance(plain, dict):
        raise ValueTypeError(f"config must be a mapping, got {type(config).__name__}.")
    # By the run's own rule, or by the usual one: the manifest lies in the run's folder.
    return Redactor().config(plain) if run is None else recorder_of(run).redactor.config(plain)


def _record(run: Run, manifest: Manifest, path: Path) -> None:
    run.event(
        "checkpoint",
        step=manifest.step,
        kind=manifest.kind,
        path=str(path),
        bytes=manifest.size_bytes,
        metric=manifest.metric,
        is_best=manifest.best is not None and manifest.best.step == manifest.step,
    )


def _show(run: Run | None, text: str) -> None:
    if run is not None and not run.finished:
        run.message(text, level="warning")
    else:
        say_error("%s", f"epochal: {text}")
