from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.journal.process import process_identity
from epochal.store.local.catalog import folder_store
from epochal.torch.checkpoint.manifest import Manifest, write_manifest
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]

TRAIN = """
import argparse, os, sys
import torch
import epochal
from epochal import Checkpoints, TrainingState
torch.set_num_threads(1)
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--until", type=int, default=10)
args = parser.parse_args()
run = epochal.init("p", config=vars(args), console=False)
model = torch.nn.Linear(1, 1)
with Checkpoints(run, TrainingState(model), every=4) as checkpoints:
    restored = checkpoints.restore()
    for step in range(restored.next_step if restored else 0, 10):
        run.log({"loss": 1.0, "lr": args.lr}, step=step)
        checkpoints.step(step)
        if step == args.until:
            os._exit(3)
run.finish()
"""


def ended(root: Path, **facts: Any) -> Journal:
    """A run that failed at step 9, started as these facts say."""
    command = [sys.executable, "train.py", "--lr", "0.5", "--name=a b", "--flag"]
    given = {"command": command, "cwd": str(root), "config": {"lr": 0.5, "net": {"depth": 2}}}
    journal = Journal(root, **{**process_identity(), **given, **facts})
    return journal.metrics(9, loss=1.0).finish("failed")


def checkpoint(journal: Journal, step: int = 7, **facts: Any) -> Path:
    return checkpoint_in(journal.folder.path / "checkpoints", step, **facts)


def checkpoint_in(place: Path, step: int, *, saved: float = 1.0, **facts: Any) -> Path:
    folder = place / f"step-{step}"
    folder.mkdir(parents=True)
    write_manifest(folder, Manifest(step=step, kind="rolling", saved=saved, files={}, **facts))
    return folder


