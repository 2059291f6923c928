"""Commands on a disk without file locks, such as some network disks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exchange.imports.samples import GOLDEN
from tests.store.journals import Journal

SOURCE = Path(__file__).parent.parent / "doubles" / "no_locks.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that refuses every lock of the process in which it is loaded."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler makes a preloaded library here")
    target = tmp_path_factory.mktemp("no-locks") / "no_locks.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, SOURCE, "-ldl"], check=True)
    return target


def epochal(library: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "epochal", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "EPOCHAL_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )


@pytest.mark.parametrize("command", [["serve"], ["token", "add", "machine", "--hub"]])
def test_a_hub_says_that_it_needs_locks(command: list[str], library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    done = epochal(library, tmp_path, "hub", *command, str(folder))
    assert done.returncode == 2
    assert done.stderr == (
        f"epochal: the disk of {folder} has no file locks, which a hub needs: keep its folder on a"
        " local disk, or mount a network disk with locks.\n"
    )


def test_runs_are_listed(library: Path, tmp_path: Path) -> None:
    Journal(tmp_path / "runs").metrics(1, loss=0.5).finish()
    done = epochal(library, tmp_path, "--dir", str(tmp_path / "runs"), "ls", "--json")
    assert '"loss":0.5' in done.stdout
    # The index would wait for a lock that never comes, in every command.
    assert not any((tmp_path / "cache").rglob("*.sqlite*"))


def test_an_sqlite_file_of_another_tracker_is_read(library: Path, tmp_path: Path) -> None:
    shutil.copyfile(GOLDEN / "mlflow.db", tmp_path / "mlflow.db")
    done = epochal(library, tmp_path, "ls", str(tmp_path / "mlflow.db"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "finished" in done.stdout
