"""The built wheel works in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from epochal import __version__

ROOT = Path(__file__).parent.parent
SMOKE = """
import epochal, json, sys
with epochal.init(project="smoke", name="one", dir=sys.argv[1], total_steps=3) as run:
    for step in range(3):
        run.log({"loss": 1.0 / (step + 1)}, step=step)
    run.log({"weights": [1.0, 2.0, 3.0]})
with epochal.Monitor(1, name="two", dir=sys.argv[1]) as monitor:
    monitor.log(0, 0.1, {"loss": 0.5})
"""


MOST_MB = 2.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as a release builds it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.timeout(600)
def test_the_wheel_is_small_and_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = run("git", "-C", str(ROOT), "ls-files", "src/epochal").split()
    about = f"epochal-{__version__}.dist-info/"
    own = {name for name in names if not name.startswith(about)}
    assert own == {name.removeprefix("src/") for name in tracked}
    assert wheel.stat().st_size <= MOST_MB * 1e6


@pytest.mark.timeout(600)
def test_a_wheel_in_an_empty_environment_records_and_reads_a_run(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    run(*pip, "install", "--quiet", "--no-compile", str(wheel))
    runs = tmp_path / "runs"
    run(str(python), "-W", "error", "-c", SMOKE, str(runs))
    code = "import importlib.metadata as m, wandb; print(m.version('wandb'), wandb.__name__)"
    told = run(str(python), "-m", "epochal.wandb", "-c", code)
    assert told.split() == ["0.31.0+epochal", "epochal.wandb"]
    epochal = (str(tmp_path / "env" / "bin" / "epochal"), "--dir", str(runs))
    run(*epochal, "demo", "--fast")
    listing = json.loads(run(*epochal, "ls", "--json"))
    assert {row["name"] for row in listing} == {"one", "two", "sentences"}


def run(*command: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=clean, cwd="/", timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
