"""A real MLflow server on loopback, with each of its stores, is read over REST."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from epochal.cli.main import main
from tests.frameworks.reading import config, points, records, run_folders, status

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", params=["sqlite", "files"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = f"sqlite:///{folder}/mlflow.db" if request.param == "sqlite" else str(folder / "mlruns")
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]
    options = ["--port", str(port), "--backend-store-uri", store]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(
            [*command, *options, "--artifacts-destination", str(folder / "artifacts")],
            stdout=log,
            stderr=log,
            env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"},
        )
        try:
            here = f"http://127.0.0.1:{port}"
            wait_for(server, here, folder / "server.log")
            write_runs(here)
            yield here
        finally:
            server.terminate()
            server.wait(120)


def wait_for(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    while True:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)


def write_runs(address: str) -> None:
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment("digits")
    with mlflow.start_run(run_name="first", description="a note", tags={"team": "a"}):
        mlflow.log_params({"lr": 0.1, "layers": 2, "opt": "adam", "bias": True})
        for step in range(30):
            mlflow.log_metrics({"loss": 1 / (step + 1), "acc/val": step / 30}, step=step)
        for step, value in enumerate((math.nan, math.inf, -math.inf)):
            mlflow.log_metric("odd", value, step=step)
        mlflow.log_text("hello", "notes/a.txt")
    with mlflow.start_run(run_name="bad"):
        mlflow.log_metric("loss", 3.0, step=0)
        mlflow.end_run("FAILED")


def test_the_copy_has_what_the_client_wrote(address: str, runs: Path) -> None:
    assert main(["import", address]) == 0
    assert [folder.name for folder in run_folders(runs)] == ["bad", "first"]
    folder = runs / "digits" / "first"
    assert points(folder, "loss") == {step: 1 / (step + 1) for step in range(30)}
    assert points(folder, "acc/val") == {step: step / 30 for step in range(30)}
    odd = points(folder, "odd")
    assert math.isnan(odd[0])
    assert (odd[1], odd[2]) == (math.inf, -math.inf)
    assert config(folder) == {"lr": 0.1, "layers": 2, "opt": "adam", "bias": True}
    (artifact,) = [r for r in records(folder) if r["log"] == "file"]
    assert artifact["name"] == "notes/a.txt"
    assert (folder / "blobs" / artifact["file"]).read_bytes() == b"hello"
    assert (status(folder), status(runs / "digits" / "bad")) == ("finished", "failed")


def test_histories_longer_than_a_page_are_complete(
    address: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochal.exchange.imports.sources.mlflow._POINTS_PER_PAGE", 7)
    monkeypatch.setattr("epochal.exchange.imports.sources.mlflow._RUNS_PER_PAGE", 1)
    assert main(["import", address]) == 0
    assert len(points(runs / "digits" / "first", "loss")) == 30


def test_importing_again_copies_nothing(
    address: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", address]) == 0
    capsys.readouterr()
    assert main(["import", address]) == 0
    assert capsys.readouterr().out.count("nothing new") == 2


def test_the_address_in_the_browser_is_one_run(address: str, runs: Path) -> None:
    (run,) = mlflow.search_runs(
        experiment_names=["digits"], filter_string="run_name = 'bad'", output_format="list"
    )
    place = f"{address}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
    assert main(["import", place]) == 0
    assert [folder.name for folder in run_folders(runs)] == ["bad"]
