"""The checkpoints of one training: when they are made, which stay, how one goes on from them.

Every rank makes a `Checkpoints`. A checkpoint appears under its name when every rank has written
its file and the manifest is on the disk.

Signals that ask a training to stop are kept until its step is done and saved. Handlers are chained:
after the save a signal goes to whoever had it before, so that the process ends as it would have.
SIGUSR1, which cluster schedulers send ahead of the end, saves and goes on.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, get_args

import torch
import torch.distributed as dist

from epochal.base.guard import describe
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.journal.process_action import SAVE_SIGNAL, announce_saves, end_saves
from epochal.records.redact import Redactor
from epochal.records.values import plain_json
from epochal.run.console.messages import error as say_error
from epochal.run.run import Run, recorder_of
from epochal.settings import read_launch
from epochal.torch.checkpoint.file import Content, write_checkpoint
from epochal.torch.checkpoint.manifest import (
    FOLDER,
    MODEL,
    CheckpointNotFoundError,
    Drift,
    FileFacts,
    Kind,
    Manifest,
    Mode,
    Pointer,
    Retention,
    best_of,
    by_age,
    config_drift,
    discard,
    facts_of,
    find,
    list_manifests,
    pointed,
    prepare,
    publish,
    read_manifest,
    scan,
    step_name,
    sweep,
    verify,
)
from epochal.torch.checkpoint.model_file import Load, LoadReport, chosen_hash, content_of
from epochal.torch.checkpoint.training_state import TrainingState, packed, read_state
from epochal.torch.checks import check, check_whole

# -- signals that ask for a checkpoint ------------------------------------------------------------


SIGNALS = ("SIGTERM", "SIGINT", SAVE_SIGNAL)
# A launcher repeats Ctrl-C to its children at once; a person who means it does so later.
_IMPATIENT_AFTER_S = 1.0
# Above every signal's number.
_ENDS = 1 << 10


class SignalWatch:
    """Notes a signal; the training asks for it at the end of each step.

    A second Ctrl-C, a second or more after the first, is passed on at once.
    """

    def __init__(self, names: Sequence[str] = SIGNALS) -> None:
        self._pid = os.getpid()
        self._previous: dict[int, Any] = {}
        self._pending = 0
        self._since = 0.0
        for name in names:
            self._watch(name)

    @property
    def handles_save(self) -> bool:
        """Whether the signal that asks for a save is handled here."""
        return getattr(signal, SAVE_SIGNAL, None) in self._previous

    @property
    def urgency(self) -> int:
        """A number for what waits, so that the highest of all ranks is what all should do."""
        ends = self._pending and self._pending != getattr(signal, SAVE_SIGNAL, None)
        return self._pending + (_ENDS if ends else 0)

    def pass_on(self, urgency: int) -> None:
        """Hand a signal to whoever had it before; may end the process, or raise."""
        number = urgency % _ENDS
        self._pending = 0
        previous = self._previous.get(number)
        if callable(previous):
            previous(number, None)
        elif previous == signal.SIG_DFL and number != getattr(signal, SAVE_SIGNAL, None):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def release(self) -> None:
        """Take the handlers out again, unless somebody has chained onto them since."""
        if threading.current_thread() is threading.main_thread():
            for number, previous in self._previous.items():
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, previous)

    def _watch(self, name: str) -> None:
        number = getattr(signal, name, None)
        if number is None and name not in SIGNALS:
            raise UsageError(f"{name!r} is no signal: use some of {', '.join(SIGNALS)}.")
        if number is None or threading.current_thread() is not threading.main_thread():
            return  # not on this system; or Python allows handlers from the main thread only
        previous = signal.getsignal(number)
        # None: installed by C code, which cannot be chained. Who ignores a signal, means it.
        if previous not in (None, signal.SIG_IGN):
            self._previous[number] = previous
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        is_repeated = self._pending == number == signal.SIGINT
        if os.getpid() != self._pid or (is_repeated and now - self._since > _IMPATIENT_AFTER_S):
            self.pass_on(number)
        elif not self._pending or self._pending == getattr(signal, SAVE_SIGNAL, None):
            # A request to end takes the place of one that only asks for a save.
            self._pending, self._since = number, now


# -- agreement between ranks ----------------------------------------------------------------------


T = TypeVar("T")

# What a rank may fail with while the others wait for it; they are told instead of left waiting.
_TOLD = (EpochalError, OSError, RuntimeError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's rank, and a way to the others; `group` None is torch's default group."""

    rank: int
    world_size: int
    group: Any = None

    @classmethod
    def present(cls, *, on_cpu: bool = False) -> Ranks:
        """The ranks of torch.distributed, one where it is not in use.

        With `on_cpu` a group of their own is made that never touches a GPU; every rank must then
        come here.
        """
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            group = dist.new_group(backend="gloo") if on_cpu else None
            return cls(dist.get_rank(), dist.get_world_size(), group)
        launch = read_launch()
        if launch.world_size > 1:
            raise UsageError(
                f"this is rank {launch.rank} of {launch.world_size}, but torch.distributed is not "
                "started: call torch.distributed.init_process_group() first."
            )
        return cls(0, 1)

    def together(self, task: Callable[[], T]) -> list[T]:
        """Do something on every rank and return everybody's answers; one's failure is all's."""
        if self.world_size == 1:
            return [task()]
        answer: tuple[T | None, str | None]
        failure: BaseException | None = None
        try:
            answer = (task(), None)
        except _TOLD as error:
            failure, answer = error, (None, describe(error))
        answers: list[Any] = [None] * self.world_size
        dist.all_gather_object(answers, answer, group=self.group)
        if failure is not None:
            raise failure
        told = [f"rank {rank}: {text}" for rank, (_, text) in enumerate(answers) if text]
        if told:
            raise EpochalError(f"another rank failed, so this one stops too. {'; '.join(told)}")
        return [value for value, _ in answers]

    def on_first(self, task: Callable[[], T]) -> T:
        """Do something on rank 0 and return its answer everywhere."""
        answers = self.together(lambda: task() if self.rank == 0 else None)
        first: Any = answers[0]
        return first  # type: ignore[no-any-return]

    def highest(self, *numbers: int) -> list[int]:
        """The largest that any rank gave, number by number."""
        if self.world_size == 1:
            return list(numbers)
        box = torch.tensor(numbers)
        if self.group is None and dist.get_backend() == "nccl":
            box = box.cuda()
        dist.all_reduce(box, op=dist.ReduceOp.MAX, group=self.group)
        return [int(number) for number in box.tolist()]