def plan(root: Path, capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["resume", "x", "--json", "--dir", str(root), *arguments]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_crashed_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    root = tmp_path / "runs"
    environment = {**os.environ, "EPOCHAL_DIR": str(root), "EPOCHAL_GIT": "0"}
    crash = [sys.executable, "train.py", "--until", "6"]
    assert subprocess.run(crash, cwd=tmp_path, env=environment, check=False).returncode == 3
    again = [sys.executable, "-m", "epochal", "--dir", str(root), "resume", "--run"]
    name = folder_store(root).runs()[0].info.name
    done = subprocess.run(
        [*again, name, "--args=--lr 0.25 --until 99"],
        env={**environment, "EPOCHAL_DIR": "elsewhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "continues at  step 4" in done.stdout
    assert "lr: 0.5 → 0.25" in done.stdout
    (view,) = folder_store(root).runs()
    assert (view.info.attempts, view.info.status.state, view.info.step) == (2, "finished", 9)
    assert view.series("lr").values.tolist() == [0.5] * 4 + [0.25] * 6


def test_checkpoints_elsewhere_are_found_by_the_journal(tmp_path: Path, capsys: Capture) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN.replace("every=4)", "every=4, folder='elsewhere')"))
    root = tmp_path / "runs"
    environment = {**os.environ, "EPOCHAL_DIR": str(root), "EPOCHAL_GIT": "0", "EPOCHAL_NAME": "x"}
    crash = [sys.executable, "train.py", "--until", "6"]
    assert subprocess.run(crash, cwd=tmp_path, env=environment, check=False).returncode == 3
    found = plan(root, capsys)
    assert (found["checkpoint"], found["next_step"]) == (str(tmp_path / "elsewhere" / "step-3"), 4)
    assert not [remark for remark in found["remarks"] if "no checkpoint" in remark]


def test_of_several_places_the_newest_save_counts(tmp_path: Path, capsys: Capture) -> None:
    journal = ended(tmp_path)
    checkpoint(journal, 5, saved=2.0)
    for place, step, saved in (("older", 8, 1.0), ("newer", 6, 3.0)):
        path = checkpoint_in(tmp_path / place, step, saved=saved, run_id="id-x")
        said = {"name": "checkpoint", "step": step, "path": f"{place}/step-{step}"}
        journal.add({"log": "event", **said})
    checkpoint_in(tmp_path / "newer", 9, saved=4.0, run_id="id-other")
    assert plan(tmp_path, capsys)["checkpoint"] == str(path)


def test_where_no_checkpoint_was_found_is_said(tmp_path: Path, capsys: Capture) -> None:
    journal = ended(tmp_path)
    journal.add({"log": "event", "name": "checkpoint", "step": 3, "path": "/gone/x/step-3"})
    own = journal.folder.path / "checkpoints"
    assert plan(tmp_path, capsys)["remarks"][0] == (
        f"it has no checkpoint in {own} or /gone/x:"
        " unless the program saves its own, training starts with new weights."
    )


def test_the_command_is_one_line_for_a_shell(tmp_path: Path, capsys: Capture) -> None:
    ended(tmp_path)
    assert main(["-q", "resume", "x", "--dir", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        f"cd {tmp_path} && EPOCHAL_DIR={tmp_path} EPOCHAL_PROJECT=p EPOCHAL_NAME=x"
        f" EPOCHAL_RESUME=must {sys.executable} train.py --lr 0.5 '--name=a b' --flag"
    )


def test_given_arguments_take_the_place_of_their_like(tmp_path: Path, capsys: Capture) -> None:
    ended(tmp_path)
    found = plan(tmp_path, capsys, "--args=--lr 0.1 --name c --depth=4")
    assert found["command"][1:] == ["train.py", "--flag", "--lr", "0.1", "--name", "c", "--depth=4"]
    assert found["drift"] == [
        {"name": "lr", "saved": 0.5, "now": 0.1},
        {"name": "name", "saved": "(absent)", "now": "c"},
        {"name": "net.depth", "saved": 2, "now": 4},
    ]


def test_what_changed_since_the_checkpoint_is_drift_too(tmp_path: Path, capsys: Capture) -> None:
    checkpoint(ended(tmp_path), config={"lr": 0.75, "net": {"depth": 2}})
    found = plan(tmp_path, capsys)
    assert found["drift"] == [{"name": "lr", "saved": 0.75, "now": 0.5}]
    assert found["next_step"] == 8
    assert "2 steps are run again." in found["remarks"]


@pytest.mark.parametrize(
    ("words", "external", "told"),
    [
        ([], {}, []),
        (["--resume", "old", "-v"], {}, ["-v", "--resume", "PATH"]),
        (["--resume"], {}, ["--resume"]),
        ([], {"resume_with": "--from {checkpoint} -x"}, ["--from", "PATH", "-x"]),
    ],
)
def test_only_a_program_that_takes_a_checkpoint_is_told(
    words: list[str], external: dict[str, str], told: list[str], tmp_path: Path, capsys: Capture
) -> None:
    """A setting of the name ``resume`` is no proof of an argument."""
    journal = ended(tmp_path, command=["python", "t.py", *words], config={"resume": None})
    path = checkpoint(journal, external=external)
    found = plan(tmp_path, capsys)
    command = ["python", "t.py", *(str(path) if word == "PATH" else word for word in told)]
    assert found["command"] == command
    explains = any("EPOCHAL_RESUME=must makes" in remark for remark in found["remarks"])
    assert explains == ("PATH" not in told)


def test_torchrun_is_put_before_a_run_of_several_processes(tmp_path: Path, capsys: Capture) -> None:
    command = [sys.executable, "-u", "-X", "dev", "train.py", "--a"]
    journal = ended(tmp_path, command=command, world_size=2, launch_id="elastic-none-h-1-0")
    journal.metrics(9, loss=1.0, writer="rank-0001")
    assert plan(tmp_path, capsys)["command"] == [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "train.py",
        "--a",
    ]


def test_slurm_needs_an_allocation(tmp_path: Path, capsys: Capture) -> None:
    ended(tmp_path, world_size=8, launch_id="slurm-1-0-0")
    found = plan(tmp_path, capsys)
    assert found["command"][:2] == ["srun", "--ntasks=8"]
    assert any("allocation" in remark for remark in found["remarks"])


def test_what_is_not_as_it_was_is_said(tmp_path: Path, capsys: Capture) -> None:
    ended(tmp_path, host="node-7", cwd="/nowhere")
    remarks = " ".join(plan(tmp_path, capsys)["remarks"])
    for words in ("no checkpoint in", "it ran on 'node-7'", "its folder /nowhere is not here"):
        assert words in remarks


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (None, "does not record which command"),
        (["python", "-m", "ipykernel_launcher", "-f", "k.json"], "started in a notebook"),
    ],
)
def test_what_cannot_be_started_again_is_refused(
    command: object, words: str, tmp_path: Path, capsys: Capture
) -> None:
    ended(tmp_path, command=command)
    assert main(["resume", "x", "--dir", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_a_run_that_still_goes_on_is_not_resumed(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, command=["python", "t.py"]).metrics(1, loss=1.0)
    assert main(["resume", "x", "--dir", str(tmp_path)]) == 2
    assert "epochal stop p/x" in capsys.readouterr().err


def test_arguments_that_cannot_be_read_are_refused(tmp_path: Path, capsys: Capture) -> None:
    ended(tmp_path)
    assert main(["resume", "x", "--args='", "--dir", str(tmp_path)]) == 2
    assert "cannot be read as arguments" in capsys.readouterr().err
