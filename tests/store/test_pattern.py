from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epochal.store.pattern import PatternError, compile_pattern

# The page's own matcher passes the same table (web/tests/ui/pattern.test.ts).
CASES = json.loads((Path(__file__).parents[2] / "spec" / "patterns.json").read_bytes())


@pytest.mark.parametrize("case", CASES, ids=[repr(case["pattern"][:20]) for case in CASES])
def test_the_table_of_patterns(case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(PatternError) as caught:
            compile_pattern(case["pattern"])
        assert (str(caught.value), caught.value.at) == (case["refused"], case["at"])
        return
    pattern = compile_pattern(case["pattern"])
    assert [text for text in case["matches"] if not pattern.is_in(text)] == []
    assert [text for text in case["not"] if pattern.is_in(text)] == []


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
        "from epochal.store.pattern import PatternError, compile_pattern\n"
        "try:\n    compile_pattern('a')\n"
        "except PatternError as error:\n    print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("patterns need google-re2, which cannot be loaded:")
