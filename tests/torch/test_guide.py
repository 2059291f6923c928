"""The guide's examples run as they stand, and its table is the program's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal.torch.schedule.catalogue import KINDS, parameters_of

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "around_the_loop.md"


def test_every_example_runs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(examples) >= 12
    scope: dict[str, object] = {"__name__": "guide"}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{GUIDE.name}, example {number}", "exec"), scope)


def test_the_table_names_every_schedule_and_its_arguments() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (.*) \|$", GUIDE.read_text(encoding="utf-8"), re.M
    )
    written = {
        name: (kind, [argument.split("=")[0] for argument in arguments.split(", ")])
        for name, kind, arguments in rows
    }
    assert written == {
        name: (kind.__name__, [parameter.name for parameter in parameters_of(name)])
        for name, kind in KINDS.items()
    }
