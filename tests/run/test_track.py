"""``epochal.track``: what it yields, what it shows, and what it tells the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import epochal
from epochal.run.track import Track


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[epochal.Run]:
    with epochal.init("p", "a", dir=tmp_path, companion=False, console=False) as run:
        yield run


def total_steps(run: epochal.Run) -> int | None:
    return epochal.load(run.dir).info.total_steps


def test_items_come_through_in_order_and_as_often_as_asked() -> None:
    tracked = epochal.track([3, 1, 2])
    assert list(tracked) == [3, 1, 2]
    assert list(tracked) == [3, 1, 2]
    assert len(tracked) == 3


def test_a_generator_has_no_length_until_it_is_given() -> None:
    with pytest.raises(TypeError, match="length"):
        len(epochal.track(i for i in range(3)))
    assert len(epochal.track((i for i in range(3)), total=3)) == 3
    assert list(epochal.track(i for i in range(3))) == [0, 1, 2]


@pytest.mark.slow  # loads torch
def test_a_data_loader_keeps_its_batches() -> None:
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(list(range(10)), batch_size=4)
    tracked = epochal.track(loader)
    assert len(tracked) == 3
    assert [batch.tolist() for batch in tracked] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_what_is_not_iterable_raises() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(epochal.track(3))  # type: ignore[arg-type]


def test_an_exception_of_the_loop_or_the_iterable_comes_through() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("item 2")

    with pytest.raises(KeyError, match="item 2"):
        list(epochal.track(broken()))
    with pytest.raises(ZeroDivisionError):
        sum(1 // item for item in epochal.track([1, 0]))
    assert list(epochal.track([1])) == [1]


def test_without_a_run_a_pipe_gets_one_line_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in epochal.track(range(3), "outer", unit="file"):
        for item in epochal.track(range(10)):
            if item == 2:
                break
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("outer 3/3  100%")
    assert " in " in line


def test_lines_come_every_ten_seconds_with_the_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = iter(range(0, 100, 4))
    tracked = Track(range(6), name="slow", total=6, unit="it", clock=lambda: float(next(clock)))
    assert list(tracked) == list(range(6))
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "slow 3/6   50%  4s/it  ETA 12s"
    assert last.startswith("slow 6/6  100%")


def test_a_loop_that_logs_one_step_per_item_gives_the_run_its_length(run: epochal.Run) -> None:
    for _ in epochal.track(range(5)):
        run.log({"loss": 1.0})
        if run.step == 2:
            break
    assert total_steps(run) == 5


def test_a_resumed_loop_counts_the_steps_before_it(run: epochal.Run) -> None:
    run.log({"loss": 1.0}, step=99)
    for step in epochal.track(range(100, 150)):
        run.log({"loss": 1.0}, step=step)
    assert total_steps(run) == 150


def test_a_loop_over_epochs_does_not(run: epochal.Run) -> None:
    for _ in epochal.track(range(3), unit="epoch"):
        for _ in epochal.track(range(4)):
            run.log({"loss": 1.0})
    assert total_steps(run) is None


def test_a_length_that_was_given_stays(tmp_path: Path) -> None:
    with epochal.init(
        "p", "a", dir=tmp_path, total_steps=1000, companion=False, console=False
    ) as run:
        for _ in epochal.track(range(5)):
            run.log({"loss": 1.0})
    assert total_steps(run) == 1000


_ON_A_TERMINAL = """
import time
import epochal
for i in epochal.track(range(3), "outer"):
    for j in epochal.track(range(2), "inner"):
        time.sleep(0.3 if i == 0 else 0.0)  # bars wait for 0.25 s until they are drawn again
"""


@pytest.mark.slow
def test_on_a_terminal_nested_loops_share_the_live_line() -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_A_TERMINAL],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other side has closed
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    os.close(leader)
    text = shown.decode()
    assert any("outer" in line and "inner" in line for line in text.split("\r"))
    assert text.rstrip().splitlines()[-1].lstrip("\r\x1b[2K").startswith("outer 3/3  100%")
