"""Where trackers put their files when a run does not say it: where its training was started."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from epochal.journal.layout import read_json
from tests.doubles.companions import wait_for_the_end
from tests.doubles.ordinary_user import as_ordinary_user, make_folder
from tests.doubles.packages import write_package
from tests.exchange.sinks.test_wandb import SERIES
from tests.exchange.sinks.trackers import ask, python_with

CONFIG = """
report_to: wandb              # Single backend

# Weights & Biases options
wandb_project: my-project
wandb_name: my-run

# Aim options
aim_experiment: my-experiment
aim_repo: /path/to/aim/repo
aim_name: my-run
"""
TRAINING = """
import epochal

run = epochal.init("tests", "run", config="config.yaml", finish_wait_s=120)
for step in range(3):
    run.log({"loss": 1.0 / (step + 1)}, step=step)
run.finish()
"""


@pytest.fixture
def started_in() -> Iterator[Path]:
    """A folder of an ordinary user's, with a home and a folder for temporary files beside it.

    It is not below ``tmp_path``, which only its owner may enter: trackers ask before they write.
    """
    with tempfile.TemporaryDirectory() as temporary:
        above = Path(temporary)
        above.chmod(0o755)
        for name in ("started", "home", "temporary"):
            make_folder(above / name)
        (above / "started" / "train.py").write_text(TRAINING)
        (above / "started" / "config.yaml").write_text(CONFIG)
        yield above / "started"


def train(folder: Path, **environment: str) -> str:
    """Run the training; what it printed to stderr."""
    given = {"HOME": str(folder.with_name("home")), "TMPDIR": str(folder.with_name("temporary"))}
    done = subprocess.run(
        [*as_ordinary_user(), sys.executable, "train.py"],
        cwd=folder,
        env={**os.environ, "EPOCHAL_COMPANION": "1", "EPOCHAL_GIT": "0", **given, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_for_the_end(folder / "runs" / "tests" / "run")
    return done.stderr


def trackers_files() -> Mapping[Path, int]:
    """What trackers may have put into the root of the file system, and when."""
    found = [Path("/", name) for name in ("wandb", ".aim", "mlruns", "mlflow.db")]
    return {path: path.stat().st_mtime_ns for path in found if path.exists()}


def test_wandb_writes_where_the_training_was_started(started_in: Path) -> None:
    python, before = python_with("wandb"), trackers_files()
    train(started_in, WANDB_MODE="offline")
    (folder,) = started_in.glob("wandb/offline-run-*")
    assert list(folder.glob("*.wandb"))
    assert ask(python, SERIES, str(started_in))["loss"] == [[0, 1.0], [1, 0.5], [2, 1 / 3]]
    assert trackers_files() == before
    assert not list(started_in.with_name("temporary").glob("wandb*"))


SINK = """
import pathlib
from epochal.exchange.sinks.sink import Sink

class Here(Sink):
    name = "here"

    def open(self, context):
        pathlib.Path("opened").touch()
        raise RuntimeError

    def write(self, entry): ...
    def flush(self): return {}
    def close(self, status): return {}
"""


def test_every_sink_works_there_and_an_error_without_a_text_has_a_name(started_in: Path) -> None:
    installed = started_in.with_name("installed")
    write_package(installed, "sink_here", "[epochal.sinks]\nhere = sink_here:Here\n")
    (installed / "sink_here.py").write_text(SINK)
    (started_in / "config.yaml").write_text("report_to: here\n")
    training = TRAINING.replace("finish_wait_s=120", "finish_wait_s=5")
    (started_in / "train.py").write_text(training)
    printed = train(started_in, PYTHONPATH=str(installed), EPOCHAL_GRACE="1")
    assert (started_in / "opened").exists()
    kept = read_json(started_in / "runs" / "tests" / "run" / "sinks.json")
    assert kept["sinks"]["here"]["error"] == "RuntimeError"
    assert "(here: RuntimeError)" in printed


def test_a_folder_that_is_gone_is_replaced_by_the_run_s(started_in: Path) -> None:
    python_with("wandb")
    make_folder(started_in / "gone")
    runs = started_in / "runs"
    moving = (
        f"import os\nos.chdir('gone')\nos.rmdir('../gone')\nos.environ['EPOCHAL_DIR'] = '{runs}'\n"
    )
    training = TRAINING.replace('config="config.yaml"', 'report_to="wandb"')
    (started_in / "train.py").write_text(moving + training)
    train(started_in, WANDB_MODE="offline")
    assert list(runs.glob("tests/run/wandb/offline-run-*/*.wandb"))
