"""``import epochal.wandb as wandb``: runs, rows, configuration, the end."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import math
import pkgutil
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import epochal
import epochal.wandb as wandb
from epochal.api.reading import RunData
from epochal.cli.main import main
from epochal.companion.diagnosis import Diagnosis
from epochal.wandb import notices
from tests.doubles.companions import companion_config

REAL = importlib.util.find_spec("wandb")
needs_wandb = pytest.mark.skipif(REAL is None, reason="the real wandb is not installed")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder of the test, without companions and without variables of W&B."""
    import os

    for name in os.environ:
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_COMPANION", "off")
    notices._SAID.clear()
    yield tmp_path
    wandb.teardown()


def read(run: Any) -> RunData:
    return epochal.load(run.sync_dir)


def points(run: Any, name: str) -> dict[int, float]:
    series = read(run).series(name)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


# -- init -----------------------------------------------------------------------------------------


@needs_wandb
@pytest.mark.parametrize(
    "name",
    [
        *("init", "log", "login", "watch", "unwatch", "alert", "save", "define_metric"),
        *("Table", "Histogram", "Image", "Audio", "Video", "Object3D", "Html", "Molecule"),
        *("Plotly", "Artifact", "log_artifact", "use_artifact", "log_model", "use_model"),
        *("plot_table", "box3d", "mark_preempting", "setup", "teardown", "restore", "finish"),
    ],
)
def test_calls_accept_every_argument_of_the_real_one(name: str) -> None:
    import wandb as real

    ours = getattr(wandb.Run, name, None) or getattr(wandb, name)
    theirs = getattr(real.Run, name, None) or getattr(real, name)
    if name == "init":
        ours, theirs = wandb.init, real.init
    parameters = inspect.signature(ours).parameters.values()
    ignores = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    assert ignores or _parameters(theirs) <= _parameters(ours)


@needs_wandb
def test_plot_has_every_function_and_argument_of_the_real_one() -> None:
    import wandb.plot as real

    for name in real.__all__:
        assert _parameters(getattr(real, name)) <= _parameters(getattr(wandb.plot, name)), name


def test_no_module_of_the_package_hides_a_public_name() -> None:
    for found in pkgutil.iter_modules(wandb.__path__):
        if found.name != "__main__":
            importlib.import_module(f"epochal.wandb.{found.name}")
    modules = {name for name in wandb.__all__ if isinstance(getattr(wandb, name), ModuleType)}
    assert modules == set(wandb._MODULES)


def test_init_takes_project_name_config_tags_and_notes() -> None:
    run = wandb.init(
        project="mnist", name="first", config={"lr": 0.1}, tags=["a", "b"], notes="a note"
    )
    assert (run.project, run.name, run.tags, run.notes) == ("mnist", "first", ("a", "b"), "a note")
    run.finish()
    info = read(run).info
    assert (info.project, info.name, info.tags, info.notes) == (
        *("mnist", "first", ("a", "b"), "a note"),
    )


def test_variables_are_defaults_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "from-environment")
    monkeypatch.setenv("WANDB_NAME", "named")
    monkeypatch.setenv("WANDB_TAGS", "x, y")
    monkeypatch.setenv("WANDB_RUN_GROUP", "grouped")
    monkeypatch.setenv("WANDB_DIR", "elsewhere")
    run = wandb.init(name="given")
    assert (run.project, run.name, run.tags) == ("from-environment", "given", ("x", "y"))
    assert run.group == "grouped"
    assert Path(run.sync_dir).is_relative_to(Path.cwd() / "elsewhere")


def test_settings_stand_for_arguments() -> None:
    run = wandb.init(settings=wandb.Settings(run_name="by-settings", silent=True, x_unknown=1))
    assert run.name == "by-settings"
    assert run.settings.x_unknown == 1
    assert run.settings.never_heard_of is None


