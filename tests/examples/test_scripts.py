"""Every short script of ``examples/`` runs as it is, at a small size, and logs what it promises."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import epochal

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Expected:
    """What a script leaves in ``runs``, and how it is made small."""

    # The last step (or epoch) of each run, by project/name. A star stands for the date.
    runs: Mapping[str, int]
    small: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    # Names of samples, and the beginning of their media types.
    samples: Mapping[str, str] = field(default_factory=dict)
    prints: str = ""
    packages: tuple[str, ...] = ("torch",)
    # How it is started, if it starts processes or ends like one.
    command: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = (0,)


PYTHON = (sys.executable,)
TORCHRUN = (*PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
TABLE, IMAGE = "application/vnd.epochal", "image/"
EXPECTED = {
    "agent": Expected(
        {"examples/agent-1": 1, "examples/agent-3": 149},
        {"STEPS": "150"},
        prints="agent: lr 0.3: healthy",
        command=PYTHON,
    ),
    "cnn": Expected(
        {"examples/cnn": 40},
        {"EPOCHS": "1"},
        samples={"pictures": IMAGE, "mistakes": TABLE, "confusion": TABLE},
    ),
    "ddp": Expected({"examples/ddp": 19}, {"STEPS": "20"}, command=TORCHRUN),
    "hub": Expected(
        {"examples/sent": 19},
        {"STEPS": "20"},
        prints="The hub has 20 values of loss",
        packages=(),
        command=PYTHON,
    ),
    "loop": Expected({"examples/*": 59}, arguments=("--steps", "60")),
    "monitor": Expected({"examples/monitor": 3}, {"EPOCHS": "3"}, packages=()),
    "resume": Expected(
        {"examples/resume": 39}, {"STEPS": "40"}, command=PYTHON, exit_codes=(-signal.SIGKILL, 0)
    ),
    "rollouts": Expected({"examples/rollouts": 39}, samples={"rollouts": TABLE}, packages=()),
    "samples": Expected(
        {"examples/samples": 4},
        samples={
            "scene": IMAGE,
            "batch": IMAGE,
            "episode": IMAGE,
            "prediction": IMAGE,
            "tone": "audio/",
            "story": "text",
            "report": "text",
            "page": "text/html",
            "tokenizer/vocabulary.json": "application/json",
        },
        packages=("matplotlib",),
    ),
    "sweep": Expected(
        {"sweep/lr0.001-m0.0-s0": 9, "sweep/lr0.1-m0.9-s0": 9}, {"STEPS": "10", "SEEDS": "1"}
    ),
    "with_lightning": Expected(
        {"examples/lightning": 63}, {"EPOCHS": "1"}, packages=("torch", "lightning")
    ),
    "with_transformers": Expected(
        {"examples/transformers": 20}, {"STEPS": "20"}, packages=("torch", "transformers")
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))
    return tmp_path


@pytest.mark.filterwarnings("ignore")  # torch, Lightning and transformers give many
@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    expected, script = EXPECTED[name], str(EXAMPLES / f"{name}.py")
    for package in expected.packages:
        pytest.importorskip(package)
    for variable, value in expected.small.items():
        monkeypatch.setenv(variable, value)
    is_process = bool(expected.command)
    for setting in ("COMPANION", "CONSOLE"):
        monkeypatch.setenv(f"EPOCHAL_{setting}", str(int(is_process)))
    if is_process:
        for exit_code in expected.exit_codes:
            command = [*expected.command, script, *expected.arguments]
            assert subprocess.run(command, check=False, env=os.environ).returncode == exit_code
    else:
        monkeypatch.setattr(sys, "argv", [script, *expected.arguments])
        runpy.run_path(script, run_name="__main__")
    assert expected.prints in capfd.readouterr().out
    kinds: dict[str, str] = {}
    for place, last_step in expected.runs.items():
        run = epochal.load(next(folder.joinpath("runs").glob(place)))
        entries = (entry for kind in ("blob", "text", "file") for entry in run.view.entries(kind))
        kinds |= {e.record["name"]: str(e.record.get("media_type", "text")) for e in entries}
        assert (run.info.step or run.info.epoch or 0) >= last_step
        assert not [e for e in run.view.entries("event") if e.record["name"] == "value-dropped"]
    assert all(kinds[sample].startswith(kind) for sample, kind in expected.samples.items()), kinds


def test_every_example_is_short_listed_and_says_how_to_run_it() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert [script.stem for script in scripts] == sorted(EXPECTED)
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 80, script.name
        assert f"examples/{script.name}" in text.split('"""')[1], script.name
        assert f"[{script.name}]({script.name})" in page
