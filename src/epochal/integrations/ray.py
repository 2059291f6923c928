"""Records the trials of Ray Tune: ``tune.RunConfig(callbacks=[EpochalCallback()])``.

Each trial is a run of its own. A training function of Ray Train calls ``epochal.init`` itself.
"""

from __future__ import annotations

import os
from typing import Any

from epochal.exchange.media.types import sample_of
from epochal.integrations.framework import callback, open_run, options_to_resume, place_of, require
from epochal.run.run import Run, recorder_of
from epochal.settings import read_settings

require("ray", "epochal.integrations.ray")

from ray.tune.logger import LoggerCallback  # noqa: E402 (missing: one sentence, above)

# What Tune adds to each result that is not a result.
_OWN = frozenset({"config", "trial_id", "date", "timestamp", "pid", "hostname", "node_ip", "done"})


class EpochalCallback(LoggerCallback):  # type: ignore[misc]
    """Records every result of every trial, at the trial's iteration.

    ``options`` are the arguments of ``init``. The project is by default the name of the experiment,
    and runs have the names of the trials. A trial that is restored continues its run.
    """

    def __init__(self, **options: Any) -> None:
        # Tune works in folders of its own.
        folder = os.path.abspath(options.pop("dir", None) or read_settings().dir)
        self._options = {**options, "dir": folder}
        self._runs: dict[str, Run] = {}
        self._places: dict[str, dict[str, str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the runs that are open: Tune writes its callbacks to disk."""
        return {**self.__dict__, "_runs": {}}

    def get_state(self) -> dict[str, Any]:
        """Where the runs of the trials are; Tune keeps it with the experiment."""
        return {"places": self._places}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` gave, in an experiment that is restored."""
        self._places = dict(state["places"])

    @callback
    def log_trial_start(self, trial: Any) -> None:
        """Open the run of a trial."""
        if trial.trial_id not in self._runs:
            known = options_to_resume(self._places.get(trial.trial_id)) or {}
            run = open_run(
                {**self._options, **known},
                project=trial.storage.experiment_dir_name,
                name=str(trial),
                config=dict(trial.config),
            )
            if known:
                recorder_of(run).end_resuming()
            self._runs[trial.trial_id] = run
            self._places[trial.trial_id] = place_of(run)

    @callback
    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Record the numbers and samples of a result; nested names are joined with dots."""
        self.log_trial_start(trial)
        kept = {
            name: value
            for name, value in result.items()
            if name not in _OWN and (_has_numbers(value) or sample_of(value) is not None)
        }
        self._runs[trial.trial_id].log(kept, step=int(result.get("training_iteration", iteration)))

    @callback
    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Finish the run of a trial."""
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.finish("failed" if failed else "finished")


def _has_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_numbers, value.values()))
    return isinstance(value, (bool, int, float)) or hasattr(value, "item")
