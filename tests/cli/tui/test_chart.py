"""The chart as characters: curves, marks, axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epochal.cli.tui.chart import Curve, View, curves_of, draw_chart, position_text, title
from epochal.store.local.by_path import load_run
from tests.store.journals import Journal


def drawn(curves: list[Curve], **options: object) -> str:
    lines = draw_chart(curves, "step", columns=60, rows=12, **options)  # type: ignore[arg-type]
    assert len(lines) == 12
    assert all(line.cell_len <= 60 for line in lines)
    return "\n".join(line.plain for line in lines)


def curve(values: list[float], *, mark: str = "") -> Curve:
    x = np.arange(float(len(values)))
    return Curve("loss", x, np.array(values, dtype=np.float64), 14, mark)


def test_a_falling_curve_goes_from_the_upper_left_to_the_lower_right() -> None:
    rows = drawn([curve([100.0 - x for x in range(100)])]).splitlines()
    starts = [row.partition("│")[2] or row.partition("┤")[2] for row in rows[:10]]
    columns = [len(row) - len(row.lstrip()) for row in starts]
    assert columns == sorted(columns)
    assert "50┤" in "".join(rows)
    assert rows[-1].split() == ["0", "50"]


def test_one_step_of_a_long_run_is_seen() -> None:
    values = [1.0] * 100_000
    values[50_000] = 9.0
    top = drawn([curve(values)]).splitlines()[0]
    assert any("⠀" < character <= "⣿" for character in top)


def test_values_that_are_not_finite_and_flagged_steps_are_marked() -> None:
    text = drawn([curve([1.0, 2.0, np.nan, 3.0, np.inf])], flagged=[1.0, 99.0])
    assert (text.count("×"), text.count("▲")) == (2, 1)


@pytest.mark.parametrize("values", [[], [5.0], [np.nan], [0.0, 0.0], [-1.0, -2.0]])
@pytest.mark.parametrize("is_log", [False, True])
def test_few_points_are_no_error(values: list[float], is_log: bool) -> None:
    for columns, rows in ((60, 12), (1, 1), (0, 0), (20, 5)):
        draw_chart([curve(values)], "step", columns=columns, rows=rows, is_log=is_log)


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    text = drawn([curve([10.0**-n for n in range(5)] + [0.0, -1.0])], is_log=True)
    assert all(f"{label}┤" in text for label in ("1", "0.1", "0.01", "0.001"))


def test_a_loss_has_its_evaluations_smoothing_and_the_compared_runs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        journal = Journal(tmp_path, name)
        for step in (0, 1):
            journal.add({"log": "step", "step": step, "loss": 1.0 + 2 * step})
        journal.add({"log": "eval", "step": 1, "loss": 2.5})
    one, two = (load_run(tmp_path / "p" / name) for name in ("one", "two"))
    metric = one.role("loss")
    assert metric is not None
    view = View(smoothing=0.9)
    curves, axis = curves_of(one, metric, view, [one, two])
    assert [item.name for item in curves] == ["two", "train/loss", "train/loss", "eval/loss"]
    assert curves[1].values.tolist() == [1.0, 3.0]
    assert curves[2].values[1] == pytest.approx((0.9 * 1 + 3) / 1.9)
    # The title has the newest value, not the smoothed one.
    shown = title(curves, axis, view, 80).plain
    assert shown == "◆ eval/loss  ━━ train/loss 3.0000  ━━ two  smooth 0.9"


def test_positions_are_written_as_their_axis_counts() -> None:
    assert position_text(1500, "step") == "1500"
    assert position_text(2_500_000, "tokens") == "2.5M"
    assert position_text(90, "relative") == "1m 30s"
    assert position_text(1e300, "wall") == "?"
