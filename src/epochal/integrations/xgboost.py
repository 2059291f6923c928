"""Records trainings of XGBoost: ``xgboost.train(..., callbacks=[EpochalCallback()])``.

Also for ``xgboost.cv`` and the estimators of scikit-learn's style.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epochal.exchange.imports.values import number_of_text
from epochal.integrations.framework import TrainingRun, callback, require
from epochal.run.run import Run

require("xgboost", "epochal.integrations.xgboost")

from xgboost import Booster  # noqa: E402 (missing: one sentence, above)
from xgboost.callback import TrainingCallback  # noqa: E402

_MAX_FEATURES = 1000


class EpochalCallback(TrainingCallback):  # type: ignore[misc]
    """Records each round's evaluations as ``<data>/<metric>``, the parameters and the best round.

    Writes to ``run``, or to the run that is open. Otherwise it starts one for each training, with
    ``options``, the arguments of ``init``.
    """

    def __init__(self, run: Run | None = None, **options: Any) -> None:
        super().__init__()
        self._training = TrainingRun(run, options)
        self._first, self._num_recorded = 0, 0
        self._history: Mapping[str, Any] = {}

    def before_training(self, model: Any) -> Any:
        """Open the run and record the parameters."""
        self._begin(model)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        """Remember where the evaluations are kept."""
        self._history = evals_log
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        """Record the newest values."""
        self._record_rounds()
        return False

    def after_training(self, model: Any) -> Any:
        """Record the best round and what the features contribute, and finish an own run."""
        self._end(model)
        return model

    @callback
    def _begin(self, model: Any) -> None:
        # A model that is trained further has rounds already; XGBoost counts from 0 again.
        self._first = model.num_boosted_rounds()
        self._num_recorded, self._history = 0, {}
        self._training.begin(_parameters(model))

    @callback
    def _end(self, model: Any) -> None:
        self._record_rounds()  # XGBoost does not tell the callbacks after early stopping of a round
        run = self._training.opened()
        if isinstance(model, Booster):
            best = model.attr("best_iteration")
            if best is not None:
                score = float(model.attr("best_score") or "nan")
                run.event("best-iteration", at_step=int(best), score=score)
            gains = _gains(model)
            if gains:
                run.event("feature-importance", kind="gain", features=gains)
        self._training.end()

    @callback
    def _record_rounds(self) -> None:
        """Record rounds that are evaluated and not recorded; of ``cv`` means and deviations."""
        run, rounds = self._training.opened(), dict[int, dict[str, float]]()
        for data, metrics in self._history.items():
            for metric, values in metrics.items():
                name = f"{data}/{metric}"
                for index in range(self._num_recorded, len(values)):
                    row, value = rounds.setdefault(index, {}), values[index]
                    if isinstance(value, tuple):
                        row[name], row[f"{name}_std"] = value
                    else:
                        row[name] = value
        for index, row in sorted(rounds.items()):
            run.log(row, step=self._first + index)
            self._num_recorded = index + 1


def _gains(model: Booster) -> dict[str, float]:
    try:
        found = model.get_score(importance_type="gain")
    except ValueError:  # linear models have none
        return {}
    ranked = sorted(found.items(), key=lambda item: -item[1])
    return dict(ranked[:_MAX_FEATURES])


def _parameters(model: Any) -> dict[str, Any]:
    """The parameters that the model says it has; those of a fold for ``cv``."""
    booster = model if isinstance(model, Booster) else model.cvfolds[0].bst
    learner = json.loads(booster.save_config()).get("learner", {})
    found: dict[str, Any] = {}
    _collect(learner, found)
    return found


def _collect(part: Mapping[str, Any], found: dict[str, Any]) -> None:
    """The leaves below every ``…_param``; XGBoost writes numbers as texts."""
    for name, value in part.items():
        if not isinstance(value, Mapping):
            continue
        if name.endswith("_param"):
            found.update({key: _plain(text) for key, text in value.items()})
        else:
            _collect(value, found)
    objective = part.get("objective")
    if isinstance(objective, Mapping) and "name" in objective:
        found["objective"] = objective["name"]


def _plain(text: Any) -> Any:
    number = number_of_text(text)
    return text if number is None else number
