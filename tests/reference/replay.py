"""What the rules find in the journals of the clinic, and where that is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmarks.clinic import journal

FINDINGS = journal.RECORDED / "findings.json"


def journals() -> list[str]:
    """The names of all journals."""
    return journal.names(journal.RECORDED)


def findings_of(name: str) -> list[list[Any]]:
    """Rule, severity, first step, series and state of each finding of a journal, sorted."""
    kept = journal.read(journal.RECORDED / f"{name}{journal.SUFFIX}")
    found = (
        [one.rule, one.severity, one.steps and one.steps[0], one.series, one.state]
        for one in journal.findings_of(kept.config, kept.entries)
    )
    return sorted(found, key=json.dumps)


def write_findings(found: Mapping[str, list[list[Any]]]) -> None:
    """Write the findings of every journal by name, a line for each finding."""
    lines = []
    for name, findings in sorted(found.items()):
        text = ",\n".join(f"  {json.dumps(one)}" for one in findings)
        lines.append(f"{json.dumps(name)}: [\n{text}\n ]" if text else f"{json.dumps(name)}: []")
    FINDINGS.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")