# -- checkpoints ----------------------------------------------------------------------------------


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

    Every rank makes one, in a ``with`` block, and calls `step` after every step::

        with Checkpoints(run, state, every=1000) as checkpoints:
            restored = checkpoints.restore()
            for step in range(restored.next_step if restored else 0, total):
                ...
                checkpoints.step(step)

    Args:
        where: A run, whose folder ``checkpoints`` is used and which records each save, or a folder.
        state: What is saved.
        folder: The folder of checkpoints, if it is not the run's.
        every: Save after each that many steps, counted from 1.
        keep: How many checkpoints of each kind stay.
        mode: Whether the best metric is the smallest, ``min``, or the largest, ``max``.
        config: The configuration that is stored with a checkpoint, by default the run's.
        external: Ids of the run elsewhere.
        signals: The signals that save a checkpoint before they take effect.
        overwrite: Use a folder that has checkpoints of another training. Without it, such a folder
            is refused unless one of them was restored.
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
        what = "a TrainingState, as in Checkpoints(run, TrainingState(model, optimizer))"
        check(isinstance(state, TrainingState), state, what, name="state")
        if every is not None:
            check_whole(every, name="every", least=1, hint=" or None")
        if mode not in get_args(Mode):
            raise UsageError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}.")
        self._run: Run | None
        if isinstance(where, (str, os.PathLike)):
            if folder is not None:
                raise UsageError("folder goes with a run: where is a folder already.")
            self._run, self.folder = None, Path(where)
        else:
            check(
                isinstance(where, Run), where, "a run of epochal.init() or a folder", name="where"
            )
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
        fallback: bool = False,
    ) -> Restored | None:
        """Go on from a checkpoint, by default the latest; None when there is none at all.

        ``which`` is ``"latest"``, ``"best"``, a step, or a name such as ``"step-1000"``, which must
        exist. `source` is another training's folder of checkpoints: this one then begins where
        that one was, and saves in its own. All files are read and compared with their checksums
        before anything is changed. Hyperparameters that differ from the saved ones are shown. A
        checkpoint of another number of ranks is refused unless `any_world_size`: data position and
        generators then stay as they are. With `fallback`, a latest checkpoint that is damaged or
        missing is replaced by the newest one that is whole, and a warning says so.

        Raises LookupError when there is no such checkpoint, ValueError when it is damaged or does
        not fit.
        """
        if fallback and which not in (None, "latest"):
            raise UsageError("fallback=True goes with the latest checkpoint: leave out which.")
        folder = self.folder if source is None else Path(source)
        if which is None and not self._ranks.on_first(lambda: bool(scan(folder))):
            return None
        chosen: Pointer | int | str = "latest" if which is None else which
        with _naming_fallback(chosen == "latest" and not fallback):
            path = self._choose(folder, chosen, any_world_size=any_world_size, fallback=fallback)
        answers = self._ranks.together(lambda: load_state(path, self._state, self._ranks))
        manifest, report, left = answers[self._ranks.rank]
        has_config = self._config is not None or self._run is not None
        drift = config_drift(manifest.config, self._plain_config()) if has_config else ()
        if drift and self._ranks.rank == 0:
            lines = "".join(f"\n  {one}" for one in drift)
            self._warn(f"hyperparameters have changed since {manifest.name} was saved:{lines}")
        if folder == self.folder:
            self._is_ours, self._knows_best = True, False
            self._saved_step = manifest.step
            if self._run is not None:
                recorder_of(self._run).ending.checkpoint = str(path)
        return Restored(path, manifest, report, tuple(left), drift)

    def step(
        self, step: int, *, epoch: float | None = None, metric: float | None = None
    ) -> Path | None:
        """End a step: save if it is due, if the metric is the best so far, or if a signal came.

        A step that was saved before its metric was known is saved again. The signal is then passed
        on: this call may end the process or raise KeyboardInterrupt. Returns where the checkpoint
        is, None when there was nothing to do.

        Args:
            step: The step that is done, counted from 0.
            epoch: The epoch, which is stored with the checkpoint.
            metric: The metric of an evaluation after this step, if there was one.
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

        Args:
            step: The step that is done, counted from 0.
            kind: ``rolling``, ``epoch`` or ``emergency``; `Retention` says how many of each stay.
            epoch: The epoch, which is stored with the checkpoint.
            metric: The metric of an evaluation after this step, if there was one.
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
        """Return whether a metric beats that of every checkpoint so far; NaN and None never do.

        Args:
            metric: The metric of an evaluation.
        """
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

    def _choose(
        self, folder: Path, which: Pointer | int | str, *, any_world_size: bool, fallback: bool
    ) -> Path:
        """The checkpoint to go on from, whose files are whole for every rank."""
        paths, problems = self._ranks.on_first(partial(_candidates, folder, which, fallback))
        for path in paths:
            look = partial(_damage, path, self._ranks, any_world_size, is_told=fallback)
            damage = next(filter(None, self._ranks.together(look)), None)
            if damage is None:
                if problems and self._ranks.rank == 0:
                    self._warn(f"{' '.join(problems)} Training goes on from {path.name}.")
                return path
            problems.append(damage)
        raise FormatError(f"{folder} has no checkpoint that is whole. {' '.join(problems)}")

    def _warn(self, text: str) -> None:
        if self._run is not None and self._run.state != "finished":
            self._run.message(text, level="warning")
        else:
            say_error("%s", f"epochal: {text}")

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
        check(isinstance(plain, dict), given, "a mapping", name="config")
        # By the run's own rule, or by the usual one: the manifest lies in the run's folder.
        return Redactor().config(plain) if run is None else recorder_of(run).redactor.config(plain)


def rank_file(rank: int) -> str:
    """The file of what one rank has for itself."""
    return f"rank-{rank:04d}.safetensors"


def _candidates(
    folder: Path, which: Pointer | int | str, fallback: bool
) -> tuple[list[Path], list[str]]:
    """The checkpoint that was asked for, then those that may replace it, and what is wrong."""
    paths: list[Path] = []
    problems: list[str] = []
    if which == "latest" and pointed(folder, "latest") is None and (folder / "latest").exists():
        problems.append(f"{folder / 'latest'} names no checkpoint.")
    try:
        paths.append(find(folder, which))
    except (FormatError, CheckpointNotFoundError) as error:
        if not fallback:
            raise
        problems.append(str(error))
    if fallback:
        others = (folder / manifest.name for manifest in by_age(folder))
        paths += [path for path in others if path not in paths]
    return paths, problems


def _damage(path: Path, ranks: Ranks, any_world_size: bool, *, is_told: bool) -> str | None:
    """What is wrong with the files that this rank reads; raised unless `is_told`."""
    try:
        check_files(path, ranks, any_world_size=any_world_size)
    except (FormatError, OSError) as error:
        if not is_told:
            raise
        return str(error)
    return None


@contextlib.contextmanager
def _naming_fallback(is_possible: bool) -> Iterator[None]:
    """Have an error about a checkpoint name the option that goes on without it."""
    try:
        yield
    except (FormatError, CheckpointNotFoundError) as error:
        if not is_possible:
            raise
        kind = FormatError if isinstance(error, FormatError) else CheckpointNotFoundError
        hint = "restore(fallback=True) takes the newest one that is whole."
        raise kind(f"{error} {hint}") from error


def check_files(path: Path, ranks: Ranks, *, any_world_size: bool) -> None:
    """Compare the files that this rank reads with their checksums."""
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


def load_state(
    path: Path, state: TrainingState, ranks: Ranks
) -> tuple[Manifest, LoadReport, list[str]]:
    """Put a training back to where one checkpoint was saved, whose files were checked."""
    manifest = read_manifest(path)
    own_file = rank_file(ranks.rank) if manifest.world_size == ranks.world_size else None
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
