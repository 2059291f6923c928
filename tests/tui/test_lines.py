from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from epochal.tui.lines import clip, fit, printable, spread, wrap

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=40).map(printable)


@given(TEXT, TEXT, st.integers(0, 60))
def test_a_fitted_line_has_exactly_its_columns(first: str, second: str, columns: int) -> None:
    assert fit(Text.assemble(first, (second, "dim")), columns).cell_len == columns


@given(st.text(max_size=80), st.integers(2, 30))
def test_wrapped_lines_are_no_wider_than_asked(text: str, columns: int) -> None:
    assert all(cell_len(one) <= columns for one in wrap(text, columns))


def test_wrapping_breaks_between_words_and_keeps_line_ends() -> None:
    assert wrap("to be or\nnot to be", 6) == ["to be", "or", "not to", "be"]
    assert wrap("incomprehensible", 6) == ["incomp", "rehens", "ible"]
    assert wrap("", 6) == [""]


def test_what_is_cut_says_so_and_keeps_its_style() -> None:
    cut = clip(Text.assemble("abc", ("defgh", "bad")), 6)
    assert cut.plain == "abcde…"
    assert cut.spans[-1].style == "bad"


def test_control_characters_never_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc\td") == "a\\x1b[31mb\\nc d"


def test_the_left_text_gives_way_to_the_right_one() -> None:
    assert spread(Text("a long name"), Text("3 of 9"), 14).plain == "a long… 3 of 9"
