"""A real study is optimised, pruned, continued, crashes, and is imported."""

from __future__ import annotations

from pathlib import Path

import optuna

import epochal
from epochal.integrations.optuna import EpochalCallback
from tests.frameworks.reading import config, points, records, run_folders, script, status

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial: optuna.Trial) -> float:
    x: float = trial.suggest_float("x", -10, 10)
    trial.suggest_categorical("kind", ["a", "b"])
    for step in range(3):
        trial.report(x * x + 3 - step, step)
    if trial.number == 2:
        raise optuna.TrialPruned
    return x * x


def study(**options: object) -> optuna.Study:
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), **options)


def test_each_trial_is_a_step(runs: Path) -> None:
    made = study(study_name="parabola")
    callback = EpochalCallback()
    made.optimize(objective, n_trials=6, callbacks=[callback])
    callback.finish()
    (folder,) = run_folders(runs)
    assert folder.name == "parabola"
    done = {t.number: t.value for t in made.trials}  # of a pruned one the last report
    assert points(folder, "value") == done
    assert points(folder, "best/value")[5] == made.best_value
    assert points(folder, "params/x") == {t.number: t.params["x"] for t in made.trials}
    assert config(folder)["directions"] == ["minimize"]
    assert [r["step"] for r in records(folder) if r.get("name") == "trial-pruned"] == [2]
    assert status(folder) == "finished"


def test_a_continued_study_continues_its_run(runs: Path, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    for _ in range(2):
        callback = EpochalCallback()
        made = study(study_name="long", storage=storage, load_if_exists=True)
        made.optimize(objective, n_trials=4, callbacks=[callback])
        callback.finish()
    (folder,) = run_folders(runs)
    assert list(points(folder, "params/x")) == list(range(8))


def test_several_objectives_and_threads(runs: Path) -> None:
    made = study(directions=["minimize", "maximize"])
    callback = EpochalCallback(name="two")
    made.optimize(
        lambda t: (t.suggest_float("x", 0, 1), 2.0), n_trials=8, n_jobs=4, callbacks=[callback]
    )
    callback.finish()
    (folder,) = run_folders(runs)
    assert points(folder, "value_0") == {t.number: t.values[0] for t in made.trials}
    assert set(points(folder, "value_1").values()) == {2.0}


def test_an_open_run_is_used_and_left_open(runs: Path) -> None:
    run = epochal.init(name="mine")
    callback = EpochalCallback()
    study().optimize(objective, n_trials=2, callbacks=[callback])
    callback.finish()
    assert run.state != "finished"
    run.finish()
    assert len(points(run_folders(runs)[0], "value")) == 2


def test_a_crash_leaves_the_trials_before_it(runs: Path) -> None:
    done = script(
        """
import optuna
from epochal.integrations.optuna import EpochalCallback
def objective(trial):
    if trial.number == 3:
        raise RuntimeError("no data")
    return float(trial.number)
study = optuna.create_study(study_name="crash")
study.optimize(objective, n_trials=9, callbacks=[EpochalCallback()])
""",
        fails=True,
    )
    assert "no data" in done.stderr
    (folder,) = run_folders(runs)
    assert points(folder, "value") == {0: 0.0, 1: 1.0, 2: 2.0}
    assert status(folder) == "failed"
