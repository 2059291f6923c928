"""What a framework wrote for a tracker is imported, sent to that tracker, and imported again.

The second import has what the first one had, but for what the sink declares that it does not send.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.journal.layout import RunFolder, run_folders
from epochal.journal.reader import read_journal
from tests.exchange.sinks.test_round_trip import LABELS, NOT_SENT
from tests.exchange.sinks.trackers import python_with, run_script, send

WANDB = """
import wandb

run = wandb.init(
    project="p", name="sent", mode="offline", dir=".", group="sweep 1", job_type="train",
    tags=["baseline"], notes="the first one", config={"lr": 0.1},
    settings=wandb.Settings(silent=True, x_disable_stats=True),
)
run.define_metric("trainer/global_step")
run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
for step in range(4, 40, 5):
    run.log({"train/loss": 1 / step, "epoch": step // 20, "trainer/global_step": step})
    if step % 20 == 19:
        run.log({"val/loss": 2 / step, "trainer/global_step": step})
        run.log({"weights": wandb.Histogram([1, 2, 3])})
run.summary["score"] = 0.5
run.summary["train/loss"] = 0.01
run.summary["word"] = "best"
run.finish()
"""
TENSORBOARD = """
from torch.utils.tensorboard import SummaryWriter

with SummaryWriter("logs/sent") as writer:
    for step in range(4, 40, 5):
        writer.add_scalar("train/loss", 1 / step, step)
        writer.add_scalar("lr", 0.5, step)
    writer.add_scalar("val_loss", 2.0, 39)
    writer.add_histogram("weights/a", __import__("numpy").arange(9.0), 39)
    writer.add_text("sample", "a text", 39)
"""
MLFLOW = """
import mlflow

mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("p")
with mlflow.start_run(run_name="sent", tags={"team": "a"}, description="the first one"):
    mlflow.log_params({"lr": 0.1})
    for step in range(4, 40, 5):
        mlflow.log_metrics({"train/loss": 1 / step, "lr": 0.5}, step=step)
"""
TRACKIO = """
import trackio

trackio.init(project="p", name="sent", group="sweep 1", config={"lr": 0.1})
for step in range(4, 40, 5):
    trackio.log({"train/loss": 1 / step, "lr": 0.5}, step=step)
trackio.finish()
"""


@dataclass(frozen=True)
class Framework:
    """A program that logs to a tracker, and how a run is sent to the same tracker."""

    program: str
    options: Callable[[Path], Mapping[str, str]] = lambda _folder: {}


FRAMEWORKS = {
    "wandb": Framework(WANDB, lambda at: {"wandb_mode": "offline", "wandb_dir": str(at)}),
    "tensorboard": Framework(TENSORBOARD, lambda at: {"tensorboard_dir": str(at)}),
    "mlflow": Framework(MLFLOW, lambda at: {"mlflow_tracking_uri": f"sqlite:///{at}/mlflow.db"}),
    "trackio": Framework(TRACKIO),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_second_import_is_the_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, framework = python_with(name), FRAMEWORKS[name]
    written, sent = tmp_path / "written", tmp_path / "sent"
    for folder in (written, sent):
        folder.mkdir()
    monkeypatch.setenv("TRACKIO_DIR", str(written))
    monkeypatch.chdir(written)
    done = run_script(python, framework.program)
    assert done.returncode == 0, done.stderr[-4000:]
    first = imported(written, tmp_path / "first")
    monkeypatch.setenv("TRACKIO_DIR", str(sent))
    monkeypatch.chdir(sent)
    send(python, first.path, name, options=framework.options(sent))
    before, after = facts(first), facts(imported(sent, tmp_path / "second"))
    assert before["train/loss"] == [[step, pytest.approx(1 / step)] for step in range(4, 40, 5)]
    absent = {fact: None for fact in NOT_SENT[name] if fact in before}
    assert after == {**before, **absent}


def imported(source: Path, root: Path) -> RunFolder:
    assert main(["import", str(source), "--dir", str(root)]) == 0
    (folder,) = (run for project in root.iterdir() for run in run_folders(project))
    return folder


def facts(folder: RunFolder) -> dict[str, Any]:
    """Points by name, what kinds of records there are, the summary, and the labels."""
    found: dict[str, Any] = {}
    records = [record for _, record in read_journal(folder)]
    for record in records:
        for name, value in record.get("m", {}).items() if record["log"] == "metrics" else ():
            found.setdefault(name, []).append([record["step"], value])
    samples = [r for r in records if r["log"] in ("blob", "text", "histogram")]
    found["samples"] = sorted((r["log"], r["name"], r["step"]) for r in samples)
    summary = {r["name"]: r["value"] for r in records if r["log"] == "summary"}
    identity = json.loads(folder.identity.read_bytes())
    labels = {fact: identity.get(label) or None for fact, label in LABELS.items()}
    return {**found, **labels, "summary": summary or None, "config": identity["config"]}
