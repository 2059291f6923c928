from pathlib import Path

import pytest

from epochal.health.catalogue import ADVICE_RULES, MACHINE_RULES
from epochal.health.rule import Rule

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "findings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", MACHINE_RULES + ADVICE_RULES, ids=lambda rule: str(rule.name))
def test_every_rule_has_a_row(rule: type[Rule]) -> None:
    assert f"| `{rule.name}` |" in GUIDE
