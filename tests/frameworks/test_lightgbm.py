"""Real boosters are trained, trained further, cross-validated, stopped early, and crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from epochal.integrations.lightgbm import EpochalCallback
from tests.frameworks.reading import config, points, records, run_folders, script, status

FEATURES = np.random.default_rng(0).normal(size=(300, 4))
LABELS = (FEATURES[:, 0] + 0.3 * FEATURES[:, 1] > 0).astype(int)
PARAMS = {"objective": "binary", "learning_rate": 0.2, "verbose": -1, "metric": "binary_logloss"}


def train(rounds: int, callbacks: list[Any], **options: Any) -> tuple[lgb.Booster, dict[str, Any]]:
    history: dict[str, Any] = {}
    train_set = lgb.Dataset(FEATURES[:200], LABELS[:200])
    booster = lgb.train(
        PARAMS,
        train_set,
        rounds,
        valid_sets=[lgb.Dataset(FEATURES[200:], LABELS[200:], reference=train_set)],
        valid_names=["valid"],
        callbacks=[lgb.record_evaluation(history), *callbacks],
        **options,
    )
    return booster, history


def test_the_run_has_what_lightgbm_says(runs: Path) -> None:
    _, history = train(8, [EpochalCallback(name="trees")])
    (folder,) = run_folders(runs)
    values = history["valid"]["binary_logloss"]
    assert points(folder, "valid/binary_logloss") == dict(enumerate(values))
    assert config(folder)["learning_rate"] == 0.2
    assert any(r.get("name") == "feature-importance" for r in records(folder))
    assert status(folder) == "finished"


def test_a_model_that_is_trained_further_continues_its_run(runs: Path) -> None:
    options: dict[str, Any] = {"name": "trees", "resume": "allow"}
    booster, first = train(4, [EpochalCallback(**options)])
    _, second = train(3, [EpochalCallback(**options)], init_model=booster)
    (folder,) = run_folders(runs)
    values = first["valid"]["binary_logloss"] + second["valid"]["binary_logloss"]
    assert points(folder, "valid/binary_logloss") == dict(enumerate(values))


def test_cross_validation_gives_means_and_deviations(runs: Path) -> None:
    table = lgb.cv(PARAMS, lgb.Dataset(FEATURES, LABELS), 5, nfold=3, callbacks=[EpochalCallback()])
    (folder,) = run_folders(runs)
    found = list(points(folder, "valid/binary_logloss").values())
    assert found == table["valid binary_logloss-mean"]
    deviations = list(points(folder, "valid/binary_logloss_std").values())
    assert deviations == table["valid binary_logloss-stdv"]


def test_early_stopping_ends_with_the_next_training_or_finish(runs: Path) -> None:
    callback = EpochalCallback()
    booster, history = train(500, [lgb.early_stopping(2, verbose=False), callback])
    callback.finish(booster)
    (folder,) = run_folders(runs)
    assert status(folder) == "finished"
    assert len(points(folder, "valid/binary_logloss")) == len(history["valid"]["binary_logloss"])


def test_estimators_take_it_too(runs: Path) -> None:
    pytest.importorskip("sklearn")
    model = lgb.LGBMClassifier(n_estimators=4, verbose=-1)
    model.fit(FEATURES, LABELS, eval_X=FEATURES, eval_y=LABELS, callbacks=[EpochalCallback()])
    (folder,) = run_folders(runs)
    assert len(metric_names(folder)) == 1


def metric_names(folder: Path) -> list[str]:
    return sorted({name for r in records(folder) for name in r.get("m", {})})


def test_a_crash_makes_the_run_failed(runs: Path) -> None:
    script(
        """
import numpy as np, lightgbm as lgb
from epochal.integrations.lightgbm import EpochalCallback
def broken(env):
    if env.iteration == 2:
        raise RuntimeError("no power")
broken.order = 40
data = lgb.Dataset(np.random.rand(50, 2), np.random.rand(50))
lgb.train({"verbose": -1}, data, 9, valid_sets=[data], valid_names=["train"],
          callbacks=[EpochalCallback(), broken])
""",
        fails=True,
    )
    (folder,) = run_folders(runs)
    assert status(folder) == "failed"
    assert list(points(folder, "train/l2")) == [0, 1, 2]
