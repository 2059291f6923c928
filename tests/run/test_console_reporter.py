from __future__ import annotations

import io
import math
from typing import Any

from epochal.run.console.printer import Console
from epochal.run.console_reporter import ConsoleReporter, Totals


def pace_of(**totals: Any) -> tuple[ConsoleReporter, io.StringIO]:
    shown = io.StringIO()
    return ConsoleReporter(Console(shown), Totals(**totals), name="run"), shown


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"log": "step", "step": number, "step_tokens": 1000, "duration_ms": 10.0, **fields}


def test_percent_is_of_the_run_when_its_length_is_known() -> None:
    pace, _ = pace_of(steps=800)
    assert pace.percent(step(99, epoch=1.25)) == 12.5
    assert pace.percent(step(799)) == pace.percent(step(800)) == pace.percent(step(900)) == 100.0


def test_percent_by_epochs() -> None:
    pace, _ = pace_of(epochs=5)
    assert pace.percent(step(100, epoch=1.25)) == 25.0


def test_tokens_of_steps_that_were_not_logged_count() -> None:
    pace, shown = pace_of(tokens=10_000)
    for number in (0, 2, 4):
        pace.step(step(number))
    assert "[ 50.0%]" in shown.getvalue().splitlines()[-1]


def test_the_percentage_is_blank_where_the_length_of_the_run_is_unknown() -> None:
    (pace, shown), (known, with_percent) = pace_of(), pace_of(steps=8)
    for number in (3, 4):
        pace.step(step(number, epoch=number / 4))
        known.step(step(number, epoch=number / 4))
    assert "%" not in shown.getvalue()
    columns = [line.index("|") for line in (shown.getvalue(), with_percent.getvalue())]
    assert columns[0] == columns[1]


def test_gap_is_to_the_mean_training_loss_since_the_last_evaluation() -> None:
    pace, shown = pace_of()
    for number, loss in enumerate((2.0, 4.0, math.nan)):
        pace.step(step(number, loss=loss))
    pace.evaluation({"loss": 3.5, "eval_tokens": 1, "duration_ms": 1})
    pace.evaluation({"loss": 3.5, "eval_tokens": 1, "duration_ms": 1})
    first, second = [line for line in shown.getvalue().splitlines() if line.startswith(">>")]
    assert "gap +0.5000 (+16.7%)" in first
    assert "gap" not in second


def test_a_norm_far_above_its_baseline_is_marked() -> None:
    pace, shown = pace_of()
    for number in range(20):
        pace.step(step(number, loss=1.0, norm=0.1))
    pace.step(step(20, loss=1.0, norm=0.6))
    assert "norm !0.6000" in shown.getvalue().splitlines()[-1]
    assert shown.getvalue().count("!") == 1


def test_free_metrics_are_shown_at_once_and_then_seldom_where_there_is_no_terminal() -> None:
    pace, shown = pace_of(steps=10)
    wait_s = pace.free(1, {"loss": 0.5})
    assert shown.getvalue() == ":: step       1 [ 20.0%]  loss=0.5000\n"
    assert wait_s >= 5


def test_a_loss_that_is_no_number_has_no_gap() -> None:
    pace, shown = pace_of(steps=10)
    pace.step(step(0, loss=1.0))
    pace.evaluation({"log": "eval", "step": 0, "loss": float("nan")})
    line = shown.getvalue().splitlines()[-1]
    assert line.split() == [">>", "eval", "0", "loss", "nan"]
