"""Records a training of Lightning: ``Trainer(logger=EpochalLogger("project"))``.

The logger is made in every process, and pickled into spawned ones. It opens its run when it is
first needed, in the process of rank zero only.
"""

from __future__ import annotations

import secrets
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.base.guard import attempt, describe
from epochal.errors import UsageError
from epochal.exchange.media.types import Audio, Image, Sample, Table, Video
from epochal.integrations.framework import (
    callback,
    log_samples,
    open_run,
    require,
    write_checkpoint,
)
from epochal.journal.layout import slugify
from epochal.run.run import Run, recorder_of
from epochal.settings import read_settings

require("lightning", "epochal.integrations.lightning")

from lightning.fabric.loggers.logger import rank_zero_experiment  # noqa: E402 (see require)
from lightning.pytorch.loggers.logger import Logger  # noqa: E402
from lightning.pytorch.utilities import rank_zero_only  # noqa: E402

# What ends a run when Lightning has no exception to show for it.
_STATUS = {"success": "finished", "finished": "finished", "failed": "failed"}


class EpochalLogger(Logger):  # type: ignore[misc]
    """A logger of Lightning (and of Fabric) that writes a run.

    ``name`` is the project and ``version`` the name of the run; a version that exists is continued
    as a new attempt. ``save_dir`` is the folder of the projects. Checkpoints go into the folder of
    the run by default. ``log_graph`` draws the model with its ``example_input_array``. ``run`` is a
    run that is open already; it is not finished here. ``options`` are those of ``epochal.init``.
    """

    def __init__(
        self,
        name: str | None = None,
        version: str | int | None = None,
        *,
        save_dir: str | Path | None = None,
        prefix: str = "",
        log_graph: bool = False,
        run: Run | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if "project" in options or "dir" in options:
            raise UsageError("EpochalLogger takes name= for the project and save_dir= for dir=.")
        settings = read_settings()
        self._run = self._given = run
        self._project = name or settings.project
        self._save_dir = Path(save_dir or settings.dir).expanduser().absolute()
        # Chosen here, so that spawned processes and later calls of the trainer share it.
        made_up = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        self._version = made_up if version is None else str(version)
        self._prefix = f"{prefix}-" if prefix else ""
        self._draws_graph = log_graph
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_run": None, "_given": None}

    # -- what it is -------------------------------------------------------------------------------

    @property
    @rank_zero_experiment  # type: ignore[untyped-decorator]
    def experiment(self) -> Run:
        """The run, opened when it is first needed; a dummy in processes of other ranks."""
        return self._open()

    @property
    def name(self) -> str:
        """The project, as its folder is named."""
        return slugify(self._project) if self._given is None else self._given.dir.parent.name

    @property
    def version(self) -> str:
        """The run, as its folder is named."""
        return slugify(self._version) if self._run is None else self._run.dir.name

    @property
    def save_dir(self) -> str:
        """The folder of the projects."""
        return str(self._save_dir if self._given is None else self._given.dir.parent.parent)

    @property
    def root_dir(self) -> str:
        """The folder of the project."""
        return str(Path(self.save_dir) / self.name)

    @property
    def log_dir(self) -> str:
        """The folder of the run."""
        return str(Path(self.root_dir) / self.version)

    # -- records ----------------------------------------------------------------------------------

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics; tensors on a GPU are not waited for."""
        if self._prefix:
            metrics = {f"{self._prefix}{name}": value for name, value in metrics.items()}
        self._open().log(metrics, step)

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_image(
        self, key: str, images: Sequence[Any], step: int | None = None, **each: Any
    ) -> None:
        """Record pictures; ``caption``, ``boxes`` and ``masks`` are lists, as of WandbLogger."""
        self._log_list(Image, key, images, step, each)

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_audio(
        self, key: str, audios: Sequence[Any], step: int | None = None, **each: Any
    ) -> None:
        """Record sounds; ``sample_rate`` and ``caption`` are lists with one entry for each."""
        self._log_list(Audio, key, audios, step, each)

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_video(
        self, key: str, videos: Sequence[Any], step: int | None = None, **each: Any
    ) -> None:
        """Record videos; ``fps`` and ``caption`` are lists with one entry for each."""
        each.pop("format", None)
        self._log_list(Video, key, videos, step, each)

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_table(
        self,
        key: str,
        columns: Sequence[str] | None = None,
        data: Sequence[Sequence[Any]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
    ) -> None:
        """Record a table: ``columns`` and ``data``, or a data frame."""
        table = Table((data or ()) if dataframe is None else dataframe, columns)
        log_samples(self._open(), {f"{self._prefix}{key}": table}, step)

    log_text = log_table  # as WandbLogger's

    def _log_list(
        self,
        make: Callable[..., Sample],
        key: str,
        items: Sequence[Any],
        step: int | None,
        each: Mapping[str, Sequence[Any]],
    ) -> None:
        """Record several samples under one name; the further arguments have an entry for each."""
        for name, values in each.items():
            if len(values) != len(items):
                raise UsageError(f"{name}= has {len(values)} entries for {len(items)} samples.")
        samples = [
            make(item, **{name: values[number] for name, values in each.items()})
            for number, item in enumerate(items)
        ]
        log_samples(self._open(), {f"{self._prefix}{key}": samples}, step)

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_hyperparams(
        self, params: Mapping[str, Any] | Namespace | None, *args: Any, **kwargs: Any
    ) -> None:
        """Add hyperparameters to the configuration."""
        values = vars(params) if isinstance(params, Namespace) else dict(params or {})
        if values:
            self._open().config.update(values)

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Draw the model, if the logger was made with ``log_graph=True``."""
        if not self._draws_graph:
            return
        from epochal.integrations.summary_writer import draw_model

        _, fault = attempt(draw_model, self._open(), model)
        if fault is not None:
            recorder_of(self._open()).console.notice(
                f"the model is not drawn: {describe(fault).partition(chr(10))[0]}"
            )

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Record a checkpoint."""
        path = checkpoint_callback._last_checkpoint_saved
        score = checkpoint_callback.current_score
        write_checkpoint(
            self._open(),
            checkpoint_callback._last_global_step_saved,
            path,
            kind="lightning",
            metric=None if score is None else float(score),
            is_best=path == checkpoint_callback.best_model_path,
        )

    @rank_zero_only  # type: ignore[untyped-decorator]
    @callback
    def finalize(self, status: str) -> None:
        """Finish the run as the training has ended; what is logged later is another attempt."""
        run = self._run
        if run is None or run.state == "finished" or self._given is not None:
            return
        error = sys.exc_info()[1]
        if status == "failed" and error is not None:
            run.__exit__(type(error), error, error.__traceback__)
        else:
            run.finish(_STATUS.get(status, "interrupted"), reason=f"Lightning: {status}")

    def _open(self) -> Run:
        run = self._run
        if run is None or run.state == "finished":
            run = open_run(
                {"resume": "allow", **self._options},
                dir=self._save_dir,
                project=self._project,
                name=self._version,
            )
            if "resume_step" not in self._options:
                recorder_of(run).end_resuming()  # a test after a training hides nothing of it
            self._run = run
        return run
