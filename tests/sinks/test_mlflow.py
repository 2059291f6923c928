"""What an MLflow client reads after a run was sent to its store."""

from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.sinks.every_kind import CONFIG, log_every_kind
from tests.sinks.member import Member
from tests.sinks.trackers import ask, python_with, send

SERIES = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
experiment = client.get_experiment_by_name("tests")
(run,) = client.search_runs([experiment.experiment_id])
found = {
    name: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, name)]
    for name in run.data.metrics
}
print(json.dumps(found))
"""
MEMBER = Member(
    reader=SERIES,
    package="mlflow",
    options=lambda folder: {"mlflow_tracking_uri": f"sqlite:///{folder}/mlflow.db"},
    argument=lambda folder, _run: f"sqlite:///{folder}/mlflow.db",
)

STORE = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
experiment = client.get_experiment_by_name("mine")
(run,) = client.search_runs([experiment.experiment_id])
def files(folder=None):
    for item in client.list_artifacts(run.info.run_id, folder):
        yield from files(item.path) if item.is_dir else [item.path]
print(json.dumps({
    "metrics": {name: [[m.step, m.timestamp, m.value]
                       for m in client.get_metric_history(run.info.run_id, name)]
                for name in run.data.metrics},
    "params": run.data.params, "tags": run.data.tags, "status": run.info.status,
    "name": run.info.run_name, "files": sorted(files()), "id": run.info.run_id,
}))
"""


def test_metrics_params_and_artifacts(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_with("mlflow")
    monkeypatch.chdir(tmp_path)  # artifacts of a database on disk lie beside the process
    address = f"sqlite:///{tmp_path}/mlflow.db"
    run = start_run("named", config=CONFIG)
    log_every_kind(run)
    options = {"mlflow_tracking_uri": address, "mlflow_experiment": "mine"}
    progress = send(python, run.dir, "mlflow", options=options)
    # Changed by a person, and sent once more by a process that has lost its memory.
    (run.dir / "sinks.json").unlink()
    identity = (run.dir / "run.json").read_text()
    (run.dir / "run.json").write_text(identity.replace('"lr":0.1', '"lr":0.2'))
    again = send(python, run.dir, "mlflow", options=options)
    assert again["state"] == progress["state"]
    found = ask(python, STORE, address)
    assert (found["name"], found["status"]) == ("named", "FINISHED")
    assert found["params"] == {"lr": "0.1", "model.depth": "2", "layers": "[1, 2]"}
    assert found["tags"]["config.lr"] == "0.2"
    metrics = found["metrics"]
    assert [[step, value] for step, _, value in metrics["train/loss"]] == [[0, 3], [1, 2], [2, 1]]
    assert metrics["gpu/1/dram_free"][0][2] == 5
    assert metrics["weights/wte/mean"][0][2] == 4.5
    assert metrics["odd name: ä/b"][0][2] == 1
    assert len(found["files"]) == 2
    assert found["files"][1] == "texts/sample/00000002.txt"
