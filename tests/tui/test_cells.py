from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epochal.tui.cells import (
    Span,
    beside,
    block,
    clip,
    fit,
    line,
    plain,
    printable,
    spread,
    width,
    wrap,
)

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=40).map(printable)


@given(TEXT, TEXT, st.integers(0, 60))
def test_a_fitted_line_has_exactly_its_columns(first: str, second: str, columns: int) -> None:
    assert width(fit((Span(first), Span(second, "dim")), columns)) == columns


@given(st.text(max_size=80), st.integers(2, 30))
def test_wrapped_lines_are_no_wider_than_asked(text: str, columns: int) -> None:
    assert all(width((Span(one),)) <= columns for one in wrap(text, columns))


def test_wrapping_breaks_between_words_and_keeps_line_ends() -> None:
    assert wrap("to be or\nnot to be", 6) == ["to be", "or", "not to", "be"]
    assert wrap("incomprehensible", 6) == ["incomp", "rehens", "ible"]
    assert wrap("", 6) == [""]


def test_what_is_cut_says_so_and_keeps_its_style() -> None:
    cut = clip(line("abc", ("defgh", "bad")), 6)
    assert plain(cut) == "abcde…"
    assert cut[-1].style == "bad"


def test_control_characters_never_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc\td") == "a\\x1b[31mb\\nc d"


def test_the_left_text_gives_way_to_the_right_one() -> None:
    assert plain(spread(line("a long name"), line("3 of 9"), 14)) == "a long… 3 of 9"


def test_rectangles_stand_next_to_each_other() -> None:
    left = block([line("a")], columns=2, rows=2)
    right = block([line("b"), line("c")], columns=1, rows=2)
    assert [plain(row) for row in beside(left, right, between=Span("|"))] == ["a |b", "  |c"]
