"""The records of a training that rules look at, small enough to keep: one compressed file each.

The first line says what the training was and what came of it. Each other line is
``[rank, writer, record]``, in the order of time. Numbers have seven digits.
"""

from __future__ import annotations

import json
import lzma
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from epochal.journal.layout import FINDINGS, rank_of_writer
from epochal.records import Record, moment_of
from epochal.store.local.load import load_run

SUFFIX = ".jsonl.xz"
_DIGITS = 7
# Kinds that no rule looks at, and that take room; GPUs of the machine, which most trainings do not
# use, and which the others share with those beside them.
_LEFT_OUT = frozenset(
    {"histogram", "graph", "blob", "text", "message", "finding", "gpu", "gpu-model"}
)
# What is in a run only if a model or its data is watched, or its parts are timed.
_WATCHED_KINDS = frozenset({"moe", "experts", "phases", "span", "timeline", "data", "allocator"})
_WATCHED_EVENTS = frozenset(
    {
        "nonfinite-gradient",
        "evaluation-passes",
        "frozen-parameters",
        "initial-scale",
        "no-optimizer-step",
        "gradients-kept",
    }
)
_WATCHED_SERIES = ("params/", "grads/", "update_ratio/", "activations/", "running_stats/")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is kept of one training.

    ``result`` has the figures of rank 0, ``ended`` is the time at which it was over, and ``live``
    has what the companion found while it ran: rule, severity and state of each finding.
    """

    id: str
    result: dict[str, Any]
    config: dict[str, Any]
    ended: float
    live: list[list[str]] = field(default_factory=list)
    entries: list[tuple[int, str, Record]] = field(default_factory=list)

    def scalars_only(self) -> Iterator[tuple[int, str, Record]]:
        """Without what only a watched model or timed parts give."""
        for rank, writer, record in self.entries:
            if record["log"] in _WATCHED_KINDS or record.get("name") in _WATCHED_EVENTS:
                continue
            metrics = record.get("m")
            names = metrics if isinstance(metrics, dict) else {}
            if record["log"] == "metrics" and any(n.startswith(_WATCHED_SERIES) for n in names):
                continue
            yield rank, writer, record


def collect(name: str, run: Path, result: dict[str, Any], *, ended: float) -> Evidence:
    """The evidence of a run's folder."""
    view = load_run(run)
    ranks: dict[str, int] = {}
    entries: list[tuple[int, str, Record]] = []
    live: dict[str, list[str]] = {}
    for position, record in view.records():
        writer = position.writer
        if record["log"] == "finding":
            live[str(record["id"])] = [
                str(record.get(key)) for key in ("rule", "severity", "state", "sentence")
            ]
        if writer == FINDINGS or record["log"] in _LEFT_OUT:
            continue
        said = rank_of_writer(writer)
        beside = record.get("rank")
        if writer not in ranks:
            ranks[writer] = said if said is not None else beside if isinstance(beside, int) else 0
        if moment_of(record) <= ended + 1:
            entries.append((ranks[writer], writer, _rounded(record)))
    entries.sort(key=lambda entry: moment_of(entry[2]))
    config = view.info.config
    return Evidence(name, result, dict(config), ended, list(live.values()), entries)


def write(evidence: Evidence, path: Path) -> None:
    """Write it whole or not at all."""
    facts = {name: value for name, value in asdict(evidence).items() if name != "entries"}
    lines = [json.dumps(facts), *(json.dumps(entry) for entry in evidence.entries)]
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_bytes(lzma.compress("\n".join(lines).encode(), preset=6))
    os.replace(beside, path)


def read(path: Path) -> Evidence:
    """What was written."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    facts = json.loads(lines[0])
    entries = [tuple(json.loads(line)) for line in lines[1:]]
    return Evidence(**facts, entries=entries)


def read_all(folder: Path) -> Iterator[Evidence]:
    """Each training of a folder, by name."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        yield read(path)


def path_of(folder: Path, name: str) -> Path:
    """Where the evidence of a training is."""
    return folder / f"{name}{SUFFIX}"


def total_bytes(paths: Iterable[Path]) -> int:
    """How much room files take."""
    return sum(path.stat().st_size for path in paths)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        # Times in milliseconds have more digits than others need.
        return {k: v if k == "t" else _rounded(v) for k, v in value.items() if k not in _UNUSED}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, float) and math.isfinite(value) and value != 0:
        return round(value, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    return value


_UNUSED = frozenset({"boot_id", "pid_namespace", "pid_start", "host", "pid"})
