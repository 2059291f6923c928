"""The journal of a training: the records that rules read, in one small compressed file.

The first line says what the training was and what came of it. Each other line is
``[rank, writer, record]``, in the order of time. Numbers have seven digits.
"""

from __future__ import annotations

import json
import lzma
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.journal.layout import FINDINGS, rank_of_writer
from epochal.records import Record, moment_of, scalars_of
from epochal.store.local.by_path import load_run

SUFFIX = ".jsonl.xz"
# The journals that `rule_check.py` and the tests replay. They are input: never rewrite one.
RECORDED = Path(__file__).parents[2] / "tests" / "reference" / "clinic"
Entry = tuple[int, str, Record]
Series = dict[str, list[tuple[int, float]]]

_DIGITS = 7
# Records that no rule reads, and what depends on the machine that trained.
_LEFT_OUT = frozenset(
    {"histogram", "graph", "blob", "text", "message", "finding", "gpu", "gpu-model"}
)
_UNUSED_FIELDS = frozenset({"boot_id", "pid_namespace", "pid_start", "host", "pid"})
# What a run has only if its model or its data is watched.
_WATCHED_KINDS = frozenset({"moe", "experts", "phases", "span", "timeline", "data", "allocator"})
_WATCHED_EVENTS = frozenset(
    {
        *("evaluation-passes", "frozen-parameters", "gradients-kept", "initial-scale", "inputs"),
        *("model", "no-optimizer-step", "nonfinite-gradient", "optimizer"),
        "parameters-without-optimizer",
    }
)
_WATCHED_SERIES = ("params/", "grads/", "update_ratio/", "activations/", "running_stats/")
# A live run is asked about the clock once a second; in a long wait, so often at most.
_MAX_TICKS = 100


@dataclass(slots=True)
class Journal:
    """What is kept of one training; ``result`` is what `harness.train` returned."""

    id: str
    config: dict[str, Any]
    result: dict[str, float] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def scalars(self) -> Iterator[Entry]:
        """The entries of the same training without `watch` and `watch_data`."""
        for rank, writer, record in self.entries:
            if record["log"] in _WATCHED_KINDS or record.get("name") in _WATCHED_EVENTS:
                continue
            metrics = record.get("m")
            if isinstance(metrics, dict) and any(n.startswith(_WATCHED_SERIES) for n in metrics):
                continue
            yield rank, writer, record

    def series(self) -> Series:
        """The series of rank 0, each as steps and finite values."""
        found: Series = {}
        for rank, _, record in self.entries:
            step = record.get("step")
            if rank == 0 and isinstance(step, int):
                for name, value in scalars_of(record):
                    if math.isfinite(value):
                        found.setdefault(name, []).append((step, value))
        return found


def collect(name: str, run: Path, result: dict[str, float]) -> Journal:
    """The journal of a run's folder."""
    view = load_run(run)
    entries: list[Entry] = []
    for position, record in view.records():
        writer = position.writer
        if writer != FINDINGS and record["log"] not in _LEFT_OUT:
            rank = rank_of_writer(writer)
            entries.append((0 if rank is None else rank, writer, _rounded(record)))
    entries.sort(key=lambda entry: moment_of(entry[2]))
    return Journal(name, dict(view.info.config), result, entries)


def write(journal: Journal, folder: Path) -> None:
    """Write a journal completely or not at all."""
    facts = {"id": journal.id, "config": journal.config, "result": journal.result}
    lines = [json.dumps(facts), *(json.dumps(entry) for entry in journal.entries)]
    path = folder / f"{journal.id}{SUFFIX}"
    part = path.with_suffix(".part")
    part.write_bytes(lzma.compress("\n".join(lines).encode(), preset=6))
    os.replace(part, path)


def read(path: Path) -> Journal:
    """A journal of a file."""
    first, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return Journal(**json.loads(first), entries=[tuple(json.loads(line)) for line in lines])


def names(folder: Path) -> list[str]:
    """The names of all journals of a folder."""
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def fault_of(name: str) -> str:
    """The fault of a journal's training, or "healthy"; names end with the fault and the seed."""
    return name.split("-")[-2]


def findings_of(config: dict[str, Any], entries: Iterable[Entry]) -> list[Finding]:
    """What the rules find, each finding once and in its last state; the clock ticks meanwhile."""
    diagnosis = Health(config=config)
    now = 0.0
    for rank, writer, record in entries:
        t = moment_of(record)
        if now and t - now > 1:
            for second in range(min(_MAX_TICKS, math.floor(t - now))):
                diagnosis.tick(now + second + 1)
                diagnosis.renotify()
        now = max(now, t)
        diagnosis.feed(record, rank=rank, writer=writer)
    diagnosis.close()
    diagnosis.renotify(is_over=True)
    return diagnosis.latest()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        items = ((key, one) for key, one in value.items() if key not in _UNUSED_FIELDS)
        return {key: one if key == "t" else _rounded(one) for key, one in items}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, float) and math.isfinite(value) and value != 0:
        return round(value, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    return value
