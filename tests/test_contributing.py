"""The worked examples of CONTRIBUTING.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from epochal.health.engine import Health
from epochal.health.rule import GROUPS
from tests.conftest import StartRun
from tests.sinks.member import check_records_arrive_once

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def printed_blocks(heading: str) -> list[str]:
    section = TEXT[TEXT.index(f"### {heading}\n") :].partition("\n### ")[0]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)


def executed(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    return names


def printed_rule() -> type[Any]:
    (block,) = printed_blocks("A health rule")
    rule: type[Any] = executed(block)["LossNegative"]
    return rule


def findings_of(losses: list[float]) -> list[str]:
    health = Health(rules=[printed_rule()])
    records = [{"log": "step", "t": float(i), "step": i, "loss": x} for i, x in enumerate(losses)]
    return [finding.sentence for record in records for finding in health.feed(record)]


def test_the_printed_rule_finds_what_it_says() -> None:
    assert printed_rule().group in GROUPS
    assert findings_of([2.0, 1.0, 0.5]) == []
    assert findings_of([2.0, 1.0, -0.5])[0] == "The loss is -0.5000 at step 2."


@pytest.mark.slow
def test_the_printed_sink_sends_every_record_once(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, test = printed_blocks("A sink")
    about = tmp_path / "installed" / "printed-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: printed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[epochal.sinks]\nlines = printed:LinesSink\n")
    (tmp_path / "installed" / "printed.py").write_text(sink)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    check_records_arrive_once("lines", executed(test)["MEMBER"], start_run(), tmp_path)


def test_the_files_that_are_named_exist() -> None:
    section = TEXT[TEXT.index("## Adding a member") : TEXT.index("## Habits")]
    named = re.findall(r"`([a-z_/.]+\.(?:py|ts|md))`", section)
    homes = (ROOT, ROOT / "src" / "epochal")
    missing = [
        path
        for path in named
        if not re.search("loss_negative|lines", path)
        and not any((home / path).exists() for home in homes)
    ]
    assert named
    assert not missing
