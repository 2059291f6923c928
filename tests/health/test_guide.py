import re
import subprocess
import sys
from pathlib import Path

import pytest

from epochal.health.phase import PHASES
from epochal.health.registry import RULES
from epochal.health.rule import Rule

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "findings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_every_rule_has_a_row(rule: type[Rule]) -> None:
    assert f"| `{rule.name}` |" in GUIDE


def test_every_phase_has_a_row() -> None:
    assert all(f"| {phase} |" in GUIDE for phase in PHASES)


def test_the_example_says_what_its_comment_says() -> None:
    example = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)[0]
    printed = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    ).stdout
    assert f"# {printed.strip()}\n" in example
