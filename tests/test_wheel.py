"""The built wheel works in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

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


@pytest.mark.timeout(600)
def test_a_wheel_in_an_empty_environment_records_and_reads_a_run(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(ROOT))
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    run(*pip, "install", "--quiet", "--no-compile", str(wheel))
    run(str(python), "-W", "error", "-c", SMOKE, str(tmp_path / "runs"))
    code = "import importlib.metadata as m, wandb; print(m.version('wandb'), wandb.__name__)"
    told = run(str(python), "-m", "epochal.wandb", "-c", code)
    assert told.split() == ["0.31.0+epochal", "epochal.wandb"]
    listing = run(
        str(tmp_path / "env" / "bin" / "epochal"), "--dir", str(tmp_path / "runs"), "ls", "--json"
    )
    assert {one["name"] for one in json.loads(listing)} == {"one", "two"}


def run(*command: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=clean, cwd="/", timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
