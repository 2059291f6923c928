"""Cells of a notebook that open runs, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochal.run.console.cell import calling_cell
from tests.doubles.journals import of_kind
from tests.doubles.kernels import Kernel

OPEN = "run = epochal.init('tests', {name!r}, dir={folder!r}, console=False)"
NAMES = "[run.name for run in epochal.run.current.OPEN_RUNS]"


def open_runs(kernel: Kernel) -> str:
    return kernel.run(NAMES)["text/plain"]


@pytest.mark.parametrize("cell_id", [None, "cell-1"])
@pytest.mark.slow
def test_running_a_cell_again_finishes_the_run_it_opened(
    kernel: Kernel, tmp_path: Path, cell_id: str | None
) -> None:
    cell = OPEN.format(name="model", folder=str(tmp_path))
    kernel.run(cell, cell_id=cell_id)
    kernel.run("run.log({'a': 1})")
    kernel.run(cell, cell_id=cell_id)
    assert open_runs(kernel) == "['model-2']"
    (finish,) = of_kind(tmp_path / "tests" / "model", "finish")
    assert (finish["status"], finish["reason"]) == ("finished", "its notebook cell was run again")


def test_another_cell_leaves_the_run_open(kernel: Kernel, tmp_path: Path) -> None:
    for name in ("generator", "critic"):
        kernel.run(OPEN.format(name=name, folder=str(tmp_path)))
    assert open_runs(kernel) == "['generator', 'critic']"


def test_a_cell_that_opens_two_runs_keeps_both_until_it_is_run_again(
    kernel: Kernel, tmp_path: Path
) -> None:
    one = OPEN.format(name="member", folder=str(tmp_path))
    cell = f"def start():\n    {one}\n    return run\nmembers = [start() for _ in range(2)]"
    kernel.run(cell)
    assert open_runs(kernel) == "['member', 'member-2']"
    kernel.run(cell)
    assert open_runs(kernel) == "['member-3', 'member-4']"


def test_a_cell_that_was_edited_is_the_same_cell_where_it_has_an_id(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.run(OPEN.format(name="first", folder=str(tmp_path)), cell_id="cell-2")
    kernel.run(OPEN.format(name="second", folder=str(tmp_path)), cell_id="cell-2")
    assert open_runs(kernel) == "['second']"


def test_a_function_of_one_cell_opens_the_run_of_the_cell_that_calls_it(
    kernel: Kernel, tmp_path: Path
) -> None:
    one = OPEN.format(name="called", folder=str(tmp_path))
    kernel.run(f"def start():\n    {one}\n    return run")
    kernel.run("a = start()")
    kernel.run("b = start()")
    assert open_runs(kernel) == "['called', 'called-2']"
    kernel.run("a = start()")
    assert open_runs(kernel) == "['called-2', 'called-3']"


def test_a_script_has_no_cells() -> None:
    assert calling_cell() is None
