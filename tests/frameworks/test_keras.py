"""A real Keras model (torch backend) is fitted, evaluated, resumed from a file, and crashes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["KERAS_BACKEND"] = "torch"
import keras

import epochal
from epochal.errors import UsageError
from epochal.integrations.keras import EpochalCallback
from tests.frameworks.reading import config, points, run_folders, script, status

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = X.sum(1, keepdims=True)


def model() -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    made.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
    return made


def fit(made: Any, *callbacks: Any, **options: Any) -> Any:
    given = {"epochs": 3, "batch_size": 16, "verbose": 0, "validation_split": 0.5, **options}
    return made.fit(X, Y, callbacks=list(callbacks), **given)


def test_the_run_has_what_keras_says(runs: Path) -> None:
    history = fit(model(), EpochalCallback(name="dense")).history
    (folder,) = run_folders(runs)
    steps = [2, 4, 6]
    for ours, theirs in {"train/loss": "loss", "val/mae": "val_mae"}.items():
        assert points(folder, ours) == dict(zip(steps, history[theirs], strict=True))
    told = config(folder)
    assert (told["loss"], told["epochs"]) == ("mse", 3)
    assert told["optimizer"]["learning_rate"] == pytest.approx(0.01)
    assert status(folder) == "finished"


def test_batches_are_recorded_when_asked_for(runs: Path) -> None:
    fit(model(), EpochalCallback(update_freq="batch"), validation_split=0.0)
    (folder,) = run_folders(runs)
    assert list(points(folder, "batch/loss")) == list(range(1, 13))
    with pytest.raises(UsageError, match="update_freq"):
        EpochalCallback(update_freq="never")


def test_an_evaluation_after_fit_is_part_of_the_run(runs: Path) -> None:
    made, callback = model(), EpochalCallback()
    fit(made, callback)
    loss, _ = made.evaluate(X, Y, callbacks=[callback], verbose=0)
    (folder,) = run_folders(runs)
    assert points(folder, "test/loss") == {6: loss}
    assert len(points(folder, "train/loss")) == 3


def test_a_saved_model_continues_its_run(runs: Path, tmp_path: Path) -> None:
    made = model()
    fit(made, EpochalCallback(name="dense"))
    made.save(tmp_path / "dense.keras")
    again = keras.models.load_model(tmp_path / "dense.keras")
    fit(again, EpochalCallback(name="dense", resume="allow"), epochs=2)
    (folder,) = run_folders(runs)
    assert list(points(folder, "train/loss")) == [2, 4, 6, 8, 10]


def test_nan_is_shown(runs: Path) -> None:
    made = model()
    made.fit(X, Y * np.nan, epochs=1, verbose=0, callbacks=[EpochalCallback()])
    (folder,) = run_folders(runs)
    assert np.isnan(list(points(folder, "train/loss").values())).all()


def test_an_open_run_is_used(runs: Path) -> None:
    with epochal.init(name="mine"):
        fit(model(), EpochalCallback())
    assert len(points(run_folders(runs)[0], "train/loss")) == 3


def test_a_crash_makes_the_run_failed(runs: Path) -> None:
    script(
        """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy as np
from epochal.integrations.keras import EpochalCallback
class Broken(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise RuntimeError("no power")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(loss="mse")
x = np.random.rand(8, 2)
model.fit(x, x[:, :1], epochs=5, verbose=0, callbacks=[EpochalCallback(), Broken()])
""",
        fails=True,
    )
    (folder,) = run_folders(runs)
    assert status(folder) == "failed"
    assert len(points(folder, "train/loss")) == 2
