"""A training node needs little: what works with few packages, and what says which one it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

import epochal
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.doubles.companions import wait_for

SMALL = ("click", "msgspec", "psutil")
TRAINING = """
import sys
import time
import epochal
with epochal.init(project="small", name="one", dir=sys.argv[1], total_steps=4000) as run:
    for step in range(4000):
        run.log({"loss": 5.0 / (step + 1), "lr": 1e-3}, step=step)
    run.log({"weights": [1.0, 2.0, 3.0]})
    run.log({"sample": "once"})
    for _ in range(2400):  # two minutes at most
        if list(run.dir.glob("journal/telemetry*")):
            break
        time.sleep(0.05)
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"msgspec", "numpy", "psutil", "pyarrow", "rich", "starlette", "textual"}))
"""


class Node:
    """A Python that has Epochal and a few packages, and nothing else."""

    def __init__(self, folder: Path, *packages: str) -> None:
        venv.create(folder, with_pip=False)
        self._python = folder / "bin" / "python"
        place = next((folder / "lib").glob("python*/site-packages"))
        (place / "epochal").symlink_to(Path(epochal.__file__).parent)
        for package in packages:
            for part in _folder_of(package).glob(f"{package}*"):
                (place / part.name).symlink_to(part)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._python), *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != "EPOCHAL_COMPANION"},
        )


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("node") / "env", *SMALL)


def events_of(run: RunView) -> set[str]:
    return {entry.record["name"] for entry in run.entries("event", rank=None)}


def test_a_training_records_measures_and_is_diagnosed(node: Node, tmp_path: Path) -> None:
    done = node.run("-W", "error", "-c", TRAINING, str(tmp_path))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "['msgspec']"), done.stderr
    wait_for(lambda: "phase" in events_of(folder_store(tmp_path).run("one")))
    run = folder_store(tmp_path).run("one")
    assert len(run.series("loss")) == 4000
    assert run.status.state == "finished"
    assert any(metric.name.startswith("system/") for metric in run.metrics())
    assert "internal-error" not in events_of(run)
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_reads_runs_says_which_package_it_needs(node: Node, tmp_path: Path) -> None:
    said = "needs the package 'numpy': pip install numpy."
    done = node.run("-m", "epochal", "ls", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, f"epochal: epochal ls {said}\n")
    done = node.run("-c", "import epochal; epochal.load('x')")
    assert done.stderr.splitlines()[-1].endswith(f"MissingPackageError: epochal.load {said}")


def test_with_numpy_as_beside_torch_the_commands_of_a_node_work(tmp_path: Path) -> None:
    node = Node(tmp_path / "env", *SMALL, "numpy")
    runs = str(tmp_path / "runs")
    assert node.run("-c", TRAINING, runs).returncode == 0
    for command in (
        "ls",
        "show one",
        "tail one",
        "doctor one",
        "export one --format csv",
        "resume one",
    ):
        done = node.run("-m", "epochal", *command.split(), "--dir", runs)
        assert (done.returncode, done.stderr) == (0, ""), command
    started = node.run("-m", "epochal", "--dir", runs, "run", "--", sys.executable, "-c", "pass")
    assert "recorded no run" in started.stderr
    for command, package in (
        ("watch", "plotext"),
        ("serve", "starlette"),
        ("manage pack", "pyarrow"),
    ):
        words = [*command.split(), *(["one"] * (command != "serve"))]
        done = node.run("-m", "epochal", *words, "--dir", runs)
        assert done.returncode == 2
        assert f"pip install {package}." in done.stderr
