from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.journal.process import process_identity
from epochal.store.local.catalog import folder_store
from tests.doubles.scripts import start_script
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")

TRAINS = """
run = start()
run.log({"loss": 1.0}, step=7)
print(flush=True)
while True:
    time.sleep(0.05)
"""
SAVES = """
import torch
from epochal.torch.checkpoint.checkpoints import Checkpoints
from epochal.torch.checkpoint.training_state import TrainingState
torch.set_num_threads(1)
run = start()
with Checkpoints(run, TrainingState(torch.nn.Linear(1, 1))) as checkpoints:
    for step in range(10**9):
        run.log({"loss": 1.0}, step=step)
        if step == 0:
            print(flush=True)
        time.sleep(0.02)
        checkpoints.step(step)
"""


@contextmanager
def training(root: Path, source: str = TRAINS) -> Iterator[subprocess.Popen[str]]:
    with start_script(root, source) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_training_ends_and_says_that_it_was_terminated(tmp_path: Path, capsys: Capture) -> None:
    with training(tmp_path) as process:
        assert main(["stop", "run", "--dir", str(tmp_path)]) == 0
        assert process.wait(timeout=120) != 0
    out = capsys.readouterr().out
    assert f"asked to stop (SIGTERM to process {process.pid})" in out
    assert "It has ended: terminated (SIGTERM), step 7." in out


def test_one_with_checkpoints_saves_first(tmp_path: Path, capsys: Capture) -> None:
    with training(tmp_path, SAVES):
        assert main(["stop", "run", "--json", "--dir", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["signal"], answer["ended"]) == ("SIGTERM", True)
    assert main(["manage", "checkpoints", "run", "--json", "--dir", str(tmp_path)]) == 0
    (saved,) = json.loads(capsys.readouterr().out)
    assert saved["classes"] == ["latest", "emergency"]


def test_a_suspended_training_says_so_and_can_go_on_or_stop(
    tmp_path: Path, capsys: Capture
) -> None:
    with training(tmp_path) as process:
        where = ["--dir", str(tmp_path)]
        assert main(["stop", "run", "--suspend", *where]) == 0
        view = folder_store(tmp_path).run("run")
        while view.status.text != "suspended":
            pass
        assert main(["stop", "run", "--continue", *where]) == 0
        while view.status.text != "running":
            pass
        main(["stop", "run", "--suspend", *where])
        assert main(["stop", "run", *where]) == 0
        assert process.wait(timeout=120) != 0


def test_an_interrupt_is_ctrl_c(tmp_path: Path, capsys: Capture) -> None:
    with training(tmp_path):
        assert main(["stop", "run", "--interrupt", "--dir", str(tmp_path)]) == 0
    assert "It has ended: interrupted" in capsys.readouterr().out


def test_killing_is_asked_about(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with training(tmp_path) as process:
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        assert main(["stop", "run", "--kill", "--dir", str(tmp_path)]) == 2
        assert process.poll() is None
        assert main(["stop", "run", "--kill", "-y", "--dir", str(tmp_path)]) == 0
        assert process.wait(timeout=120) == -9
    assert "Nothing was changed." in capsys.readouterr().out


def test_all_ranks_of_this_machine_are_asked(tmp_path: Path, capsys: Capture) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleep) as first, subprocess.Popen(sleep) as second:
        journal = Journal(tmp_path, **process_identity(first.pid))
        journal.metrics(1, loss=1.0)
        header = {"log": "run", "writer": "rank-0001", **process_identity(second.pid)}
        journal.path("rank-0001").write_text(json.dumps(header) + "\n")
        main(["stop", "x", "--wait", "0s", "--dir", str(tmp_path)])
        assert (first.wait(timeout=120), second.wait(timeout=120)) == (-15, -15)
    assert "2 processes" in capsys.readouterr().out


def test_a_run_of_another_machine_is_refused_with_its_name(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path, **{**process_identity(), "host": "node-7"})
    journal.metrics(1, loss=1.0)
    assert main(["stop", "x", "--dir", str(tmp_path)]) == 2
    assert "on the machine 'node-7'" in capsys.readouterr().err


def test_part_of_a_run_is_not_suspended_alone(tmp_path: Path, capsys: Capture) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        journal = Journal(tmp_path, **process_identity(process.pid)).metrics(1, loss=1.0)
        header = {"log": "run", "writer": "rank-0001", **process_identity(), "host": "node-7"}
        journal.path("rank-0001").write_text(json.dumps(header) + "\n")
        assert main(["stop", "x", "--suspend", "--dir", str(tmp_path)]) == 2
        assert "1 of 2 processes elsewhere" in capsys.readouterr().err
        process.kill()


def test_a_run_that_has_ended_is_not_signalled(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, **process_identity()).metrics(1, loss=1.0).finish()
    assert main(["stop", "x", "--dir", str(tmp_path)]) == 2
    assert "does not run: it is finished" in capsys.readouterr().err
