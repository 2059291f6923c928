"""Records a study of Optuna.

``study.optimize(objective, callbacks=[EpochalCallback()])`` writes one run: a step is a trial.
:func:`import_study` copies a study that exists already: a run is a trial.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epochal.imports.copying import Copied, copy_run
from epochal.imports.foreign import Batch, Identity, Points, empty_points, stable_id
from epochal.integrations.framework import TrainingRun, callback, require
from epochal.records import Record
from epochal.run.run import Run, recorder_of
from epochal.settings import read_settings

require("optuna", "epochal.integrations.optuna", tested="5.")

from optuna.study import Study  # noqa: E402 (missing: one sentence, above)
from optuna.trial import FrozenTrial, TrialState  # noqa: E402

_STATUS = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "terminated",
    TrialState.FAIL: "failed",
}


class EpochalCallback:
    """Records every trial of a study: its values, the best one so far, its parameters.

    Writes to ``run``, or to the run that is open. Otherwise it starts one with ``options``, the
    arguments of ``init``; a study that is continued continues the run of its name.
    """

    def __init__(self, run: Run | None = None, **options: Any) -> None:
        self._training = TrainingRun(run, {"resume": "allow", **options}, says_end=False)
        self._lock = threading.Lock()  # `n_jobs` calls from several threads
        self._run: Run | None = None

    @callback
    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """Record a trial that has ended."""
        run = self._opened(study)
        names = _objectives(study)
        found = dict(zip(names, trial.values or (), strict=False))
        best: dict[str, float] = {}
        if len(names) == 1 and study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            best[f"best/{names[0]}"] = study.best_value
        params = {f"params/{name}": value for name, value in trial.params.items()}
        numbers = {n: v for n, v in params.items() if isinstance(v, (int, float))}
        seconds = {} if trial.duration is None else {"duration_s": trial.duration.total_seconds()}
        run.log({**found, **best, **numbers, **seconds}, step=trial.number)
        for name, value in params.items():
            if name not in numbers:
                run.log_text(name, str(value), trial.number)
        if trial.state != TrialState.COMPLETE:
            run.event(f"trial-{trial.state.name.lower()}", step=trial.number)

    @callback
    def finish(self) -> None:
        """Finish the run, if the callback started it; it also ends with the process."""
        self._training.end()

    def _opened(self, study: Study) -> Run:
        with self._lock:
            if self._run is None or self._run.finished:
                config = {"directions": [d.name.lower() for d in study.directions]}
                kinds = {
                    "sampler": type(study.sampler).__name__,
                    "pruner": type(study.pruner).__name__,
                }
                self._run = self._training.begin({**config, **kinds}, name=study.study_name)
                # Trials of a continued study are new steps; they hide nothing.
                recorder_of(self._run).end_resuming()
                for name, direction in zip(_objectives(study), study.directions, strict=True):
                    self._run.define(name, goal="min" if direction.name == "MINIMIZE" else "max")
            return self._run


def import_study(
    study: Study,
    *,
    dir: str | Path | None = None,  # noqa: A002 (as in init)
    project: str | None = None,
) -> list[Copied]:
    """Copy the trials of a study as runs of a project; again copies only what changed.

    The parameters of a trial are the configuration of its run, and its reported values a series.
    Trials that wait or still run are left out.
    """
    root = Path(dir) if dir is not None else Path(read_settings().dir)
    source = _StudySource(study)
    return [copy_run(source, run, root=root, project=project) for run in source.runs()]


class _StudySource:
    label = "Optuna"

    def __init__(self, study: Study) -> None:
        self.path = f"optuna:{study.study_name}"
        self._study = study

    def runs(self) -> Sequence[_TrialRun]:
        names = _objectives(self._study)
        trials = self._study.get_trials(deepcopy=False, states=tuple(_STATUS))
        return [_TrialRun(self.path, self._study.study_name, names, trial) for trial in trials]


class _TrialRun:
    def __init__(
        self, path: str, study: str, objectives: Sequence[str], trial: FrozenTrial
    ) -> None:
        self.path, self.key = path, str(trial.number)
        self.problems: list[str] = []
        self._trial = trial
        self._objectives = objectives
        start = trial.datetime_start
        self.identity = Identity(
            id=stable_id("optuna", study, start, trial.number),
            name=f"trial-{trial.number}",
            project=study,
            created=None if start is None else start.timestamp(),
            config=dict(trial.params),
            facts={"optuna": {**trial.user_attrs, "trial": trial.number}},
        )

    def signature(self) -> object:
        trial = self._trial
        return [
            trial.state.name,
            stable_id(trial.values, sorted(trial.intermediate_values.items())),
        ]

    def read_new(self) -> Iterator[Batch]:
        trial = self._trial
        start = self.identity.created or 0.0
        end = trial.datetime_complete
        ended = start if end is None else end.timestamp()
        steps = sorted(trial.intermediate_values)
        if steps:
            yield Batch(
                Points(
                    (self._objectives[0],),
                    np.zeros(len(steps), dtype=np.int32),
                    np.array(steps, dtype=np.int64),
                    np.linspace(start, ended, len(steps)),  # Optuna keeps no times of them
                    np.array([trial.intermediate_values[s] for s in steps], dtype=np.float64),
                )
            )
        last = steps[-1] if steps else 0
        finals = zip(self._objectives, trial.values or (), strict=False)
        values = {f"final/{name}": value for name, value in finals}
        records: list[Record] = []
        if values:
            records.append({"log": "metrics", "t": ended, "step": last, "m": values})
        records.append({"log": "finish", "t": ended, "status": _STATUS[trial.state]})
        yield Batch(empty_points(), records)

    def blob(self, file: str) -> bytes:
        raise KeyError(file)


def _objectives(study: Study) -> Sequence[str]:
    num = len(study.directions)
    plain = ["value"] if num == 1 else [f"value_{index}" for index in range(num)]
    return study.metric_names or plain
