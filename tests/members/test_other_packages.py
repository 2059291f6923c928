"""One package adds a rule, a sink and an importer that work, and one of each that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.packages import write_package
from tests.exchange.imports.test_registry import IMPORTER
from tests.exchange.sinks.test_registry import SINK
from tests.health.test_registry import RULE

pytestmark = pytest.mark.slow

ENTRY_POINTS = """
[epochal.rules]
too-warm = more_members.rules:TooWarm
raising = more_members.rules:Raising
absent = more_members.absent:Nothing
[epochal.sinks]
diary = more_members.sinks:DiarySink
failing = more_members.sinks:Failing
[epochal.importers]
diary = more_members.diary
broken = more_members.broken
"""
RULES = f"""{RULE}

class Raising(TooWarm):
    name = "raising"

    def observe(self, observation, context):
        raise RuntimeError("not written yet")
"""
SINKS = f"""{SINK}

class Failing(Sink):
    name = "failing"

    def open(self, context):
        return True

    def write(self, batch):
        raise RuntimeError("nobody is there")

    def flush(self):
        return {{}}

    def close(self, status):
        return {{}}
"""
BROKEN = """
def find(path, bounds=None):
    raise RuntimeError("no idea")
"""
TRAINING = """
import sys, epochal
sinks = {"report_to": ["diary", "failing"], "diary_file": sys.argv[1] + "/steps.txt"}
with epochal.init("p", "x", dir=sys.argv[1], **sinks) as run:
    for step in range(20):
        run.log({"loss": 1.0 / (step + 1), "room": 35.0}, step=step)
"""
COMMAND = "import sys; from epochal.cli.main import main; sys.exit(main(sys.argv[1:]))"


class Installed:
    """Programs that run where the package is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        write_package(folder, "more_members", ENTRY_POINTS)
        package = folder / "more_members"
        package.mkdir()
        files = {"__init__": "", "rules": RULES, "sinks": SINKS, "diary": IMPORTER}
        for name, text in {**files, "broken": BROKEN}.items():
            (package / f"{name}.py").write_text(text)

    def run(self, script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if k != "EPOCHAL_COMPANION"}
        return subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**environment, "PYTHONPATH": str(self._folder)},
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("other") / "installed")


@pytest.fixture(scope="module")
def runs(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    done = installed.run(TRAINING, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_training_ends_and_its_sink_and_rule_have_worked(
    installed: Installed, runs: Path
) -> None:
    assert (runs / "steps.txt").read_text().split() == [str(n) for n in range(20)]
    done = installed.run(COMMAND, "ls", "--dir", runs)
    assert "finished" in done.stdout
    assert "suspicious" in done.stdout


def test_doctor_names_the_package_of_each_fault_once(installed: Installed, runs: Path) -> None:
    done = installed.run(COMMAND, "doctor", "x", "--dir", runs)
    assert "35.0 degrees." in done.stdout
    text = " ".join(done.stdout.split())
    for member in ("rule absent", "rule raising", "sink failing"):
        assert text.count(f"{member}: ") == 1, done.stdout
    assert text.count("(package more-members)") == 3
    assert "to the authors of more-members with the tracebacks" in text


def test_an_importer_reads_its_files_beside_one_that_fails(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "monday.diary").write_text("3.0\n2.0\n")
    done = installed.run(COMMAND, "ls", tmp_path)
    assert "monday" in done.stdout
    (tmp_path / "unknown.bin").write_text("?")
    done = installed.run(COMMAND, "import", tmp_path / "unknown.bin", "--dir", tmp_path / "runs")
    assert done.returncode == 2
    assert "importer broken failed: RuntimeError: no idea." in done.stderr
    assert "a defect of the package 'more-members': please report it" in done.stderr
