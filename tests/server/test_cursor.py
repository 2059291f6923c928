from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError
from epochal.records import Position
from epochal.server.updates import format_cursors, is_within, parse_cursors

WRITERS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True)
NUMBERS = st.integers(0, 10**9 - 1)


@st.composite
def cursors(draw: st.DrawFn) -> dict[str, dict[str, Position]]:
    runs = draw(st.lists(st.text(min_size=1, max_size=20).filter(_has_utf8), unique=True))
    return {
        run: {
            writer: Position(writer, draw(NUMBERS), draw(NUMBERS), draw(NUMBERS))
            for writer in draw(st.lists(WRITERS, unique=True, max_size=4))
        }
        for run in runs
    }


def _has_utf8(text: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


@given(cursors())
def test_a_position_survives_being_written(cursor: dict[str, dict[str, Position]]) -> None:
    text = format_cursors(cursor)
    assert text.isascii()
    assert "\n" not in text
    assert parse_cursors([text]) == cursor


@given(st.text())
def test_any_text_is_a_position_or_a_sentence(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_cursors([text])


def test_later_texts_win_run_by_run() -> None:
    found = parse_cursors(["a:loop.1.0.1;b:loop.1.0.1", "b:loop.1.0.9"])
    assert format_cursors(found) == "a:loop.1.0.1;b:loop.1.0.9"


@pytest.mark.parametrize("text", ["x", ":loop.1.0.1", "a:loop", "a:loop.1.0.-1", "a:../x.1.0.1"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="since="):
        parse_cursors([text])


def test_a_position_is_within_what_was_written() -> None:
    end = {"loop": Position("loop", 2, 0, 5)}
    assert is_within({"loop": Position("loop", 1, 3, 900)}, end)
    assert is_within({"loop": Position("loop", 2, 0, 5)}, end)
    assert not is_within({"loop": Position("loop", 2, 0, 6)}, end)
    assert not is_within({"rank-0001": Position("rank-0001", 1, 0, 0)}, end)