@pytest.mark.parametrize("by", ["argument", "mode", "disabled"])
def test_a_disabled_run_takes_every_call_and_writes_nothing(
    by: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "mode":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    elif by == "disabled":
        monkeypatch.setenv("WANDB_DISABLED", "true")
    run = wandb.init(mode="disabled" if by == "argument" else None, config={"lr": 1})
    assert run.disabled
    wandb.log({"loss": 1.0, "picture": wandb.Html("<p>")})
    wandb.config.update({"more": 2})
    wandb.summary["best"] = 3
    assert (wandb.config.lr, wandb.config["more"]) == (1, 2)
    run.save("*.nothing")
    run.finish()
    assert not list(here.iterdir())


@pytest.mark.parametrize("mode", ["online", "offline", "shared"])
def test_other_modes_record_locally(mode: str) -> None:
    with wandb.init(mode=mode) as run:
        run.log({"loss": 1.0})
    assert points(run, "loss") == {0: 1.0}


def test_a_mode_that_is_not_known_is_refused() -> None:
    with pytest.raises(wandb.UsageError, match="mode='onlin' is not known"):
        wandb.init(mode="onlin")


def test_a_second_init_returns_the_open_run_unless_told_otherwise() -> None:
    first = wandb.init()
    assert wandb.init() is first
    beside = wandb.init(reinit="create_new")
    assert beside is not first
    assert wandb.run is beside
    third = wandb.init(reinit=True)
    assert third not in (first, beside)
    assert first.finished
    assert beside.finished


# -- resume ---------------------------------------------------------------------------------------


def test_a_run_is_resumed_by_its_id_and_its_rows_go_on() -> None:
    with wandb.init(id="job", resume="allow") as run:
        assert not run.resumed
        for value in (3.0, 2.0):
            run.log({"loss": value})
    with wandb.init(id="job", resume="must") as run:
        assert (run.resumed, run.starting_step, run.step, run.id) == (True, 2, 2, "job")
        run.log({"loss": 1.0})
    assert points(run, "loss") == {0: 3.0, 1: 2.0, 2: 1.0}


def test_without_resume_a_run_of_the_same_id_begins_again() -> None:
    with wandb.init(id="job") as run:
        for value in (3.0, 2.0):
            run.log({"loss": value})
    with wandb.init(id="job") as run:
        run.log({"loss": 9.0})
    assert points(run, "loss") == {0: 9.0}


def test_resume_from_hides_later_rows() -> None:
    with wandb.init(id="job") as run:
        for value in (4.0, 3.0, 2.0):
            run.log({"loss": value})
    with wandb.init(resume_from="job?_step=0") as run:
        run.log({"loss": 9.0})
    assert points(run, "loss") == {0: 4.0, 1: 9.0}


def test_a_fork_shows_its_parents_rows_and_goes_on_after_them() -> None:
    with wandb.init(project="p", id="job") as parent:
        for value in (4.0, 3.0, 2.0):
            parent.log({"loss": value})
    with wandb.init(project="p", fork_from="job?_step=1") as run:
        assert (run.id != parent.id, run.starting_step) == (True, 2)
        run.log({"loss": 9.0})
    assert points(run, "loss") == {0: 4.0, 1: 3.0, 2: 9.0}
    assert points(parent, "loss") == {0: 4.0, 1: 3.0, 2: 2.0}


def test_a_killed_process_loses_no_row_and_its_run_is_resumed(here: Path) -> None:
    script = (
        "import os, signal, epochal.wandb as wandb\n"
        "run = wandb.init(project='p', id='job', resume='allow')\n"
        "for value in range(3):\n"
        "    run.log({'loss': run.step + 0.5})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    (run,) = wandb.Api().runs("p")
    assert run.state == "crashed"
    rows = [(row["_step"], row["loss"]) for row in run.scan_history()]
    assert rows == [(step, step + 0.5) for step in range(6)]


def test_resume_must_and_never_say_what_is_wrong() -> None:
    with pytest.raises(wandb.UsageError, match="with the id 'missing'"):
        wandb.init(id="missing", resume="must")
    wandb.init(id="there").finish()
    with pytest.raises(wandb.UsageError, match="exists"):
        wandb.init(id="there", resume="never")


def test_auto_resumes_the_newest_run_only_if_it_did_not_finish() -> None:
    done = wandb.init(resume="auto")
    done.log({"loss": 1.0})
    done.finish()
    failed = wandb.init(resume="auto")
    assert failed.id != done.id
    failed.log({"loss": 1.0})
    failed.finish(exit_code=1)
    assert wandb.init(resume=True).id == failed.id


# -- log ------------------------------------------------------------------------------------------


def test_rows_are_numbered_by_committed_calls() -> None:
    run = wandb.init()
    wandb.log({"a": 1.0})
    wandb.log({"a": 2.0}, commit=False)
    wandb.log({"b": 3.0})
    wandb.log({"c": 4.0}, step=10)
    wandb.log({"d": 5.0})
    assert run.step == 11
    wandb.finish()
    assert points(run, "a") == {0: 1.0, 1: 2.0}
    assert (points(run, "b"), points(run, "c"), points(run, "d")) == (
        {1: 3.0},
        {10: 4.0},
        {10: 5.0},
    )


def test_lower_steps_are_kept_and_do_not_move_the_row() -> None:
    run = wandb.init()
    run.log({"a": 1.0}, step=5)
    run.log({"a": 2.0}, step=3)
    assert run.step == 5
    run.finish()
    assert points(run, "a") == {3: 2.0, 5: 1.0}


def test_nested_values_and_numbers_of_other_libraries() -> None:
    np = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    run = wandb.init()
    run.log({"train": {"loss": np.float32(0.5), "acc": {"top1": torch.tensor([0.25])}}, "on": True})
    run.log({"bad": float("nan"), "absent": None})
    run.finish()
    assert points(run, "train.loss") == {0: 0.5}
    assert points(run, "train.acc.top1") == {0: 0.25}
    assert points(run, "on") == {0: 1.0}
    assert str(points(run, "bad")) == "{1: nan}"


def test_a_row_gets_the_last_value_of_its_step_metric() -> None:
    run = wandb.init()
    run.define_metric("epoch")
    run.define_metric("val/*", step_metric="epoch")
    run.define_metric("own", step_metric="epoch", step_sync=False)
    run.log({"epoch": 1, "loss": 3.0})
    run.log({"loss": 2.0})
    run.log({"val": {"loss": 4.0}})
    run.log({"val/loss": 2.5})
    run.log({"own": 2.0})
    run.finish()
    assert points(run, "epoch") == {0: 1, 3: 1}


def test_a_metric_that_is_named_after_steps_is_the_step_of_its_rows() -> None:
    run = wandb.init()
    run.log({"early": 1.0})
    run.define_metric("trainer/global_step")
    run.define_metric("*", step_metric="trainer/global_step")
    run.log({"loss": 3.0, "trainer/global_step": 10})
    run.log({"epoch": 1})
    run.log({"loss": 2.0, "trainer/global_step": 20})
    assert run.step == 4  # W&B numbers rows
    run.finish()
    assert points(run, "early") == {0: 1.0}
    assert points(run, "loss") == {10: 3.0, 20: 2.0}
    assert points(run, "epoch") == {10: 1.0}


def test_what_is_no_dict_of_names_is_refused_and_a_finished_run_too() -> None:
    run = wandb.init()
    with pytest.raises(TypeError, match="must be passed a dictionary"):
        run.log([1.0])
    with pytest.raises(TypeError, match="must be strings"):
        run.log({1: 1.0})
    run.finish()
    with pytest.raises(wandb.UsageError, match="is finished"):
        run.log({"a": 1.0})
    with pytest.raises(wandb.Error, match="must call"):
        wandb.log({"a": 1.0})


# -- configuration and summary --------------------------------------------------------------------


def test_config_by_attribute_and_item_and_from_a_namespace() -> None:
    run = wandb.init(config=argparse.Namespace(lr=0.1, layers=[1, 2]))
    wandb.config.seed = 7
    wandb.config["model"] = {"width": 4}
    wandb.config.update({"epochs": 3})
    wandb.config.setdefaults({"epochs": 9, "extra": 1})
    assert (run.config.lr, run.config["seed"], "epochs" in run.config) == (0.1, 7, True)
    assert run.config.get("nothing", 5) == 5
    run.finish()
    assert dict(read(run).config) == {
        "lr": 0.1,
        "layers": [1, 2],
        "seed": 7,
        "model": {"width": 4},
        "epochs": 3,
        "extra": 1,
    }


def test_a_value_of_the_config_changes_only_when_that_is_allowed() -> None:
    run = wandb.init(config={"lr": 0.1})
    run.config.lr = 0.1
    with pytest.raises(wandb.Error, match="allow_val_change"):
        run.config.lr = 0.2
    run.config.update({"lr": 0.2}, allow_val_change=True)
    assert run.config.lr == 0.2


def test_keys_of_the_config_are_selected_and_files_are_read(here: Path) -> None:
    (here / "config.yaml").write_text("lr:\n  value: 0.5\n  desc: null\ndepth: 2\n")
    (here / "config-defaults.yaml").write_text("depth: 9\nwidth: 8\n")
    run = wandb.init(config="config.yaml", config_exclude_keys=["nothing"])
    assert run.config.as_dict() == {"lr": 0.5, "depth": 2, "width": 8}
    run.finish()
    chosen = wandb.init(config={"a": 1, "b": 2}, config_include_keys=["b"])
    assert chosen.config.as_dict() == {"b": 2, "depth": 9, "width": 8}


def test_the_summary_has_last_values_and_what_is_set_wins() -> None:
    run = wandb.init()
    run.log({"loss": 2.0, "acc": 0.5})
    run.log({"loss": 1.0})
    assert (run.summary["loss"], wandb.summary.acc) == (1.0, 0.5)
    run.summary["best"] = 0.9
    run.summary.update({"loss": 0.5})
    assert (run.summary.best, run.summary.get("loss"), run.summary.get("no", 1)) == (0.9, 0.5, 1)
    assert {"loss", "acc", "best"} <= set(run.summary.keys())


# -- the rest -------------------------------------------------------------------------------------


def test_finish_with_an_exit_code_and_a_with_block_that_raises() -> None:
    run = wandb.init()
    run.log({"a": 1.0})
    wandb.finish(exit_code=3)
    assert read(run).info.status.text == "failed"
    with pytest.raises(RuntimeError), wandb.init() as broken:
        raise RuntimeError("no")
    assert wandb.run is None
    assert read(broken).info.status.text not in ("finished", "running")


def test_labels_can_be_changed_later() -> None:
    run = wandb.init(name="a", tags=["x"])
    run.name, run.notes = "b", "new"
    run.tags = (*run.tags, "y")
    run.finish()
    info = read(run).info
    assert (info.name, info.notes, info.tags) == ("b", "new", ("x", "y"))


def test_saved_files_lie_in_the_runs_folder_as_they_are_at_the_end(here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "model.txt").write_text("first")
    run = wandb.init()
    assert wandb.save("out/*.txt") == [str(Path(run.dir) / "model.txt")]
    (here / "out" / "model.txt").write_text("last")
    run.save("out/model.txt", base_path=".", policy="now")
    run.finish()
    assert (Path(run.dir) / "model.txt").read_text() == "last"
    assert (Path(run.dir) / "out" / "model.txt").read_text() == "last"


def test_an_artifact_is_kept_and_found_again(here: Path) -> None:
    (here / "weights.bin").write_bytes(b"123")
    for epoch in range(2):
        with wandb.init(project="p") as run:
            artifact = wandb.Artifact("net", type="model", metadata={"epoch": epoch})
            artifact.add_file("weights.bin")
            with artifact.new_file("note.txt", mode="w") as file:
                file.write("hello")
            assert (artifact.state, artifact.id, artifact.name) == ("PENDING", None, "net")
            run.log_artifact(artifact, aliases=["best"] if epoch == 0 else [], tags=["small"])
        assert (artifact.version, artifact.name) == (f"v{epoch}", f"net:v{epoch}")
    (here / "weights.bin").unlink()
    with wandb.init(project="p") as other:
        for name, epoch in (("net:best", 0), ("me/p/net:v0", 0), ("net:latest", 1), ("net", 1)):
            found = other.use_artifact(name)
            assert (found.metadata, found.size, found.tags) == ({"epoch": epoch}, 8, ["small"])
        assert found.digest == artifact.digest
        folder = Path(found.download())
        assert (folder / "weights.bin").read_bytes() == b"123"
        assert Path(found.get_entry("note.txt").download("there")).read_text() == "hello"
        found.aliases.append("good")
        found.save()
        assert other.use_artifact("net:good").version == "v1"
        with pytest.raises(wandb.CommError, match="has logged an artifact 'net:v7'"):
            other.use_artifact("net:v7")
        model = other.log_model(folder / "weights.bin", "model")
        assert Path(other.use_model("model:latest")).read_bytes() == b"123"
        assert (model.type, Path(model.file()).name) == ("model", "weights.bin")


def test_a_table_of_an_artifact_keeps_the_pictures_in_its_cells(here: Path) -> None:
    picture = wandb.Image(np.full((2, 3, 3), 7, np.uint8), caption="seven")
    with wandb.init(project="p") as run:
        artifact = wandb.Artifact("samples", type="dataset")
        artifact.add(wandb.Table(columns=["id", "picture"], data=[[0, picture]]), "predictions")
        artifact.add(picture, "seven")
        run.log_artifact(artifact)
    found = wandb.init(project="p").use_artifact("samples:latest")
    folder = Path(found.download())
    ((first, cell),) = json.loads((folder / "predictions.table.json").read_text())["data"]
    assert (first, cell["media_type"], cell["caption"]) == (0, "image/png", "seven")
    assert (folder / cell["file"]).read_bytes() == (folder / "seven.png").read_bytes()
    table = found.get("predictions")
    assert (table.columns, table.data[0][0]) == (["id", "picture"], 0)
    assert isinstance(table.data[0][1], wandb.Image)
    assert isinstance(found.get("seven"), wandb.Image)
    assert found.get("nothing") is None


def test_names_of_artifacts_cannot_lead_out_of_the_run(here: Path) -> None:
    (here / "a.txt").write_text("a")
    for name in ("../x", "a/b", "", "..", "*"):
        with pytest.raises(ValueError, match="Artifact name"):
            wandb.Artifact(name, type="data")
    artifact = wandb.Artifact("data", type="data")
    for name in ("../x", "/x", "a/../../x"):
        with pytest.raises(ValueError, match="leads out of it"):
            artifact.add_file("a.txt", name=name)
    run = wandb.init()
    with pytest.raises(wandb.CommError, match="is not the name"):
        run.use_artifact("*:latest")


def test_what_has_no_effect_says_so_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert wandb.login(key="secret")
    assert wandb.login()
    wandb.init(monitor_gym=True, force=True, anonymous="allow")
    wandb.pin_config_keys(["a"])
    said = capfd.readouterr().err
    assert said.count("wandb.login() has no effect") == 1
    assert said.count("monitor_gym=True is not supported") == 1
    assert "secret" not in said


def test_an_alert_is_recorded_once_within_its_time() -> None:
    run = wandb.init()
    wandb.alert("low", "accuracy is low", level=wandb.AlertLevel.WARN, wait_duration=300)
    wandb.alert("low", "accuracy is low", level="WARN", wait_duration=300)
    with pytest.raises(ValueError, match="level must be one of"):
        wandb.alert("x", "y", level="LOUD")
    run.finish()
    assert len(_alerts(run)) == 1


def _alerts(run: Any) -> list[Any]:
    view = read(run).view
    alerts = [one.record for one in view.entries("event", name="alert")]
    return [one for one in alerts if (one["text"], one["level"]) == ("accuracy is low", "warning")]


def _parameters(call: Any) -> set[str]:
    kept = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    found = inspect.signature(call).parameters.values()
    return {one.name for one in found if one.kind not in kept} - {"self"}


def test_the_summary_has_what_define_metric_asks_for() -> None:
    run = wandb.init(project="p", name="aggregates")
    run.define_metric("acc", summary="max")
    run.define_metric("val/*", summary="min,mean")
    run.define_metric("seen", summary="none")
    run.define_metric("copied", summary="copy")
    for value in (2, 5, 3):
        run.log({"acc": value, "val/loss": value, "seen": value, "copied": value})
    assert run.summary["acc"] == {"max": 5}
    assert run.summary["acc"].max == 5
    assert run.summary["val/loss"] == {"min": 2, "mean": 10 / 3}
    assert run.summary["copied"] == 3
    assert "seen" not in run.summary
    run.summary["acc"] = 7
    assert run.summary["acc"] == 7
    run.finish()
    read = wandb.Api().run(f"p/{run.id}").summary
    assert read["val/loss"] == {"min": 2, "mean": 10 / 3}


def test_the_summary_has_texts_lists_and_dicts_as_they_were_logged() -> None:
    run = wandb.init(project="p", name="shapes")
    run.log({"word": "cat", "three": [1, 2, 3], "outer": {"inner": {"a": 1}, "b": 2}, "x.y": 4})
    summary = dict(run.summary.items())
    assert summary["word"] == "cat"
    assert summary["three"] == [1, 2, 3]
    assert summary["outer"] == {"inner": {"a": 1}, "b": 2}
    assert run.summary.outer.inner.a == 1
    assert summary["x.y"] == 4
    run.summary["best"] = 3
    del run.summary["best"]
    assert "best" not in run.summary
    run.finish()
    assert wandb.Api().run(f"p/{run.id}").summary["word"] == "cat"


def test_settings_of_a_run_say_what_it_is_called() -> None:
    run = wandb.init(project="p", id="abc", group="g")
    settings = run.settings
    assert (settings.run_id, settings.project, settings.run_group) == ("abc", "p", "g")
    run.finish()


def test_a_resumed_run_knows_its_labels_and_adding_a_tag_keeps_the_others() -> None:
    said = {"tags": ["a"], "notes": "n", "group": "g", "job_type": "j", "entity": "me"}
    wandb.init(project="p", id="again", name="nm", **said).finish()
    run = wandb.init(project="p", id="again", resume="must")
    assert (run.name, run.tags, run.notes) == ("nm", ("a",), "n")
    assert (run.group, run.job_type, run.entity) == ("g", "j", "me")
    run.tags += ("b",)
    run.finish()
    assert wandb.Api().run("p/again").tags == ["a", "b"]
    run = wandb.init(project="p", id="again", resume="must")
    assert run.tags == ("a", "b")
    run.finish()


def test_watch_records_histograms_of_parameters_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    run = wandb.init()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wandb.watch(model, log="all", log_freq=1)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        wandb.log({"loss": 1.0})
    wandb.unwatch(model)
    run.finish()
    assert {entry.record["name"] for entry in read(run).view.histograms()} >= {
        *("Parameters/weight", "Gradients/weight")
    }


# -- findings -------------------------------------------------------------------------------------


def spike_demo() -> Iterator[dict[str, float]]:
    """A learning rate that quadruples for 50 of 12,000 steps, and what it does to a training.

    The loss jumps from 0.26 to 3.73 and the gradient norm from 1 to 494; both recover.
    """
    chance = random.Random(0)
    for step in range(12_000):
        after = step - 8_000
        loss, norm, rate = 0.1 + 2.5 * math.exp(-3 * min(step, 8_000) / 8_000), 1.0, 1e-4
        if after >= 0:
            loss += 3.5 * math.exp(-after / 20)
            norm += 493 * math.exp(-after / 15) if after < 30 else 20 * math.exp(-after / 300)
            rate = 4e-4 if after < 50 else max(1e-4, 4e-4 * math.exp(-after / 500))
        yield {
            "train/loss": loss + abs(chance.gauss(0, 0.02)),
            "train/grad_norm": norm * math.exp(chance.gauss(0, 0.1)) if after != 0 else 494.0,
            "train/learning_rate": rate,
        }


@pytest.mark.parametrize("by_companion", [False, True])
def test_a_loss_spike_in_a_loop_at_full_speed_is_diagnosed(
    by_companion: bool, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = wandb.init(project="spike-demo", name="run-0")
    for step, row in enumerate(spike_demo()):
        wandb.log(row, step=step)
    wandb.finish()
    if by_companion:
        diagnosis = Diagnosis(companion_config(Path(run.sync_dir)))
        while diagnosis.go_on():
            pass
    capsys.readouterr()
    main(["doctor", "run-0"])
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"The loss jumped from 0\.2\d+ to 3\.7\d+ at step 8,000", text)
    assert re.search(r"The gradient norm jumped: 494 at step 8,000, \d{3} times", text)
    assert "The learning rate rose 4.0 times at step 8,000" in text
    evaluated = re.search(r"The rules evaluated ([\d,]+) of 12,000 records", text)
    assert evaluated is not None
    assert int(evaluated[1].replace(",", "")) < 12_000
    main(["doctor", "run-0", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert (f"{data['evaluated']:,}", data["records"]) == (evaluated[1], 12_000)
