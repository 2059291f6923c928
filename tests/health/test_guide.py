import re
import subprocess
import sys
from pathlib import Path

from epochal.health.phase import PHASES
from epochal.health.rule import declared
from epochal.health.rules.loss import LossSpike
from tools import generated

GUIDE = (Path(__file__).parents[2] / "docs" / "reference" / "findings.md").read_text(
    encoding="utf-8"
)


def test_a_rule_has_a_section_with_its_thresholds() -> None:
    section = generated.section(LossSpike)
    assert LossSpike.meaning in section
    assert all(f"<code>{name} = " in section for name in declared(LossSpike.Thresholds()))


def test_a_section_begins_with_what_to_do() -> None:
    advice = LossSpike.messages["batch"].advice
    assert generated.section(LossSpike).splitlines()[2].endswith(f"** → {advice}")


def test_every_phase_has_a_row() -> None:
    assert all(f"| {phase} |" in GUIDE for phase in PHASES)


def test_the_example_says_what_its_comment_says() -> None:
    example = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)[0]
    printed = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    ).stdout
    assert f"# {printed.strip()}\n" in example
