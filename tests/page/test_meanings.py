"""The page explains what the rules find."""

from __future__ import annotations

import re
from pathlib import Path

from epochal.health.registry import RULES

MEANINGS = Path(__file__).parents[2] / "web" / "src" / "panels" / "parts" / "meanings.ts"


def test_every_rule_has_a_meaning_on_the_page() -> None:
    text = MEANINGS.read_text(encoding="utf-8").partition("MEANINGS")[2].partition("};")[0]
    explained = set(re.findall(r'^  "?([a-z-]+)"?: \{ means:', text, flags=re.MULTILINE))
    # Advice is its own explanation.
    assert {rule.name for rule in RULES if not rule.name.startswith("advice-")} == explained
