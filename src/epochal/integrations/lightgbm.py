"""Records trainings of LightGBM: ``lightgbm.train(..., callbacks=[EpochalCallback()])``.

Also for ``lightgbm.cv`` and the estimators of scikit-learn's style.
"""

from __future__ import annotations

from typing import Any

from epochal.integrations.framework import TrainingRun, callback, require
from epochal.records.values import plain_json
from epochal.run.run import Run

require("lightgbm", "epochal.integrations.lightgbm")

from lightgbm import Booster  # noqa: E402 (missing: one sentence, above)
from lightgbm.callback import CallbackEnv  # noqa: E402

_MAX_FEATURES = 1000


class EpochalCallback:
    """Records each round's evaluations as ``<data>/<metric>`` and the parameters.

    Writes to ``run``, or to the run that is open. Otherwise it starts one for each training, with
    ``options``, the arguments of ``init``. LightGBM does not say that early stopping ended a
    training: then the run ends with :meth:`finish`, the next training or the process.
    """

    # After the evaluations are recorded by LightGBM's own (20), before early stopping raises (30).
    order = 25
    before_iteration = False

    def __init__(self, run: Run | None = None, **options: Any) -> None:
        self._training = TrainingRun(run, options, says_end=False)

    @callback
    def __call__(self, env: CallbackEnv) -> None:
        """Record the values of a round."""
        if env.iteration == env.begin_iteration:
            self._training.begin(plain_json(env.params), total_steps=env.end_iteration)
        values: dict[str, float] = {}
        for result in env.evaluation_result_list or ():
            data, metric, value, _, *deviation = result
            values[f"{data}/{metric}"] = value
            if deviation:
                values[f"{data}/{metric}_std"] = deviation[0]
        self._training.opened().log(values, step=env.iteration)
        if env.iteration + 1 == env.end_iteration:
            self.finish(env.model)

    @callback
    def finish(self, model: Any = None) -> None:
        """Record what the features of a model contribute, and finish an own run."""
        run = self._training.run
        if isinstance(model, Booster) and run is not None and run.state != "finished":
            gains = model.feature_importance(importance_type="gain").tolist()
            ranked = sorted(zip(model.feature_name(), gains, strict=True), key=lambda one: -one[1])
            shown = {name: gain for name, gain in ranked[:_MAX_FEATURES] if gain > 0}
            run.event("feature-importance", kind="gain", features=shown)
        self._training.end()
