"""The writer's own behaviour: folders, attempts, numbers, wrong arguments."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter as TorchWriter

import epochal
from epochal import SummaryWriter
from epochal.errors import UsageError


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


def points(folder: Path, name: str) -> list[tuple[int, float]]:
    series = epochal.load(folder).series(name)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [dict(entry.record) for entry in epochal.load(folder).view.entries(kind)]


def public_methods() -> list[str]:
    return [
        name
        for name, value in vars(TorchWriter).items()
        if inspect.isfunction(value) and (not name.startswith("_") or name in ("__enter__",))
    ]


@pytest.mark.parametrize("name", [*public_methods(), "__exit__"])
def test_every_method_takes_torchs_arguments(name: str) -> None:
    ours = inspect.signature(getattr(SummaryWriter, name)).parameters.values()
    theirs = inspect.signature(getattr(TorchWriter, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours] == [
        (p.name, p.kind, p.default) for p in theirs
    ]


def test_the_constructor_takes_torchs_arguments_first() -> None:
    ours = list(inspect.signature(SummaryWriter).parameters.values())
    theirs = list(inspect.signature(TorchWriter).parameters.values())
    assert [(p.name, p.kind, p.default) for p in ours[: len(theirs)]] == [
        (p.name, p.kind, p.default) for p in theirs
    ]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in ours[len(theirs) :])


def test_every_public_method_is_described() -> None:
    for name in public_methods():
        assert name.startswith("__") or inspect.getdoc(getattr(SummaryWriter, name)), name


def test_importing_and_adding_numbers_loads_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from epochal import SummaryWriter\n"
        "with SummaryWriter(sys.argv[1]) as writer:\n"
        "    writer.add_scalar('loss', 0.5, 1)\n"
        "print(sorted({'numpy', 'torch', 'tensorboard', 'google.protobuf'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


# -- folders --------------------------------------------------------------------------------------


def test_the_default_folder_is_named_by_time_host_and_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr0.1") as writer:
        writer.add_scalar("loss", 1.0, 0)
    log_dir = str(writer.get_logdir())
    assert re.fullmatch(r"runs/[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.+_lr0\.1", log_dir)
    with epochal.open("runs") as runs:
        (run,) = runs.runs()
    assert run.name == Path(log_dir).name
    assert run.info.project == "default"


def test_the_run_lies_in_the_folder_that_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "mnist" / "Trial 1"
    with SummaryWriter(folder) as writer:
        writer.add_scalar("loss", 1.0, 0)
    assert writer.log_dir == folder
    assert (folder / "run.json").is_file()
    run = epochal.load(folder)
    assert (run.info.project, run.name) == ("mnist", "Trial 1")


def test_a_folder_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder of this machine"):
        SummaryWriter("s3://bucket/logs")


def test_two_writers_of_two_folders(tmp_path: Path) -> None:
    first, second = SummaryWriter(tmp_path / "a"), SummaryWriter(tmp_path / "b")
    for step in range(3):
        first.add_scalar("loss", 1.0 + step, step)
        second.add_scalar("loss", 10.0 + step, step)
    first.close()
    second.close()
    assert points(tmp_path / "a", "loss") == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert points(tmp_path / "b", "loss") == [(0, 10.0), (1, 11.0), (2, 12.0)]


def test_two_writers_of_one_folder_write_one_run(tmp_path: Path) -> None:
    first, second = SummaryWriter(tmp_path / "a"), SummaryWriter(tmp_path / "a")
    first.add_scalar("train", 1.0, 0)
    second.add_scalar("test", 2.0, 0)
    first.close()
    second.add_scalar("test", 3.0, 1)
    second.close()
    assert points(tmp_path / "a", "train") == [(0, 1.0)]
    assert points(tmp_path / "a", "test") == [(0, 2.0), (1, 3.0)]
    assert epochal.load(tmp_path / "a").info.status.text == "finished"


def test_a_writer_does_not_replace_the_current_run(tmp_path: Path) -> None:
    run = epochal.init("p", "r", dir=tmp_path / "runs", console=False)
    writer = SummaryWriter(tmp_path / "a")
    assert epochal.current_run() is run
    writer.close()
    run.finish()


# -- attempts -------------------------------------------------------------------------------------


def test_adding_after_close_goes_on(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path / "a")
    writer.add_scalar("loss", 1.0, 5)
    writer.close()
    writer.close()
    writer.add_scalar("loss", 2.0, 3)
    writer.close()
    assert points(tmp_path / "a", "loss") == [(3, 2.0), (5, 1.0)]


def test_a_folder_opened_again_hides_nothing(tmp_path: Path) -> None:
    for value, steps in ((1.0, range(6)), (2.0, range(4, 8))):
        with SummaryWriter(tmp_path / "a") as writer:
            for step in steps:
                writer.add_scalar("loss", value, step)
    assert [step for step, _ in points(tmp_path / "a", "loss")] == list(range(8))
    assert points(tmp_path / "a", "loss")[3:5] == [(3, 1.0), (4, 2.0)]


def test_purge_step_hides_later_steps_of_older_attempts(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        for step in range(10):
            writer.add_scalar("loss", 1.0, step)
    with SummaryWriter(tmp_path / "a", purge_step=4) as writer:
        writer.add_scalar("loss", 2.0, 4)
    assert points(tmp_path / "a", "loss") == [*((step, 1.0) for step in range(4)), (4, 2.0)]


def test_a_writer_that_purges_takes_over_from_an_open_one(tmp_path: Path) -> None:
    first = SummaryWriter(tmp_path / "a")
    for step in range(4):
        first.add_scalar("loss", 1.0, step)
    second = SummaryWriter(tmp_path / "a", purge_step=2)
    second.add_scalar("loss", 2.0, 2)
    first.add_scalar("other", 3.0, 1)
    first.close()
    second.close()
    assert points(tmp_path / "a", "loss") == [(0, 1.0), (1, 1.0), (2, 2.0)]
    assert points(tmp_path / "a", "other") == [(1, 3.0)]


def test_lower_steps_are_kept(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        for step in (5, 3, 9, 1):
            writer.add_scalar("loss", float(step), step)
    assert points(tmp_path / "a", "loss") == [(1, 1.0), (3, 3.0), (5, 5.0), (9, 9.0)]


def test_an_error_in_the_block_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), SummaryWriter(tmp_path / "a"):
        raise ZeroDivisionError
    assert epochal.load(tmp_path / "a").info.status.text == "failed"


def test_a_script_that_never_closes_loses_nothing(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from epochal import SummaryWriter\n"
        "writer = SummaryWriter(sys.argv[1])\n"
        "for step in range(100):\n"
        "    writer.add_scalar('loss', 1.0 / (step + 1), step)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], check=True)
    assert len(points(tmp_path / "a", "loss")) == 100
    assert epochal.load(tmp_path / "a").info.status.text == "finished"


def test_a_killed_process_loses_nothing_and_is_resumed(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from epochal import SummaryWriter\n"
        "writer = SummaryWriter(sys.argv[1])\n"
        "for step in range(50):\n"
        "    writer.add_scalar('loss', 1.0, step)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], check=False)
    with SummaryWriter(tmp_path / "a", purge_step=40) as writer:
        writer.add_scalar("loss", 2.0, 40)
    assert points(tmp_path / "a", "loss") == [*((step, 1.0) for step in range(40)), (40, 2.0)]


def test_the_file_writer_is_there_until_close(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        assert writer.file_writer is not None
        assert writer.file_writer.get_logdir() == str(tmp_path / "a")
        assert writer.all_writers == {str(tmp_path / "a"): writer.file_writer}
        assert writer._get_file_writer() is writer.file_writer
    assert [writer.file_writer, writer.all_writers] == [None, None]


# -- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        0.5,
        1,
        True,
        np.float32(0.5),
        np.float64(0.5),
        np.int64(3),
        np.array(0.5),
        np.array([[0.5]]),
        torch.tensor(0.5),
        torch.tensor([2]),
        torch.tensor(0.5, dtype=torch.bfloat16),
        torch.tensor(0.5, requires_grad=True),
        torch.tensor(True),
        "0.25",
    ],
    ids=repr,
)
def test_numbers_of_every_kind(tmp_path: Path, value: Any) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("x", value, 0)
        writer.add_scalar("x", value, 1, walltime=5.5)
    number = float(value.item() if hasattr(value, "item") else value)
    assert points(tmp_path / "a", "x") == [(0, number), (1, number)]


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("x", float("nan"), 0)
        writer.add_scalar("x", float("inf"), 1)
        writer.add_scalar("x", torch.tensor(float("-inf")), 2)
    values = [value for _, value in points(tmp_path / "a", "x")]
    assert np.isnan(values[0])
    assert values[1:] == [np.inf, -np.inf]


@pytest.mark.parametrize("step", [7, 7.0, np.int32(7), torch.tensor(7)], ids=repr)
def test_steps_of_every_kind(tmp_path: Path, step: Any) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("x", 0.5, step)
    assert points(tmp_path / "a", "x") == [(7, 0.5)]


def test_calls_without_a_step_are_numbered_by_tag(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        for value in (1.0, 2.0, 3.0):
            writer.add_scalar("x", value)
        writer.add_scalar("y", 4.0)
    assert points(tmp_path / "a", "x") == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert points(tmp_path / "a", "y") == [(0, 4.0)]


def test_the_given_time_is_kept(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("x", 0.5, 0, walltime=1234.5678)
        writer.add_scalars("g", {"a": 1.0, "b": 2.0}, 0, walltime=99.25)
        writer.add_text("t", "words", 0, walltime=77.5)
    run = epochal.load(tmp_path / "a")
    assert run.series("x").times.tolist() == [1234.5678]
    assert run.series("g/b").times.tolist() == [99.25]
    assert records(tmp_path / "a", "text")[0]["t"] == 77.5


def test_a_group_of_scalars_is_series_of_the_same_run(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        for step in range(2):
            writer.add_scalars("loss", {"train": 1.0 + step, "test": torch.tensor(2.0)}, step)
    assert points(tmp_path / "a", "loss/train") == [(0, 1.0), (1, 2.0)]
    assert points(tmp_path / "a", "loss/test") == [(0, 2.0), (1, 2.0)]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1.0], NotImplementedError),
        ({"a": 1.0}, NotImplementedError),
        (None, NotImplementedError),
        (np.zeros(3), AssertionError),
        (torch.zeros(2, 2), AssertionError),
        (torch.zeros(0), AssertionError),
        ("blob_name", ValueError),
        (1 + 2j, TypeError),
    ],
    ids=repr,
)
def test_what_is_no_number_raises_what_torchs_raises(
    tmp_path: Path, value: Any, error: type[Exception]
) -> None:
    with TorchWriter(str(tmp_path / "torch")) as theirs, pytest.raises(error):
        theirs.add_scalar("x", value, 0)
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(error):
        writer.add_scalar("x", value, 0)


def test_a_tag_must_be_a_text(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(TypeError, match="tag"):
        writer.add_scalar(3, 0.5, 0)  # type: ignore[arg-type]


def test_an_empty_tag_is_kept_under_a_name(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("", 0.5, 0)
    assert points(tmp_path / "a", "unnamed") == [(0, 0.5)]


def test_a_run_that_is_switched_off_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("x", 0.5, 0)
        writer.add_image("i", np.zeros((3, 4, 4)))
        writer.flush()
    assert not (tmp_path / "a").exists()


def test_flush_and_time_of_day(tmp_path: Path) -> None:
    before = time.time()
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("x", 0.5, 0)
        writer.flush()
        size = sum(path.stat().st_size for path in (tmp_path / "a" / "journal").iterdir())
        assert size > 0
    writer.flush()  # closed: nothing to do
    at = epochal.load(tmp_path / "a").series("x").times[0]
    assert before - 1 <= at <= time.time() + 1


_RANK = """
import sys
from epochal import SummaryWriter
writer = SummaryWriter(sys.argv[1])
writer.add_scalar("loss", float(sys.argv[2]), 0)
print("open", flush=True)
sys.stdin.read()
writer.close()
"""


def _start_rank(rank: int, folder: Path) -> subprocess.Popen[str]:
    ranks = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    process = subprocess.Popen(
        [sys.executable, "-c", _RANK, str(folder), str(10.0 + rank)],
        env={**os.environ, **ranks, "TORCHELASTIC_RUN_ID": "launch"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


@pytest.mark.parametrize("folders", [("same", "same"), ("zero", "one")], ids=["one", "two"])
def test_ranks_of_one_folder_write_one_run(tmp_path: Path, folders: tuple[str, str]) -> None:
    processes = [_start_rank(rank, tmp_path / folders[rank]) for rank in range(2)]
    for process in processes:
        process.communicate()
    if folders[0] == folders[1]:
        run = epochal.load(tmp_path / "same")
        assert [run.series("loss", rank=rank).values.tolist() for rank in range(2)] == [
            [10.0],
            [11.0],
        ]
        assert run.info.status.text == "finished"
    else:
        assert points(tmp_path / "zero", "loss") == [(0, 10.0)]
        assert points(tmp_path / "one", "loss") == [(0, 11.0)]


def test_writers_in_a_forked_child(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path / "a")
    writer.add_scalar("parent", 1.0, 0)
    child = os.fork()
    if child == 0:
        writer.add_scalar("child", 2.0, 0)
        os._exit(0)
    os.waitpid(child, 0)
    writer.close()
    assert points(tmp_path / "a", "parent") == [(0, 1.0)]
    assert points(tmp_path / "a", "child") == [(0, 2.0)]
