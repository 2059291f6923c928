from __future__ import annotations

from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epochal.tui.chart import Curve, Look, draw_chart
from epochal.tui.glyphs import ASCII, UNICODE, Glyphs
from epochal.tui.view import Zoom


def curve(
    values: list[float], *, style: str = "curve", shape: Literal["line", "points"] = "line"
) -> Curve:
    return Curve("c", np.arange(len(values)), np.array(values, dtype=np.float64), style, shape)


def drawn(*curves: Curve, look: Look | None = None, glyphs: Glyphs = UNICODE, rows: int = 7) -> str:
    lines = draw_chart(curves, look=look or Look(), columns=30, rows=rows, glyphs=glyphs)
    return "\n".join(one.plain.rstrip() for one in lines)


def test_a_falling_loss_looks_like_one() -> None:
    values = [3 + 8 * 0.95**step for step in range(100)]
    assert drawn(curve(values)) == "\n".join(
        [
            "  │⢣",
            "10┤ ⠱⡄",
            "  │  ⠈⠳⣄",
            " 5┤    ⠈⠑⠢⢄⣀",
            "  │         ⠉⠑⠒⠒⠦⠤⠤⠤⢤⣀⣀⣀⣀⣀⣀⣀⣀⡀",
            "  └┬────────────┬─────────────",
            "   0           50         step",
        ]
    )


def test_the_same_in_ascii() -> None:
    values = [3 + 8 * 0.95**step for step in range(100)]
    assert drawn(curve(values), glyphs=ASCII) == "\n".join(
        [
            "  |:",
            "10+ :.",
            "  |  ':.",
            " 5+     ':...",
            "  |         ''''':...........",
            "  ++------------+-------------",
            "   0           50         step",
        ]
    )


def test_a_spike_of_one_step_among_a_million_is_visible() -> None:
    values = np.ones(1_000_000)
    values[123_456] = 9.0
    spike = Curve("c", np.arange(values.size), values, "curve")
    rows = drawn(spike).splitlines()
    assert all(any(character > "⠀" for character in row[3:]) for row in rows[:4])


def test_evaluations_are_marks_in_front_and_findings_point_from_below() -> None:
    text = drawn(
        curve([4.0] * 5, shape="points", style="eval"),
        curve([4.0] * 100),
        look=Look(flagged=(50.0, 900.0)),
    )
    assert text.count("◆") > 1
    assert text.splitlines()[-2].count("▲") == 1


def test_what_is_not_finite_is_marked_where_it_happened() -> None:
    rows = drawn(curve([1.0, 2.0, float("nan"), 4.0, 5.0])).splitlines()
    assert rows[0].index("×") == 2 + 28 // 2


def test_a_zoom_shows_its_part_only() -> None:
    rows = drawn(curve([float(v) for v in range(400)]), look=Look(zoom=Zoom(0.25))).splitlines()
    assert rows[-1].split() == ["300", "350", "step"]
    assert "300" in rows[-3]


def test_outliers_may_leave_the_chart() -> None:
    values = [1.0 + step % 2 for step in range(400)]
    values[200] = 1e9
    assert "500M" in drawn(curve(values))
    assert drawn(curve(values), look=Look(clips_outliers=True)).startswith("2┤")


def test_a_logarithmic_axis_leaves_out_what_has_no_logarithm() -> None:
    text = drawn(curve([0.0, 1.0, 10.0, 100.0, 1000.0]), look=Look(is_log=True))
    assert "100┤" in text
    assert "  1┤" in text
    assert drawn(curve([-1.0, -2.0]), look=Look(is_log=True)).splitlines()[0].startswith("-1.0")


def test_one_point_is_a_mark_and_none_is_said() -> None:
    assert "◆" in drawn(curve([3.0]))
    assert "no points yet" in drawn(curve([]))
    assert "no points yet" in drawn()


@given(
    st.lists(st.floats(), max_size=80),
    st.booleans(),
    st.booleans(),
    st.integers(1, 60),
    st.integers(1, 20),
)
def test_a_chart_of_anything_has_its_size(
    values: list[float], is_log: bool, clips: bool, columns: int, rows: int
) -> None:
    look = Look(is_log=is_log, clips_outliers=clips)
    lines = draw_chart([curve(values)], look=look, columns=columns, rows=rows, glyphs=UNICODE)
    assert [one.cell_len for one in lines] == [columns] * rows
