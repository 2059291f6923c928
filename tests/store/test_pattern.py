from __future__ import annotations

import pytest

from epochal.store.pattern import PatternError, compile_pattern, matches


@pytest.mark.parametrize("text", ["gpt.*", "^(a|b)c+", "[(+]+", r"a\(b+\)+", "(ab){2}", "x{3}"])
def test_ordinary_patterns_are_taken(text: str) -> None:
    compile_pattern(text)


@pytest.mark.parametrize(
    "text", ["(a+)+", "(a*)*b", "((a+)b)*", "(a|aa)+", "(a+){5,}", "(?:x*y)+", r"(a)\1", "a" * 201]
)
def test_patterns_that_could_take_for_ever_are_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(text)


def test_a_pattern_is_found_anywhere_in_a_text() -> None:
    assert matches(compile_pattern("b$"), "ab")
    assert not matches(compile_pattern("^b"), "ab")
