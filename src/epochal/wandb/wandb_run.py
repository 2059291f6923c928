"""``wandb.Run``: what ``wandb.init`` returns, over an Epochal run.

``log`` numbers rows as W&B does: a call without ``step`` writes the current row and begins the next
one unless ``commit=False``; a ``step`` moves the current row forward. A lower step is recorded
where it belongs. Nothing waits for a row to be complete: every call is in the journal when it
returns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from epochal.errors import RunFinishedError
from epochal.run.run import Run as EpochalRun
from epochal.values import plain_int
from epochal.wandb import files, watching
from epochal.wandb.artifacts import Artifact, ArtifactCalls
from epochal.wandb.errors import UsageError
from epochal.wandb.metric_definition import Metric, StepSync, define, write_row
from epochal.wandb.run_config import Config
from epochal.wandb.run_labels import RunLabels
from epochal.wandb.run_summary import Summary, SummaryValues
from epochal.wandb.settings import RENAMED, Settings

_LEVELS = {"INFO": "info", "WARN": "warning", "WARNING": "warning", "ERROR": "error"}


class Run(RunLabels, ArtifactCalls):
    """One run, with the calls and properties of ``wandb.Run``; a context manager."""

    def __init__(
        self,
        run: EpochalRun,
        settings: Settings,
        *,
        facts: Mapping[str, Any],
        starting_step: int = 0,
        allow_val_change: bool = False,
    ) -> None:
        super().__init__(run, facts)
        self.epochal, self._settings = run, settings
        # The number of the first row of this process: 0, or after the last one when resumed.
        self._row = self.starting_step = starting_step
        self._lock = threading.RLock()
        self.config = Config(run, allow_val_change=allow_val_change)
        self._summary_values = SummaryValues()
        self.summary = Summary(run, self._summary_values)
        self._saved = files.SavedFiles(run, Path(self.dir))
        self._watches = watching.Watches(run)
        self._teardown: list[Callable[[], None]] = []
        self._step_sync = StepSync()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: the run that its ``init`` joins or resumes."""
        from epochal.wandb.starting import rejoin

        return rejoin, (self.id, self.project, self._facts.get("dir"), self.disabled)

    def __repr__(self) -> str:
        return f"<wandb run {self.path} at {self._run.dir}>"

    @property
    def finished(self) -> bool:
        """Whether ``finish`` was called."""
        return self._run.state == "finished"

    @property
    def settings(self) -> Settings:
        """The settings that ``init`` was given, and what they came to."""
        known = {name: getattr(self, other) or None for name, other in RENAMED.items()}
        places = {"root_dir": self._facts.get("dir"), "sync_dir": self.sync_dir}
        self._settings.update(
            {**known, **places, "files_dir": self.dir},
            project=self.project,
            entity=self.entity or None,
            mode=self._facts.get("mode") or "offline",
        )
        return self._settings

    @property
    def step(self) -> int:
        """The number of the current row."""
        return self._row

    # -- recording --------------------------------------------------------------------------------

    def log(
        self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None
    ) -> None:
        """Record numbers, texts and media at a step, by default in the current row."""
        if not isinstance(data, Mapping):
            raise TypeError("wandb.log must be passed a dictionary")
        if any(not isinstance(key, str) for key in data):
            raise TypeError("Key values passed to `wandb.log` must be strings.")
        with self._lock:
            row = self._row if step is None else plain_int(step, name="step")
            try:
                is_plain = write_row(self._run, self._step_sync.complete(data), row)
            except RunFinishedError as error:
                raise UsageError(
                    f"Run ({self.id}) is finished. The call to `log` is not recorded: call"
                    " wandb.init() for another run."
                ) from error
            if not is_plain or self._summary_values.has_rules:
                self._summary_values.take(data)
            self._row = max(self._row, row)
            if commit or (step is None and commit is None):
                self._row += 1

    def define_metric(
        self,
        name: str,
        step_metric: str | Metric | None = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        *,
        goal: str | None = None,
        **ignored: Any,
    ) -> Metric:
        """Say what a metric is drawn against, and what of its values the summary has."""
        metric = Metric(
            name=name,
            step_metric=step_metric.name if isinstance(step_metric, Metric) else step_metric,
            step_sync=step_sync,
            hidden=hidden,
            summary=summary,
            goal=goal,
        )
        define(self._run, metric)
        self._step_sync.add(metric)
        self._summary_values.define(metric.name, metric.wanted)
        return metric

    def watch(
        self,
        models: Any,
        criterion: Any = None,
        log: str | None = "gradients",
        log_freq: int = 1000,
        *,
        log_graph: bool = False,
        **ignored: Any,
    ) -> None:
        """Record parameters and gradients of models every ``log_freq`` optimizer steps."""
        self._watches.add(models, log, log_freq, log_graph=log_graph)

    def unwatch(self, models: Any = None) -> None:
        """Stop watching models, by default all."""
        self._watches.remove(models)

    def alert(
        self,
        title: str,
        text: str,
        level: Any = None,
        wait_duration: float | timedelta | None = None,
    ) -> None:
        """Send a message to where findings are sent, and record it."""
        named = str(getattr(level, "value", level) or "INFO").upper()
        if named not in _LEVELS:
            raise ValueError("level must be one of 'INFO', 'WARN', or 'ERROR'")
        wait = wait_duration
        wait_s = wait.total_seconds() if isinstance(wait, timedelta) else float(wait or 60.0)
        self._run.alert(title, text, level=_LEVELS[named], wait_s=wait_s)

    def save(
        self,
        glob_str: str | os.PathLike[str] | None = None,
        base_path: str | os.PathLike[str] | None = None,
        policy: str = "live",
        glob: bool = True,
    ) -> bool | list[str]:
        """Copy files into the run's folder: now, and again when the run finishes."""
        if glob_str is None:
            return True
        return self._saved.add(glob_str, base_path, policy, is_pattern=glob)

    def restore(self, name: str, **ignored: Any) -> Any:
        """Open a file that was saved in this run; None where there is none."""
        return self._saved.open(name)

    def log_code(
        self,
        root: str | None = ".",
        name: str | None = None,
        include_fn: Callable[..., bool] | None = None,
        exclude_fn: Callable[..., bool] | None = None,
    ) -> None:
        """Copy the source files below a folder into the run's folder."""
        self._saved.add_code(root or ".", include_fn, exclude_fn)

    def mark_preempting(self) -> None:
        """Record that the machine is about to be taken away."""
        self._run.event("preempting")

    def _repr_html_(self) -> str:
        return self._run._repr_html_()

    # -- the end ----------------------------------------------------------------------------------

    def on_teardown(self, call: Callable[[], None]) -> None:
        """Have something called when the run finishes, before its last record."""
        self._teardown.append(call)

    def finish(self, exit_code: int | None = None, **ignored: Any) -> None:
        """End the run: finished, or failed with an exit code that is not 0."""
        if self._run.state == "finished":
            return
        self._end()
        if exit_code:
            self._run.finish("failed", reason=f"exit code {exit_code}")
        else:
            self._run.finish()

    join = finish

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._run.__exit__(kind, error, trace)

    def _end(self) -> None:
        calls, self._teardown = self._teardown, []
        for call in calls:
            call()
        self._watches.remove(None)
        self._saved.copy_again()
        for name, parts in self._summary_values.aggregates().items():
            self._run.summary.update({f"{name}.{part}": value for part, value in parts.items()})


__all__ = ["Artifact", "Run"]
