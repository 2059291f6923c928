import re
import subprocess
import sys
from pathlib import Path

from epochal.health.phase import PHASES
from epochal.health.rules.loss import LossSpike
from epochal.health.thresholds import declared

GUIDE = (Path(__file__).parents[2] / "docs" / "reference" / "findings.md").read_text(
    encoding="utf-8"
)


def test_a_rule_has_a_section_with_its_thresholds() -> None:
    section = GUIDE.partition(f"### `{LossSpike.name}`\n")[2].partition("\n##")[0]
    assert LossSpike.meaning in section
    assert all(f"`{name} = " in section for name in declared(LossSpike.Thresholds()))


def test_guide_and_page_say_what_the_rules_declare() -> None:
    command = [sys.executable, "tools/findings_guide.py", "--check"]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)


def test_every_phase_has_a_row() -> None:
    assert all(f"| {phase} |" in GUIDE for phase in PHASES)


def test_the_example_says_what_its_comment_says() -> None:
    example = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)[0]
    printed = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    ).stdout
    assert f"# {printed.strip()}\n" in example
