"""A run in a notebook cell: a live display while it trains, a summary that stays, a link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.run.run import recorder_of
from tests.conftest import StartRun
from tests.doubles.kernels import Kernel, Output

BEGIN = "run = epochal.init('tests', {name!r}, dir={folder!r}, companion=False{more})\n"
# A cell that trains until a second drawing is due; a step of its loss is a spike.
TRAIN = """
import time
begin = time.monotonic()
for step in range({steps}):
    run.log({{"loss": 9.5 if step == 3 else 1.0 / (step + 1), "lr": 0.1}})
    while step == {steps} // 2 and time.monotonic() < begin + 0.6:
        time.sleep(0.01)
"""


def begin(folder: Path, name: str = "shown", more: str = "") -> str:
    return BEGIN.format(name=name, folder=str(folder), more=more)


def assert_static(html: str) -> None:
    assert all(word not in html for word in ("<script", "<iframe", "http://127", "onload"))


def test_a_cell_that_trains_has_one_display_that_becomes_a_summary(
    kernel: Kernel, tmp_path: Path
) -> None:
    cell = begin(tmp_path, more=", total_steps=200") + TRAIN.format(steps=200) + "run.finish()"
    output = kernel.execute(cell)
    assert len(output.displays) == 1
    (states,) = output.displays.values()
    assert len(states) >= 3
    assert all("<svg" in state and "of 200 steps" in state for state in states)
    live, last = states[1], states[-1]
    assert "running for" in live
    assert " left" in live
    assert "finished after" in last
    assert "100% · 200 of 200 steps" in last
    assert " left" not in last
    for fact in ("0.0050", "at step 199", "9.5000", "lr", "serve"):  # last, best, the spike
        assert fact in last
    assert_static(last)
    assert "::" not in output.text  # no step lines besides
    again = kernel.run("run")["text/html"]
    assert again == last


def test_a_run_that_goes_on_in_another_cell_is_shown_there(kernel: Kernel, tmp_path: Path) -> None:
    opened = kernel.execute(begin(tmp_path))
    assert not opened.displays
    assert "is recorded in" in opened.text
    first = kernel.execute(TRAIN.format(steps=20))
    (states,) = first.displays.values()
    assert "not finished: the cell ended at" in states[-1]
    assert_static(states[-1])
    second = kernel.execute("run.log({'loss': 0.5})")
    (key,) = second.displays
    assert key not in first.displays
    end = kernel.execute("run.finish()")
    assert list(end.displays) == [key]  # drawn in the cell that showed it last
    assert "finished after" in end.displays[key][-1]


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_interrupted_cell_says_so(kernel: Kernel, tmp_path: Path, is_closed: bool) -> None:
    loop = "for step in range(50):\n    run.log({'loss': 1.0})\nraise KeyboardInterrupt"
    if is_closed:
        loop = "with run:\n    " + loop.replace("\n", "\n    ")
    output = kernel.execute(begin(tmp_path, more=", total_steps=100") + loop, fails=True)
    (states,) = output.displays.values()
    expected = "interrupted after" if is_closed else "the cell was stopped by KeyboardInterrupt"
    assert expected in states[-1]
    assert "50% · 50 of 100 steps" in states[-1]
    assert_static(states[-1])


def test_notices_and_evaluations_are_part_of_the_card(kernel: Kernel, tmp_path: Path) -> None:
    output = kernel.execute(
        begin(tmp_path)
        + "for step in range(10):\n"
        + "    run.log_step(step, None, 100, 5.0, 1.0, float('nan') if step > 5 else 1.0, 0.1)\n"
        + "run.log_eval(9, None, 100, 5.0, 0.75)\n"
        + "run.log({'odd': None, 'score': 0.125})\n"
        + "run.define('sc*', goal='max')\n"
        + "run.finish()"
    )
    (states,) = output.displays.values()
    last = states[-1]
    assert "&gt;&gt; eval" in last
    assert "0.7500" in last
    assert "nan" in last
    assert "odd" in last  # the value that was left out
    assert last.count("<polyline") == 2
    assert last.index("score") < last.index("train/loss"), "declared goals come first"
    assert_static(last)


def test_epochs_have_a_bar_and_their_own_axis(kernel: Kernel, tmp_path: Path) -> None:
    output = kernel.execute(
        f"monitor = epochal.Monitor(3, 'epochs', project='p', dir={str(tmp_path)!r},"
        " companion=False)\n"
        "for epoch in range(3):\n"
        "    monitor.log(epoch, 0.1, {'loss': 3.0 - epoch, 'val_loss': 4.0 - epoch})\n"
        "monitor.finish()"
    )
    (states,) = output.displays.values()
    assert "3 of 3 epochs" in states[-1]
    assert "at epoch 3" in states[-1]
    assert states[-1].count("<polyline") == 2


def test_several_runs_of_a_cell_have_a_display_each(kernel: Kernel, tmp_path: Path) -> None:
    one = f"with epochal.init('tests', f'lr{{lr}}', dir={str(tmp_path)!r}, companion=False) as run:"
    cell = f"for lr in epochal.track([1, 2, 3]):\n    {one}\n        run.log({{'loss': lr}})"
    output = kernel.execute(cell)
    lasts = [states[-1] for states in output.displays.values()]
    assert len(lasts) == 4
    for lr in (1, 2, 3):
        (card,) = (last for last in lasts if f"tests/lr{lr}" in last)
        assert "finished after" in card


def test_a_loop_without_a_run_has_a_bar(kernel: Kernel) -> None:
    output = kernel.execute("for item in epochal.track(range(5), 'items'): pass")
    (states,) = output.displays.values()
    assert "0/5" in states[0]
    assert states[-1] == ""
    assert "items 5/5" in output.text


def test_a_quiet_run_shows_nothing_but_its_summary_on_request(
    kernel: Kernel, tmp_path: Path
) -> None:
    output = kernel.execute(begin(tmp_path, more=", console=False") + TRAIN.format(steps=20))
    assert output == Output({}, "", {})
    noticed = kernel.execute("run.log({'loss': 1.0, 'odd': None})")
    assert not noticed.displays
    assert "odd" in noticed.text
    assert "step 20" in kernel.run("run")["text/html"]


def test_a_fault_in_the_display_reaches_neither_the_training_nor_the_record(
    kernel: Kernel, tmp_path: Path
) -> None:
    broken = "epochal.run.notebook.chart = lambda *args, **more: 1 / 0\n"
    output = kernel.execute(
        "import epochal.run.notebook\n" + broken + begin(tmp_path) + "run.log({'loss': 1.0})"
    )
    assert "ZeroDivisionError" in output.text
    assert kernel.run("run.step")["text/plain"] == "0"
    kernel.run("from epochal.series.html import chart; epochal.run.notebook.chart = chart")


def test_many_records_are_drawn_with_their_exact_extremes(start_run: StartRun) -> None:
    run = start_run()
    for step in range(20_000):
        run.log({"loss": {7_777: -3.25, 15_151: 8.75}.get(step, 1.0)})
    run.finish()
    shown = run._repr_html_()
    assert "8.7500" in shown
    assert "-3.2500 at step 7,777" in shown
    assert len(shown) < 20_000


def test_a_run_that_is_switched_off_shows_its_name(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    run: Any = start_run("<b>bold</b>")
    assert "&lt;b&gt;" in run._repr_html_()


def test_the_address_of_the_live_page_is_a_link(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochal.run.pages.LINGER_S", 1.0)
    run = start_run()
    address: Any = run.serve(0)
    assert f'<a href="{address}"' in address._repr_html_()
    assert address in run._repr_html_()
    run.finish()
    assert address not in run._repr_html_()  # the page goes soon after the program
    assert recorder_of(run).page_url == address
