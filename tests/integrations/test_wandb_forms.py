"""The 25 forms of calls that scripts for W&B consist of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
import epochal.wandb as wandb


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_COMPANION", "off")
    yield tmp_path
    wandb.teardown()


def config_update() -> None:
    wandb.init(project="p", config={"lr": 0.1})
    wandb.config.update({"batch": 8})
    assert dict(wandb.config.items()) == {"lr": 0.1, "batch": 8}


def config_attribute() -> None:
    wandb.init(config={"lr": 0.1})
    assert wandb.config.lr == 0.1


def nested_log() -> None:
    run = wandb.init()
    wandb.log({"train": {"loss": 1.0}})
    assert last(run, "train.loss") == 1.0


def commit() -> None:
    run = wandb.init()
    wandb.log({"a": 1.0}, commit=False)
    wandb.log({"b": 2.0}, commit=True)
    assert run.step == 1


def tensor() -> None:
    torch = pytest.importorskip("torch")
    run = wandb.init()
    wandb.log({"loss": torch.tensor(0.5, requires_grad=True)})
    assert last(run, "loss") == 0.5


def run_properties() -> None:
    run = wandb.init(project="p", id="abc", group="g", job_type="t", tags=["x"], notes="n")
    assert wandb.run.id == "abc"
    assert (run.group, run.job_type, run.tags, run.notes) == ("g", "t", ("x",), "n")
    assert Path(run.dir).is_dir()


def define_metric() -> None:
    wandb.init()
    metric = wandb.define_metric("val/*", step_metric="epoch", summary="min", hidden=True)
    assert metric.name == "val/*"


def watch() -> None:
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


def summary() -> None:
    run = wandb.init()
    wandb.log({"acc": 0.5})
    wandb.run.summary["best"] = 0.9
    wandb.summary["last"] = 1
    assert (run.summary["acc"], run.summary["best"], wandb.summary["last"]) == (0.5, 0.9, 1)


def plots() -> None:
    wandb.init()
    wandb.log({"pr": wandb.plot.pr_curve([0, 1], [[0.9, 0.1], [0.2, 0.8]])})
    table = wandb.Table(columns=["x", "y"], data=[[1, 2]])
    wandb.log({"line": wandb.plot.line(table, "x", "y", title="t")})


def table() -> None:
    wandb.init()
    made = wandb.Table(columns=["a", "b"])
    made.add_data(1, 2)
    wandb.log({"table": made})


def sweep() -> None:
    found = []

    def train() -> None:
        with wandb.init() as run:
            found.append(run.config.lr)

    sweep_id = wandb.sweep({"method": "grid", "parameters": {"lr": {"values": [1, 2]}}})
    wandb.agent(sweep_id, function=train, count=2)
    assert found == [1, 2]


def with_block() -> None:
    with wandb.init(project="p") as run:
        run.log({"a": 1.0})
    assert run.finished


def save() -> None:
    run = wandb.init()
    Path("model.txt").write_text("x")
    wandb.save("model.txt")
    assert (Path(run.dir) / "model.txt").is_file()


def api() -> None:
    wandb.init(project="p", config={"lr": 1}).finish()
    assert [run.config["lr"] for run in wandb.Api().runs("me/p", filters={"config.lr": 1})] == [1]


def resume() -> None:
    wandb.init(id="r", resume="allow").finish()
    assert wandb.init(id="r", resume="must").resumed


def read(run: Any) -> Any:
    return epochal.load(run.sync_dir)


def last(run: Any, name: str) -> float:
    return float(read(run).series(name).values[-1])


def ends(call: Callable[[], Any]) -> Callable[[], None]:
    """A form that has only to return."""

    def form() -> None:
        call()

    return form


FORMS: dict[str, Callable[[], None]] = {
    "init without project": ends(lambda: wandb.init()),
    "init of every argument": ends(
        lambda: wandb.init(
            entity="e", project="p", dir=".", mode="offline", tags=["t"], save_code=True, force=True
        )
    ),
    "init and config.update": config_update,
    "config.lr": config_attribute,
    "mode disabled": ends(lambda: wandb.init(mode="disabled").log({"a": 1})),
    "log with a step": ends(lambda: wandb.init().log({"a": 1}, step=3)),
    "nested log": nested_log,
    "log with commit": commit,
    "scalar tensors": tensor,
    "wandb.run.id and properties": run_properties,
    "define_metric": define_metric,
    "watch": watch,
    "summary": summary,
    "login": ends(lambda: wandb.login(key="x", relogin=True)),
    "Settings": ends(lambda: wandb.init(settings=wandb.Settings(start_method="thread"))),
    "plot": plots,
    "sweep and agent": sweep,
    "finish with an exit code": ends(lambda: (wandb.init(), wandb.finish(exit_code=1))),
    "with init() as run": with_block,
    "alert": ends(lambda: wandb.init().alert(title="t", text="x", level="WARN")),
    "Histogram and Image": ends(
        lambda: wandb.init().log(
            {"h": wandb.Histogram([1, 2, 3]), "i": wandb.Image(np.zeros((2, 2, 3)), caption="c")}
        )
    ),
    "Table": table,
    "save": save,
    "Api().runs": api,
    "resume by id": resume,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_works(form: str) -> None:
    FORMS[form]()


def test_there_are_25_forms() -> None:
    assert len(FORMS) == 25
