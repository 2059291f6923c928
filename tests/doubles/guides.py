"""Runs the Python examples of a page in docs/how-to as they stand, in order."""

from __future__ import annotations

import re
from pathlib import Path

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"


def run_examples(page: str, *, at_least: int) -> None:
    """Run each example of a page; all share one scope."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(examples) >= at_least
    scope: dict[str, object] = {"__name__": "guide"}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{page}, example {number}", "exec"), scope)
