from __future__ import annotations

import re
import subprocess
import sys

import pytest

from epochal.errors import UsageError
from epochal.query.pattern import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a(", "missing )"),
        ("*", "no argument for repetition operator"),
        ("a{2000}", "invalid repetition size"),
        ("a(?!b)", "use !~ for what must not occur"),
        (r"(a)\1", "join two conditions with 'and'"),
        ("a" * 201, "at most 200 characters"),
    ],
)
def test_what_is_not_supported_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        compile_pattern(pattern)


def test_case_counts_unless_the_pattern_begins_so() -> None:
    assert compile_pattern("^GPT|bert$").is_in("GPT-2")
    assert not compile_pattern("^gpt").is_in("GPT-2")
    for pattern in ("(?i)gpt", "(?i)^gpt"):  # a word, and what is no word
        assert compile_pattern(pattern).is_in("GPT-2")
        assert not compile_pattern(pattern).is_in("bert")


@pytest.mark.parametrize(
    "text", [".*.*.*.*.*.*.*.*.*.*Z", "(a+)+$", "(a|aa)+$", "(.*a){20}b", "(a?){100}a{100}b"]
)
def test_no_pattern_takes_for_ever(text: str) -> None:
    """An engine that goes back would not end before the test's own time limit."""
    assert not compile_pattern(text).is_in("a" * 4000 + "!")


def test_halves_of_characters_do_not_raise() -> None:
    assert compile_pattern("a.b").is_in("a\ud800b")
    compile_pattern("a\ud800b")


def test_without_the_engine_a_sentence_says_what_is_missing() -> None:
    script = (
        "import sys; sys.modules['re2'] = None\n"
        "from epochal.errors import UsageError\n"
        "from epochal.query.pattern import compile_pattern\n"
        "try:\n    compile_pattern('a')\n"
        "except UsageError as error:\n    print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("patterns need google-re2, which cannot be loaded:")
