"""What an MLflow client reads after a run was sent to its store."""

from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.exchange.sinks.every_kind import CONFIG
from tests.exchange.sinks.member import Member
from tests.exchange.sinks.trackers import ask, python_with, send

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
experiment = client.get_experiment_by_name("tests")
(run,) = client.search_runs([experiment.experiment_id])
print(json.dumps({"params": run.data.params, "tags": run.data.tags, "status": run.info.status}))
"""


def test_a_changed_parameter_is_a_tag(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_with("mlflow")
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/mlflow.db"
    run = start_run(config=CONFIG)
    run.log({"loss": 1.0})
    run.finish()
    progress = send(python, run.dir, "mlflow", options={"mlflow_tracking_uri": address})
    # Changed by a person, and sent once more by a process that has lost its memory.
    (run.dir / "sinks.json").unlink()
    identity = (run.dir / "run.json").read_text()
    (run.dir / "run.json").write_text(identity.replace('"lr":0.1', '"lr":0.2'))
    again = send(python, run.dir, "mlflow", options={"mlflow_tracking_uri": address})
    assert again["state"] == progress["state"]
    found = ask(python, STORE, address)
    assert found["status"] == "FINISHED"
    assert found["params"] == {"lr": "0.1", "model.depth": "2", "layers": "[1, 2]"}
    assert found["tags"]["config.lr"] == "0.2"
