"""``wandb.Run``: what ``wandb.init`` returns, over an Epochal run.

``log`` numbers rows as W&B does: a call without ``step`` writes the current row and begins the next
one unless ``commit=False``; a ``step`` moves the current row forward. A lower step is recorded
where it belongs. Nothing waits for a row to be complete: every call is in the journal when it
returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from epochal.errors import EpochalError, RunFinishedError
from epochal.journal.layout import read_json
from epochal.records.values import plain_int
from epochal.run.provenance import user_name
from epochal.run.run import Run as EpochalRun
from epochal.run.run import recorder_of
from epochal.wandb.errors import UsageError
from epochal.wandb.files import ArtifactCalls, SavedFiles
from epochal.wandb.metrics import (
    Config,
    Metric,
    StepSync,
    Summary,
    SummaryValues,
    define,
    write_row,
)
from epochal.wandb.notices import ExplainsMissingMembers
from epochal.wandb.settings import RENAMED, Settings

_LEVELS = {"INFO": "info", "WARN": "warning", "WARNING": "warning", "ERROR": "error"}


class Run(ExplainsMissingMembers, ArtifactCalls):
    """One run, with the calls and properties of ``wandb.Run``; a context manager."""

    def __init__(
        self,
        run: EpochalRun,
        settings: Settings,
        facts: Mapping[str, Any],
        starting_step: int = 0,
        *,
        rejoin: Callable[..., Run],
    ) -> None:
        recorder, self._rejoin = recorder_of(run), rejoin
        self._run, self._facts = run, dict(facts)
        self.id, self.project, self.sync_dir = run.id, run.project, str(run.dir)
        # These are empty when they were not given.
        self.entity, self.group, self.job_type = (
            str(facts.get(name) or "") for name in ("entity", "group", "job_type")
        )
        self.sweep_id: str | None = facts.get("sweep_id")
        self.path = "/".join(part for part in (self.entity, self.project, self.id) if part)
        self.start_time = float(recorder.identity.get("created") or 0.0)  # in Unix seconds
        self.resumed = run.attempt > 1
        self.offline = recorder.is_recorded
        self.disabled = not self.offline
        self.epochal, self._settings = run, settings
        # The number of the first row of this process: 0, or after the last one when resumed.
        self._row = self.starting_step = starting_step
        self._lock = threading.RLock()
        self.config = Config(run, allow_val_change=bool(facts.get("allow_val_change")))
        self._summary_values = SummaryValues()
        self.summary = Summary(run, self._summary_values)
        self._saved = SavedFiles(run, Path(self.dir))
        self._watched: list[tuple[Any, Any]] = []
        self._teardown: list[Callable[[], None]] = []
        self._step_sync = StepSync()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: the run that its ``init`` joins or resumes."""
        return self._rejoin, (self.id, self.project, self._facts.get("dir"), self.disabled)

    def __repr__(self) -> str:
        return f"<wandb run {self.path} at {self._run.dir}>"

    @property
    def finished(self) -> bool:
        """Whether the run has ended; not if it only ended because Python did."""
        is_over = self._run.state == "finished"
        return is_over and not recorder_of(self._run).ending.is_ended_by_exit

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

    @property
    def name(self) -> str:
        """The run's name; can be set."""
        return str(self._facts.get("name") or self._run.name)

    @name.setter
    def name(self, name: str) -> None:
        self._set_label(name=str(name))

    @property
    def notes(self) -> str | None:
        """Notes on the run; can be set."""
        return self._facts.get("notes")

    @notes.setter
    def notes(self, notes: str) -> None:
        self._set_label(notes=str(notes))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the run; can be set."""
        return tuple(self._facts.get("tags") or ())

    @tags.setter
    def tags(self, tags: Sequence[str]) -> None:
        self._set_label(tags=tuple(str(tag) for tag in tags))

    @property
    def dir(self) -> str:
        """The folder for files of the run, which programs may write into."""
        folder = Path(self._run.dir) / "files"
        if recorder_of(self._run).is_recorded:
            folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    @property
    def url(self) -> str | None:
        """The address of the run's page, if it is served; ``epochal ui`` serves all runs."""
        return recorder_of(self._run).page_url

    def get_url(self) -> str | None:
        """The address of the run's page, as ``url``."""
        return self.url

    get_project_url = get_sweep_url = get_url

    def _label(self, *args: Any, **options: Any) -> None:
        """Accept what frameworks tell W&B about themselves, and wishes to show its page."""

    display = _label

    def _set_label(self, **changes: Any) -> None:
        """Write labels.json, the file of what people change later."""
        from epochal.journal.labels import edit_labels

        self._facts.update(changes)
        recorder = recorder_of(self._run)
        if not recorder.is_recorded or recorder.rank != 0:
            return
        try:
            edit_labels(recorder.folder, lambda labels: replace(labels, **changes))
        except (OSError, EpochalError) as error:
            recorder.console.notice(f"the labels of the run could not be written: {error}")

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
                whole = self._step_sync.complete(data)
                is_plain = write_row(self._run, whole, self._step_sync.step_of(whole, row))
            except RunFinishedError as error:
                raise UsageError(
                    f"Run ({self.id}) is finished. The call to `log` is not recorded: call"
                    " wandb.init() for another run."
                ) from error
            if not is_plain or self._summary_values.rules:
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
        x = step_metric.name if isinstance(step_metric, Metric) else step_metric
        metric = Metric(name, x, step_sync, summary, goal)
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
        **ignored: Any,
    ) -> None:
        """Record parameters and gradients of models every ``log_freq`` optimizer steps."""
        from epochal.torch.watching import watch

        if log not in (None, "gradients", "parameters", "all"):
            raise ValueError("log must be 'gradients', 'parameters', 'all' or None")
        listed = models if isinstance(models, (list, tuple)) else [models]
        for model in listed:
            if not hasattr(model, "named_parameters"):
                raise TypeError(f"Expected a pytorch model, an nn.Module. Received {type(model)}")
        is_all = log in ("gradients", "all")
        for model in listed if log is not None and not self.disabled else ():
            watched = watch(model, self._run, every=log_freq, gradients=is_all, updates=False)
            self._watched.append((model, watched))

    def unwatch(self, models: Any = None) -> None:
        """Stop watching models, by default all."""
        listed = models if isinstance(models, (list, tuple)) else [models]
        before, self._watched = self._watched, []
        for model, watched in before:
            if models is None or any(model is one for one in listed):
                watched.remove()
            else:
                self._watched.append((model, watched))

    def alert(
        self, title: str, text: str, level: Any = None, wait_duration: float | timedelta = 60.0
    ) -> None:
        """Send a message to where findings are sent, and record it."""
        named = str(getattr(level, "value", level) or "INFO").upper()
        if named not in _LEVELS:
            raise ValueError("level must be one of 'INFO', 'WARN', or 'ERROR'")
        wait = wait_duration
        wait_s = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
        self._run.alert(title, text, level=_LEVELS[named], wait_s=wait_s)

    def save(
        self, glob_str: Any = None, base_path: Any = None, policy: str = "live", glob: bool = True
    ) -> bool | list[str]:
        """Copy files into the run's folder: now, and again when the run finishes."""
        if glob_str is None:
            return True
        return self._saved.add(glob_str, base_path, policy, glob)

    def restore(self, name: str, **ignored: Any) -> Any:
        """Open a file that was saved in this run; None where there is none."""
        return self._saved.open(name)

    def log_code(
        self,
        root: str | None = ".",
        name: Any = None,
        include_fn: Any = None,
        exclude_fn: Any = None,
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
        if self._run.state != "finished":
            self._end()
        if exit_code:
            self._run.finish("failed", reason=f"exit code {exit_code}")
        else:
            self._run.finish()

    join = finish

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._end()
        self._run.__exit__(kind, error, trace)

    def _end(self) -> None:
        calls, self._teardown = self._teardown, []
        for call in calls:
            call()
        self.unwatch()
        self._saved.copy_again()
        for name, parts in self._summary_values.aggregates().items():
            self._run.summary.update({f"{name}.{part}": value for part, value in parts.items()})


def facts_of_resumed(run: EpochalRun) -> dict[str, Any]:
    """What a run that is resumed was called before: name, tags, notes, group, job type, entity."""
    recorder = recorder_of(run)
    if run.attempt < 2 or not recorder.is_recorded:
        return {}
    from epochal.journal.labels import read_labels

    told = read_json(recorder.folder.identity)
    known = {key: told.get(key) for key in ("name", "tags", "notes", "group", "job_type")}
    if told.get("owner") != user_name():  # without an entity the owner is the user
        known["entity"] = told.get("owner")
    try:
        labels = read_labels(recorder.folder)
    except EpochalError:  # damaged: readers report that
        return known
    changed = {"name": labels.name, "tags": labels.tags, "notes": labels.notes}
    return {**known, **{key: value for key, value in changed.items() if value is not None}}
