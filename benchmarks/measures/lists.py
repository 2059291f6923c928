"""Lists of thousands of runs that carry their summaries, and one run with very many metrics.

Every figure is CPU time of a fresh process after its imports; the files are in the page cache.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measures.first_look import Case, play
from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.run_folders import BEGIN, BODIES, seal, settle, write_many
from benchmarks.stage import Answer, Stage, say

if TYPE_CHECKING:
    from epochal.journal.fold import RunMetrics
    from epochal.journal.layout import RunFolder
    from epochal.journal.row import RunRow

NAME = "lists"
RUNS, METRICS, CONFIG_KEYS = 20_000, 200, 40
SMALL_RUNS, SMALL_METRICS, SMALL_KEYS = 100_000, 3, 3
WIDE_METRICS = 100_000
STEPS, ROUNDS = 5, 3
_IMPORTS = """
from pathlib import Path
import epochal.cli.show, epochal.journal.segments.read
from epochal.store.brief import run_brief
from epochal.store.local.catalog import folder_store
"""
_LIST = """
with folder_store(sys.argv[1], cache=Path(sys.argv[2])) as store:
    runs = store.known_runs({query!r}).runs
    found["runs"] = len(runs)
    rows = [run.outline() for run in runs[:100]]
"""
_SHOW = """
with folder_store(sys.argv[1], cache=Path(sys.argv[2])) as store:
    found["runs"] = len([run_brief(store, run) for run in store.runs()])
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One list, and its targets in CPU seconds: the first time, and again with an index."""

    name: str
    folder: str
    body: str
    first_s: float
    again_s: float | None = None


ROWS = (
    Row("20,000 runs", "runs", _LIST.format(query=None), 4, 0.5),
    Row("20,000 runs by config", "runs", _LIST.format(query="config.lr < 0.5"), 4, 0.5),
    Row("20,000 runs by headline", "runs", _LIST.format(query="summary.loss < 0.5"), 4, 0.5),
    Row("20,000 runs by another metric", "runs", _LIST.format(query="metric_150 < 0.5"), 25, 0.5),
    Row("100,000 small runs", "small", _LIST.format(query=None), 15, 2),
    Row("show 100,000 metrics", "wide", _SHOW, 0.6),
)
PEAK_MB = 300


def run(stage: Stage) -> Outcome:
    share = 10 if stage.quick else 1
    folders = {name: stage.scratch / f"lists-{name}" for name in ("runs", "small", "wide")}
    say(f"{NAME} · writing runs")
    write_runs(folders["runs"], RUNS // share, METRICS, CONFIG_KEYS)
    write_runs(folders["small"], SMALL_RUNS // share, SMALL_METRICS, SMALL_KEYS)
    write_wide(folders["wide"], WIDE_METRICS // share)
    answers = _measured(folders, stage.scratch / "lists-cache", rounds=1 if stage.quick else ROUNDS)
    rows = {
        name: (first["cpu_s"], again["cpu_s"], first["peak_mb"], again["peak_mb"])
        for name, (first, again) in answers.items()
    }
    columns = ("first, CPU s", "again, CPU s", "first, peak MB", "again, peak MB")
    table = Table("lists", columns, rows, {}, ratios=False)
    note = (
        f"Finished runs with summaries: {METRICS} metrics and {CONFIG_KEYS} keys, and small ones of"
        f" {SMALL_METRICS} metrics. Another metric is one that is not in the headline. The wide run"
        " is sealed; it is shown, not listed." + (" A tenth of everything." if stage.quick else "")
    )
    return Outcome("Lists", note, (table,), _holds(answers, is_quick=stage.quick))


def _holds(answers: Mapping[str, tuple[Answer, Answer]], *, is_quick: bool) -> tuple[Hold, ...]:
    found: list[tuple[str, float, float, str]] = []
    for row in ROWS:
        first, again = answers[row.name]
        found.append((f"{row.name}, first", row.first_s, first["cpu_s"], "s"))
        if row.again_s is not None:
            found.append((f"{row.name}, again", row.again_s, again["cpu_s"], "s"))
    small = max(answer["peak_mb"] for answer in answers["100,000 small runs"])
    found.append(("100,000 small runs, memory", PEAK_MB, small, "MB"))
    return tuple(
        Hold(what, limit, None if is_quick else value, unit, "not in a quick run")
        for what, limit, value, unit in found
    )


def _measured(
    folders: Mapping[str, Path], cache: Path, *, rounds: int
) -> dict[str, tuple[Answer, Answer]]:
    """The middle of each figure over rounds that take turns: without an index, then with it."""
    found: dict[str, tuple[list[Answer], list[Answer]]] = {row.name: ([], []) for row in ROWS}
    for turn in range(rounds):
        for row in ROWS:
            say(f"{NAME} · round {turn + 1}/{rounds} · {row.name}")
            shutil.rmtree(cache, ignore_errors=True)
            case = Case(Path(sys.executable), _IMPORTS, row.body, folders[row.folder])
            for answers in found[row.name]:
                answers.append(play(case, cache, 0))
    return {name: (_middle(first), _middle(again)) for name, (first, again) in found.items()}


def _middle(answers: list[Answer]) -> Answer:
    return {key: median(answer[key] for answer in answers) for key in answers[0]}


# -- run folders ----------------------------------------------------------------------------------


def write_runs(root: Path, count: int, metrics: int, config_keys: int) -> None:
    """Finished runs with summaries: one of each text of records is folded, the others adapted."""
    write_many(
        root,
        count=count,
        steps=STEPS,
        metrics=metrics,
        config_keys=config_keys,
        summarize=_summarizer(),
    )


def _summarizer() -> Callable[[RunFolder], None]:
    from epochal.journal.layout import read_json
    from epochal.journal.line import encode_json
    from epochal.journal.summaries import (
        fold_and_write,
        identity_mark,
        read_metrics,
        read_summary,
        summary_bytes,
    )

    templates: list[tuple[RunRow, RunMetrics]] = []
    num_runs = 0

    def summarize(folder: RunFolder) -> None:
        nonlocal num_runs
        place, body, num_runs = str(folder.path), num_runs % BODIES, num_runs + 1
        if body == len(templates):
            assert fold_and_write(folder, most_bytes=1 << 30)
            row, known = read_summary(place), read_metrics(place)
            assert row is not None
            assert known is not None
            templates.append((row, known))
            return
        row, known = _adapted(folder, read_json(folder.identity), *templates[body])
        folder.metrics.write_bytes(encode_json(known))
        folder.summary.write_bytes(summary_bytes(row, identity_mark(place)))

    return summarize


def _adapted(
    folder: RunFolder, identity: Mapping[str, object], row: RunRow, known: RunMetrics
) -> tuple[RunRow, RunMetrics]:
    """The summary of a run with the same records as another, but with an identity of its own."""
    from msgspec.structs import replace

    marks = {
        stem: mark._replace(bytes=(folder.journal / f"{stem}.jsonl").stat().st_size)
        for stem, mark in known.marks.items()
    }
    own = {name: identity[name] for name in ("id", "name", "created", "config")}
    writers = [
        replace(one, header={**one.header, "id": own["id"], "name": own["name"]})
        if one.header is not None
        else one
        for one in known.writers
    ]
    return replace(row, **own, positions=marks), replace(known, writers=writers, marks=marks)


def write_wide(root: Path, metrics: int) -> None:
    """One finished run with very many metrics, sealed and with its summaries."""
    from epochal.journal.layout import run_folders
    from epochal.journal.summaries import fold_and_write

    write_many(root, count=1, steps=STEPS, metrics=metrics)
    (folder,) = run_folders(root)
    _write_findings(folder)
    assert fold_and_write(folder, most_bytes=1 << 30)
    seal(root)
    assert fold_and_write(folder, most_bytes=1 << 30)
    settle(root)


def _write_findings(folder: RunFolder) -> None:
    """What a companion writes of a run in which its rules found nothing."""
    from epochal.journal.layout import FINDINGS, PartName, read_json
    from epochal.journal.line import encode
    from epochal.journal.process import part_header

    part, counts = PartName(FINDINGS, 1, 0), {"evaluated": STEPS, "records": STEPS}
    header = part_header(part, identity=read_json(folder.identity), rank=0, t=BEGIN)
    end = encode({"log": "finish", "t": BEGIN + STEPS, "status": "finished", **counts})
    folder.part_path(part).write_bytes(header + end)
