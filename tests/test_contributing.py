"""The worked examples of CONTRIBUTING.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from epochal.health.engine import Health
from epochal.health.rule import GROUPS

ROOT = Path(__file__).parents[1]


def printed_rule() -> type[Any]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (block,) = re.findall(r"### A health rule.*?```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "printed_rule"}
    exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    rule: type[Any] = names["LossNegative"]
    return rule


def findings_of(losses: list[float]) -> list[str]:
    health = Health(rules=[printed_rule()])
    records = [{"log": "step", "t": float(i), "step": i, "loss": x} for i, x in enumerate(losses)]
    return [finding.sentence for record in records for finding in health.feed(record)]


def test_the_printed_rule_finds_what_it_says() -> None:
    assert printed_rule().group in GROUPS
    assert findings_of([2.0, 1.0, 0.5]) == []
    assert findings_of([2.0, 1.0, -0.5])[0] == "The loss is -0.5000 at step 2."


def test_the_files_that_are_named_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## Adding a member") : text.index("## Habits")]
    named = re.findall(r"`([a-z_/.]+\.(?:py|ts|md))`", section)
    homes = (ROOT, ROOT / "src" / "epochal")
    missing = [
        path
        for path in named
        if "loss_negative" not in path and not any((home / path).exists() for home in homes)
    ]
    assert named
    assert not missing
