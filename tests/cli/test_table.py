from __future__ import annotations

from epochal.cli.output import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("A", "B"), [("xyz", "1"), ("x", "22")], right=(1,)) == "A     B\nxyz   1\nx    22"


def test_wide_cells_are_cut_to_fit() -> None:
    text = table(("NAME", "N"), [("a" * 50, "12345")], width=20, shrink=(0,))
    assert text.splitlines()[1] == "a" * 6 + "…" + "a" * 6 + "  12345"
    text = table(("NOTE", "N"), [("a note of some words", "12345")], width=20, shrink=(0,))
    assert text.splitlines()[1] == "a note of so…  12345"


def test_a_cell_of_a_million_characters_is_cut_at_once() -> None:
    cells = ["a" * 1_000_000, "中" * 1_000_000]
    lines = table(["NAME", "X"], [[cell, "1"] for cell in cells], width=20, shrink=(0,))
    assert lines.splitlines()[1:] == [f"{'a' * 8}…{'a' * 8}  1", f"{'中' * 8}…  1"]


def test_wide_characters_count_twice() -> None:
    lines = table(("A", "B"), [("漢字", "1"), ("abcd", "2")]).splitlines()
    assert lines[1:] == ["漢字  1", "abcd  2"]


def test_control_characters_cannot_break_a_row() -> None:
    assert "\x1b" not in table(("A",), [("\x1b[31m\n",)])
