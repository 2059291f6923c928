from __future__ import annotations

import numpy as np
import pytest
from rich.text import Text

from epochal.tui.chart import Canvas, draw_path
from epochal.tui.glyphs import ASCII, UNICODE


def points(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def spans(line: Text) -> list[tuple[str, str]]:
    return [(line.plain[span.start : span.end], str(span.style)) for span in line.spans]


def test_eight_dots_make_one_character() -> None:
    canvas = Canvas(2, 1, glyphs=UNICODE)
    assert (canvas.width, canvas.height) == (4, 4)
    canvas.layer("curve")[:, :2] = True
    assert [spans(row) for row in canvas.lines()] == [[("⣿ ", "curve")]]


def test_a_path_has_no_gaps() -> None:
    canvas = Canvas(4, 2, glyphs=UNICODE)
    dots = canvas.layer("curve")
    draw_path(dots, points(0, 7), points(7, 0))
    assert dots.sum() == 8
    assert [row.plain for row in canvas.lines()] == ["  ⡠⠊", "⡠⠊  "]


def test_in_a_cell_the_foremost_curve_is_shown_alone() -> None:
    canvas = Canvas(2, 1, glyphs=UNICODE)
    canvas.layer("raw")[0, :] = True
    canvas.layer("curve")[3, :2] = True
    assert [spans(row) for row in canvas.lines()] == [[("⣀", "curve"), ("⠉", "raw")]]


def test_marks_lie_before_everything() -> None:
    canvas = Canvas(2, 1, glyphs=UNICODE)
    canvas.layer("curve")[0, :] = True
    canvas.mark(3, 2, "◆", "eval")
    assert [spans(row) for row in canvas.lines()] == [[("⠉", "curve"), ("◆", "eval")]]


def test_without_braille_a_cell_has_two_dots_and_what_is_behind_looks_different() -> None:
    canvas = Canvas(3, 1, glyphs=ASCII)
    behind, front = canvas.layer("raw"), canvas.layer("curve")
    behind[0, 0] = True
    front[1, 1] = front[:, 2] = True
    assert [row.plain for row in canvas.lines()] == ["`.:"]


def test_a_canvas_has_room() -> None:
    with pytest.raises(ValueError, match="at least one cell, got 0 by 3"):
        Canvas(0, 3, glyphs=UNICODE)
