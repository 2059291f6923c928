"""The examples of the guide run as they stand, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal.torch.moe.routing_sums import COLUMNS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "experts_and_memory.md"
TEXT = GUIDE.read_text(encoding="utf-8")


def test_every_example_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    examples = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
    assert len(examples) >= 7
    scope: dict[str, object] = {"__name__": "guide"}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{GUIDE.name}, example {number}", "exec"), scope)
    printed = capsys.readouterr().out
    assert "[Memory of cpu, " in printed
    assert "with its graph; held by list losses of 5" in printed


@pytest.mark.parametrize("name", COLUMNS)
def test_the_table_explains_every_figure(name: str) -> None:
    assert re.search(rf"^\|[^|]*`{name}`", TEXT, re.M)
