"""Pass the journals of the clinic to the rules, as a companion would."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.health.diagnosis import Diagnosis
from epochal.records import moment_of

FOLDER = Path(__file__).parent / "clinic"
FINDINGS = FOLDER / "findings.json"
# A live run is asked about the clock once a second; in a long wait, so often at most.
_MAX_TICKS = 100


def journals() -> list[str]:
    """The names of all journals."""
    return sorted(path.name.removesuffix(".jsonl.xz") for path in FOLDER.glob("*.jsonl.xz"))


def findings_of(name: str) -> list[list[Any]]:
    """Rule, severity, first step, series and state of each finding of a journal, sorted."""
    lines = lzma.decompress((FOLDER / f"{name}.jsonl.xz").read_bytes()).decode().splitlines()
    diagnosis = Diagnosis(config=json.loads(lines[0])["config"])
    now = 0.0
    for line in lines[1:]:
        rank, writer, record = json.loads(line)
        t = moment_of(record)
        if now and t - now > 1:
            for second in range(min(_MAX_TICKS, math.floor(t - now))):
                diagnosis.tick(now + second + 1)
        now = max(now, t)
        diagnosis.feed(record, rank=rank, writer=writer)
    diagnosis.close()
    diagnosis.renotify_at_end()
    found = (
        [one.rule, one.severity, one.steps and one.steps[0], one.series, one.state]
        for one in diagnosis.latest()
    )
    return sorted(found, key=json.dumps)


def write_findings(found: Mapping[str, list[list[Any]]]) -> None:
    """Write the findings of every journal by name, a line for each finding."""
    lines = []
    for name, findings in sorted(found.items()):
        text = ",\n".join(f"  {json.dumps(one)}" for one in findings)
        lines.append(f"{json.dumps(name)}: [\n{text}\n ]" if text else f"{json.dumps(name)}: []")
    FINDINGS.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")
