"""What every sink keeps to, judged by each tracker's own reader; a new one adds a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from epochal.run.run import Run
from epochal.sinks.registry import make_sink, own_sinks
from tests.conftest import StartRun
from tests.sinks import readers
from tests.sinks.trackers import ask, python_with, send


@dataclass(frozen=True)
class Member:
    """Where a sink is told to write, how that is read back, and how it calls the training loss."""

    package: str
    reader: str
    options: Callable[[Path], dict[str, str]]
    argument: Callable[[Path, Run], str]
    loss: str = "train/loss"


MEMBERS: dict[str, Member] = {
    "json_log": Member(
        "epochal",
        readers.JSON_LOG,
        lambda folder: {"log_file": str(folder / "log.json")},
        lambda folder, _run: str(folder / "log.json"),
    ),
    "plain_log": Member(
        "epochal",
        readers.PLAIN_LOG,
        lambda folder: {"plain_log_file": str(folder / "log.txt")},
        lambda folder, _run: str(folder / "log.txt"),
        loss="train",
    ),
    "tensorboard": Member(
        "tensorboard",
        readers.TENSORBOARD,
        lambda folder: {"tensorboard_dir": str(folder), "run_name": "Named by hand"},
        lambda folder, _run: str(folder / "Named by hand"),
        loss="Loss/train",
    ),
    "wandb": Member(
        "wandb",
        readers.WANDB,
        lambda folder: {"wandb_mode": "offline", "wandb_dir": str(folder)},
        lambda folder, _run: str(folder),
    ),
    "aim": Member(
        "aim",
        readers.AIM,
        lambda folder: {"aim_repo": str(folder)},
        lambda folder, _run: str(folder),
    ),
    "mlflow": Member(
        "mlflow",
        readers.MLFLOW,
        lambda folder: {"mlflow_tracking_uri": f"sqlite:///{folder}/mlflow.db"},
        lambda folder, _run: f"sqlite:///{folder}/mlflow.db",
    ),
    "trackio": Member(
        "trackio",
        readers.TRACKIO,
        lambda _folder: {},
        lambda _folder, run: run.name,
    ),
}
every_sink = pytest.mark.parametrize("name", MEMBERS)


def test_every_sink_is_put_to_the_test() -> None:
    assert MEMBERS.keys() == own_sinks().keys()


@every_sink
def test_sink_is_made_by_its_name_without_its_tracker(name: str) -> None:
    assert make_sink(name).close(None) == {}


@every_sink
def test_records_arrive_once_over_a_stop_and_a_crash(
    name: str, start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = MEMBERS[name]
    python = python_with(member.package)
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setenv("TRACKIO_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    options = member.options(folder)
    run = start_run(config={"lr": 0.1, "model": {"depth": 2}})
    _log_steps(run, range(10))
    send(python, run.dir, name, options=options)
    _log_steps(run, range(10, 20))
    send(python, run.dir, name, crash=True, options=options)
    _log_steps(run, range(20, 30))
    run.finish()
    standing = send(python, run.dir, name, options=options)
    assert standing["phase"] == "closed"
    found = ask(python, member.reader, member.argument(folder, run))
    assert found[member.loss] == [[step, pytest.approx(1 / (step + 1))] for step in range(30)]


def _log_steps(run: Run, steps: range) -> None:
    for step in steps:
        run.log_step(step, step / 10, 1024, 100, 0.5, 1 / (step + 1), 1e-3)
