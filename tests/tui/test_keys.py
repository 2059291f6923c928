from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.tui.keys import KeyReader


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB", ["up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[Z", ["pageup", "pagedown", "shift-tab"]),
        (b"\r\t \x7f\x15", ["enter", "tab", "space", "backspace", "erase"]),
        ("größe".encode(), list("größe")),
        (b"\x1b[1;5Cx", ["x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
    ],
)
def test_bytes_become_keys(data: bytes, keys: list[str]) -> None:
    assert KeyReader().feed(data) == keys


def test_sequences_may_come_in_pieces() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.is_pending
    assert reader.feed(b"[") == []
    assert reader.feed(b"C\xc3") == ["right"]
    assert reader.feed(b"\xb6") == ["ö"]


def test_an_escape_that_nothing_follows_is_a_key() -> None:
    reader = KeyReader()
    reader.feed(b"\x1b")
    assert reader.flush() == ["escape"]
    assert not reader.is_pending


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_any_bytes_are_taken_and_none_wait_for_ever(chunks: list[bytes]) -> None:
    reader = KeyReader()
    for chunk in chunks:
        reader.feed(chunk)
    reader.flush()
    assert not reader.is_pending
