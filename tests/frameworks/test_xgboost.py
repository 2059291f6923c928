"""Real boosters are trained, trained further, cross-validated, stopped early, and crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import epochal
from epochal.integrations.xgboost import EpochalCallback
from tests.frameworks.reading import config, points, records, run_folders, script, status


def data(seed: int = 0) -> xgb.DMatrix:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(200, 4))
    return xgb.DMatrix(features, label=(features[:, 0] > 0).astype(int))


PARAMS = {"objective": "binary:logistic", "eta": 0.25, "max_depth": 2, "eval_metric": "logloss"}


def train(rounds: int, callbacks: list[Any], **options: Any) -> tuple[xgb.Booster, dict[str, Any]]:
    history: dict[str, Any] = {}
    evals = [(data(), "train"), (data(1), "eval")]
    booster = xgb.train(
        PARAMS,
        data(),
        rounds,
        evals=evals,
        evals_result=history,
        callbacks=callbacks,
        verbose_eval=False,
        **options,
    )
    return booster, history


def test_the_run_has_what_xgboost_says(runs: Path) -> None:
    _, history = train(8, [EpochalCallback(name="trees")])
    (folder,) = run_folders(runs)
    for name in ("train", "eval"):
        found = points(folder, f"{name}/logloss")
        assert found == dict(enumerate(history[name]["logloss"]))
    told = config(folder)
    assert (told["objective"], told["eta"], told["max_depth"]) == ("binary:logistic", 0.25, 2)
    assert any(r.get("name") == "feature-importance" for r in records(folder))
    assert status(folder) == "finished"


def test_a_model_that_is_trained_further_continues_its_run(runs: Path) -> None:
    options: dict[str, Any] = {"name": "trees", "resume": "allow"}
    booster, first = train(4, [EpochalCallback(**options)])
    _, second = train(3, [EpochalCallback(**options)], xgb_model=booster)
    (folder,) = run_folders(runs)
    values = first["eval"]["logloss"] + second["eval"]["logloss"]
    assert points(folder, "eval/logloss") == dict(enumerate(values))


def test_cross_validation_gives_means_and_deviations(runs: Path) -> None:
    table = xgb.cv(PARAMS, data(), 5, nfold=3, callbacks=[EpochalCallback()], as_pandas=False)
    (folder,) = run_folders(runs)
    assert list(points(folder, "test/logloss").values()) == table["test-logloss-mean"]
    assert list(points(folder, "test/logloss_std").values()) == table["test-logloss-std"]


@pytest.mark.parametrize("is_first", [True, False])
def test_early_stopping_and_estimators(runs: Path, is_first: bool) -> None:
    pytest.importorskip("sklearn")
    features = np.random.default_rng(0).normal(size=(200, 4))
    labels = (features[:, 0] > 0).astype(int)
    stop = xgb.callback.EarlyStopping(rounds=2)
    callbacks = [EpochalCallback(), stop] if is_first else [stop, EpochalCallback()]
    model = xgb.XGBClassifier(n_estimators=300, callbacks=callbacks)
    model.fit(features, labels, eval_set=[(features, 1 - labels)], verbose=False)
    (folder,) = run_folders(runs)
    (best,) = [r for r in records(folder) if r.get("name") == "best-iteration"]
    assert best["at_step"] == model.best_iteration
    assert len(points(folder, "validation_0/logloss")) == model.best_iteration + 3


def test_an_open_run_gets_several_trainings(runs: Path) -> None:
    with epochal.init(name="mine"):
        train(2, [EpochalCallback()])
    (folder,) = run_folders(runs)
    assert len(points(folder, "eval/logloss")) == 2


def test_a_training_after_one_that_failed_has_a_run_of_its_own(runs: Path) -> None:
    class Broken(xgb.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            raise RuntimeError("no power")

    callback = EpochalCallback(name="a")
    with pytest.raises(RuntimeError, match="no power"):
        train(3, [callback, Broken()])
    train(3, [callback])
    assert [status(folder) for folder in run_folders(runs)] == ["failed", "finished"]


def test_a_crash_makes_the_run_failed(runs: Path) -> None:
    script(
        """
import numpy as np, xgboost as xgb
from epochal.integrations.xgboost import EpochalCallback
class Broken(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        if epoch == 2:
            raise RuntimeError("no power")
data = xgb.DMatrix(np.random.rand(50, 2), label=np.random.rand(50))
xgb.train({}, data, 9, evals=[(data, "train")], callbacks=[EpochalCallback(), Broken()])
""",
        fails=True,
    )
    (folder,) = run_folders(runs)
    assert status(folder) == "failed"
    assert list(points(folder, "train/rmse")) == [0, 1, 2]
