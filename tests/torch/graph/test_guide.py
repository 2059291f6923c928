"""The guide's examples run as they stand, and its table names every verb."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal import FlowBuilder

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "graphs.md"


def test_every_example_runs_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(examples) >= 12
    scope: dict[str, object] = {"__name__": "guide"}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{GUIDE.name}, example {number}", "exec"), scope)
    assert "measuring took" in capsys.readouterr().out


def test_the_table_names_every_verb() -> None:
    table = "".join(re.findall(r"^\| (`.*) \|.*\|$", GUIDE.read_text(encoding="utf-8"), re.M))
    written = set(re.findall(r"`(\w+)\(", table))
    verbs = {name for name in vars(FlowBuilder) if not name.startswith("_")}
    assert verbs - {"build"} == written
