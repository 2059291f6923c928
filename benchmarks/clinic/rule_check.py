"""Replay the recorded journals and print what each rule says: `make rule-check [NAME=rule]`.

``found`` counts the journals whose fault is listed for the rule in `accepted.py`: where it names
the fault, and how many there are. ``right`` counts other faults where its words are right as well,
``symptom`` those where it says that something is wrong. ``false`` counts healthy journals that it
misleads about, and ``beside`` journals with a fault that it has nothing to do with.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clinic import journal
from benchmarks.clinic.accepted import ACCEPTED, OLDER, Accepted
from benchmarks.clinic.judge import Reported, misleads, worth
from epochal.health.registry import RULES

_TABLE: dict[str, Accepted] = {**OLDER, **ACCEPTED}


@dataclass(frozen=True, slots=True)
class Line:
    """A finding about a journal and what it is worth: right, symptom, beside, false or a note."""

    journal: str
    worth: str
    finding: Reported


def check(folder: Path = journal.RECORDED, *, workers: int) -> tuple[list[str], list[Line]]:
    """The names of all journals, and every finding about them."""
    found = journal.names(folder)
    with ProcessPoolExecutor(workers) as pool:
        paths = (folder / f"{name}{journal.SUFFIX}" for name in found)
        return found, [line for lines in pool.map(replay, paths, chunksize=4) for line in lines]


def replay(path: Path) -> list[Line]:
    """The findings of one journal."""
    kept = journal.read(path)
    series, lines = kept.series(), []
    table = _TABLE.get(journal.fault_of(kept.id))
    for one in journal.findings_of(kept.config, kept.entries):
        is_false = misleads(one, series)
        finding = Reported(one.rule, one.severity, one.sentence, one.advice, is_false)
        if table is None:
            value = "false" if is_false else "note"
        else:
            value = worth(finding, table).replace("missed", "beside")
        lines.append(Line(kept.id, value, finding))
    return lines


def table(names: Iterable[str], lines: Iterable[Line]) -> Iterator[str]:
    """A line for each rule that says something or should."""
    listed: dict[str, set[str]] = defaultdict(set)
    for name in names:
        for rule in _TABLE.get(journal.fault_of(name), Accepted()).rules:
            listed[rule].add(name)
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in lines:
        found[line.finding.rule][line.worth].add(line.journal)
    yield f"{'rule':32} {'found':>9} {'right':>6} {'symptom':>8} {'false':>6} {'beside':>7}"
    for rule in sorted({*found, *listed}):
        own, right = listed[rule], found[rule]["right"]
        counts = [
            len(right - own),
            *(len(found[rule][one]) for one in ("symptom", "false", "beside")),
        ]
        cell = f"{len(right & own)}/{len(own)}" if own else ""
        yield "{:32} {:>9} {:6} {:8} {:6} {:7}".format(rule, cell, *counts)


def total(names: Iterable[str], lines: Iterable[Line]) -> str:
    """How many faults any rule names."""
    named = {line.journal for line in lines if line.worth == "right"}
    faulty = [name for name in names if journal.fault_of(name) in _TABLE]
    false = sum(line.worth == "false" for line in lines)
    return (
        f"{len(named)} of {len(faulty)} faults are named; {false} findings mislead about "
        f"{len(list(names)) - len(faulty)} healthy journals"
    )


def sentences(rule: str, names: Sequence[str], lines: Iterable[Line]) -> Iterator[str]:
    """What one rule says about which journal, and where it should have said something."""
    own = [line for line in lines if line.finding.rule == rule]
    if not own:
        yield f"{rule} reports nothing about the {len(names)} recorded trainings."
    for value in ("false", "beside", "symptom", "note", "right"):
        for line in own:
            if line.worth == value:
                yield f"{value:8} {line.journal} ({line.finding.severity}): {line.finding.sentence}"
    named = {line.journal for line in own}
    for name in names:
        fault = _TABLE.get(journal.fault_of(name))
        if fault is not None and rule in fault.rules and name not in named:
            others = {line.finding.rule for line in lines if line.journal == name}
            yield f"silent   {name}: {', '.join(sorted(others)) or 'no finding'}"


def main() -> int:
    """Print the table, or the sentences of one rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rule", nargs="?", help="print every sentence of this rule")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    known = [rule.name for rule in RULES]
    if asked.rule and asked.rule not in known:
        parser.error(f"no rule {asked.rule!r}; there are {', '.join(known)}")
    names, lines = check(workers=asked.workers)
    if asked.rule:
        print(*sentences(asked.rule, names, lines), sep="\n")
    else:
        print(*table(names, lines), total(names, lines), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
