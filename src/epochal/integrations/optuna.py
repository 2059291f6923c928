"""Records a study of Optuna.

``study.optimize(objective, callbacks=[EpochalCallback()])`` writes one run: a step is a trial.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from epochal.integrations.framework import TrainingRun, callback, require
from epochal.run.run import Run, recorder_of

require("optuna", "epochal.integrations.optuna")

from optuna.study import Study  # noqa: E402 (missing: one sentence, above)
from optuna.trial import FrozenTrial, TrialState  # noqa: E402


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
        params = {n: v if isinstance(v, (int, float)) else str(v) for n, v in params.items()}
        seconds = {} if trial.duration is None else {"duration_s": trial.duration.total_seconds()}
        run.log({**found, **best, **params, **seconds}, step=trial.number)
        if trial.state != TrialState.COMPLETE:
            run.event(f"trial-{trial.state.name.lower()}", step=trial.number)

    @callback
    def finish(self) -> None:
        """Finish the run, if the callback started it; it also ends with the process."""
        self._training.end()

    def _opened(self, study: Study) -> Run:
        with self._lock:
            if self._run is None or self._run.state == "finished":
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


def _objectives(study: Study) -> Sequence[str]:
    num = len(study.directions)
    plain = ["value"] if num == 1 else [f"value_{index}" for index in range(num)]
    return study.metric_names or plain
