"""``python -m epochal.wandb``: unchanged scripts, their children and ranks, and the companion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import epochal
import epochal.wandb as wandb
from epochal.settings import child_environment
from epochal.wandb.launcher import STAND_IN, command_of, stand_in_environment

FORM = "import wandb\nassert wandb.__name__ == 'epochal.wandb'\n"


def launch(folder: Path, *arguments: str, code: str = "", **variables: str) -> str:
    """Run a script under the launcher; what it printed."""
    (folder / "script.py").write_text(code, encoding="utf-8")
    env = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-m", "epochal.wandb", *arguments],
        cwd=folder,
        env={**env, "EPOCHAL_COMPANION": "off", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_import_wandb_is_epochal_with_its_version(tmp_path: Path) -> None:
    code = FORM + (
        "import sys\n"
        "from importlib import metadata, util\n"
        "print(metadata.version('wandb'), util.find_spec('wandb') is not None)\n"
        "print(sys.argv[1:], wandb.__version__)\n"
    )
    out = launch(tmp_path, "script.py", "--lr", "0.1", code=code)
    assert out.splitlines() == ["0.31.0+epochal True", "['--lr', '0.1'] 0.31.0"]


def test_submodules_of_the_real_package_exist_or_say_one_sentence(tmp_path: Path) -> None:
    code = FORM + (
        "import wandb.plot, wandb.data_types, wandb.errors\n"
        "from wandb.sdk.wandb_run import Run\n"
        "from wandb.sdk.lib import RunDisabled\n"
        "from wandb.errors import CommError, UsageError\n"
        "from wandb.apis.public import Api\n"
        "from wandb.sdk.data_types.base_types.wb_value import WBValue\n"
        "from wandb import Table, Artifact, util\n"
        "assert Run is wandb.Run and Api is wandb.Api and CommError is wandb.CommError\n"
        "import sys\n"
        "assert wandb.plot is sys.modules['epochal.wandb.plot'] is sys.modules['wandb.plot']\n"
        "assert issubclass(Table, WBValue) and len(util.generate_id()) == 8\n"
        "from wandb.errors.term import termwarn\n"
        "assert termwarn is wandb.termwarn and wandb.api.default_entity\n"
        "try:\n"
        "    from wandb.proto import wandb_internal_pb2\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    (said,) = launch(tmp_path, "script.py", code=code).splitlines()
    assert said.startswith("wandb.proto is not part of epochal.wandb: ")


def test_an_integration_of_the_installed_wandb_records_to_epochal(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("lightning.fabric")
    code = FORM + (
        "from wandb.integration.lightning.fabric import WandbLogger\n"
        "logger = WandbLogger(project='p', name='n')\n"
        "logger.log_hyperparams({'lr': 0.1})\n"
        "logger.log_metrics({'loss': 0.5}, step=3)\n"
        "assert logger.experiment is wandb.run\n"
    )
    launch(tmp_path, "script.py", code=code)
    run = epochal.load(tmp_path / "runs" / "p" / "n")
    assert run.series("loss").values.tolist() == [0.5]
    assert run.config["lr"] == 0.1


def test_a_folder_of_wandb_beside_the_script_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "offline-run-1").mkdir()
    launch(tmp_path, "python", "script.py", code=FORM)


def test_children_and_spawned_processes_see_it(tmp_path: Path) -> None:
    code = (
        "import multiprocessing, subprocess, sys\n"
        + FORM
        + "def work(n):\n"
        + "    import wandb\n"
        + "    run = wandb.init(project='p')\n"
        + "    run.log({'child': n})\n"
        + "if __name__ == '__main__':\n"
        + "    subprocess.run([sys.executable, '-c', "
        + repr(FORM)
        + "], check=True)\n"
        + "    run = wandb.init(project='p', name='parent')\n"
        + "    run.log({'loss': 1.0})\n"
        + "    child = multiprocessing.get_context('spawn').Process(target=work, args=(3,))\n"
        + "    child.start(); child.join()\n"
        + "    run.finish()\n"
    )
    launch(tmp_path, "script.py", code=code)
    with epochal.open(tmp_path / "runs") as runs:
        (run,) = runs.runs()
        assert run.series("loss").values.tolist() == [1.0]
        assert run.series("child").values.tolist() == [3.0]


def test_a_run_is_handed_to_a_spawned_process(tmp_path: Path) -> None:
    code = (
        "import multiprocessing, pickle, wandb\n"
        "def work(run):\n"
        "    run.log({'child': 3.0})\n"
        "if __name__ == '__main__':\n"
        "    run = wandb.init(project='p', name='parent')\n"
        "    assert pickle.loads(pickle.dumps(run)) is run\n"
        "    child = multiprocessing.get_context('spawn').Process(target=work, args=(run,))\n"
        "    child.start(); child.join()\n"
        "    assert child.exitcode == 0\n"
    )
    launch(tmp_path, "script.py", code=code)
    with epochal.open(tmp_path / "runs") as runs:
        (run,) = runs.runs()
        assert run.series("child").values.tolist() == [3.0]


def test_torchrun_records_one_run_of_two_ranks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = FORM + (
        "import os\n"
        "run = wandb.init(project='p', name='ranks')\n"
        "for step in range(3):\n"
        "    run.log({'loss': float(os.environ['RANK']) + step})\n"
        "run.finish()\n"
    )
    arguments = ("torchrun", "--standalone", "--nproc-per-node=2", "script.py")
    launch(tmp_path, *arguments, code=code, OMP_NUM_THREADS="1")
    with epochal.open(tmp_path / "runs") as runs:
        (run,) = runs.runs()
        assert run.series("loss").values.tolist() == [0.0, 1.0, 2.0]
        assert run.series("loss", rank=1).values.tolist() == [1.0, 2.0, 3.0]


def test_accelerate_launch_finds_it(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    code = FORM + "wandb.init(project='p', name='launched').log({'loss': 1.0})\n"
    launch(tmp_path, "accelerate", "launch", "--cpu", "--num_processes=1", "script.py", code=code)
    assert (tmp_path / "runs" / "p" / "launched").is_dir()


def test_a_crash_of_the_script_is_recorded_and_its_exit_code_stays(tmp_path: Path) -> None:
    script = "import wandb\nwandb.init(project='p').log({'loss': 1.0})\nraise KeyError('no data')\n"
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "-m", "epochal.wandb", "script.py"]
    env = {**os.environ, "EPOCHAL_COMPANION": "off"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 1
    with epochal.open(tmp_path / "runs") as runs:
        (run,) = runs.runs()
        assert run.info.status.state == "failed"


def test_the_recorded_command_starts_the_script_under_it_again(tmp_path: Path) -> None:
    launch(tmp_path, "script.py", "--lr", "1", code=FORM + "wandb.init(project='p', name='n')\n")
    identity = json.loads((tmp_path / "runs" / "p" / "n" / "run.json").read_bytes())
    started = ["-m", "epochal.wandb", "python", "script.py", "--lr", "1"]
    assert identity["command"][1:] == started


def test_the_companion_starts_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in stand_in_environment({"PYTHONPATH": "/elsewhere"}).items():
        monkeypatch.setenv(name, value)
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(STAND_IN), "/elsewhere"]
    root = Path(epochal.__file__).parents[1]
    assert str(STAND_IN) not in child_environment(root)["PYTHONPATH"].split(os.pathsep)
    assert "/elsewhere" in child_environment(root)["PYTHONPATH"].split(os.pathsep)


def test_the_sink_of_a_run_under_it_gets_the_real_package(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    code = FORM + "wandb.init(project='p', name='both').log({'loss': 1.5})\nwandb.finish()\n"
    sinks = '[sinks]\nreport_to = ["wandb"]\nwandb_dir = "sent"\n'
    (tmp_path / "epochal.toml").write_text(sinks)
    variables = {"EPOCHAL_COMPANION": "on", "WANDB_MODE": "offline"}
    launch(tmp_path, "script.py", code=code, **variables)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("sent/wandb/offline-*/*.wandb")) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(list(tmp_path.glob("sent/wandb/offline-*/*.wandb"))) == 1, (
        "W&B's own package wrote no log"
    )


def test_commands_are_found_and_what_is_none_is_said() -> None:
    assert command_of(["script.py", "a"]) == [sys.executable, "script.py", "a"]
    assert command_of(["-m", "mod"]) == [sys.executable, "-m", "mod"]
    assert command_of(["python", "-u", "x.py"]) == [sys.executable, "-u", "x.py"]
    with pytest.raises(epochal.UsageError, match="'no-such-program' is neither"):
        command_of(["no-such-program"])


def test_a_writer_of_tensorboard_in_the_script_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch.utils.tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_COMPANION", "off")
    run = wandb.init(project="p", sync_tensorboard=True)
    first, second = SummaryWriter("logs/train"), SummaryWriter("logs/eval")
    for step in range(3):
        first.add_scalar("loss", step * 0.5, step)
        second.add_scalar("loss", step * 2.0, step)
    first.add_text("note", "words", 1)
    first.close()
    second.close()
    run.finish()
    data = epochal.load(run.sync_dir)
    assert data.series("loss").values.tolist() == [0.0, 0.5, 1.0]
    assert data.series("eval/loss").values.tolist() == [0.0, 2.0, 4.0]
    assert len(data.view.texts()) == 1
    after = SummaryWriter("logs/later")
    after.add_scalar("later", 1.0, 0)
    after.close()
    assert list((tmp_path / "logs" / "train").glob("*tfevents*"))
