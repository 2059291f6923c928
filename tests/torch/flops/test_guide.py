"""The examples of the guide run as they stand, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "speed_of_light.md"


def test_every_example_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(examples) >= 6
    scope: dict[str, object] = {"__name__": "guide"}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{GUIDE.name}, example {number}", "exec"), scope)
    assert "[Speed of Light]" in capsys.readouterr().err
