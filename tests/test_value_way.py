"""Follows one number from ``run.log`` to the bodies of ``/api/series`` and ``/api/runs``.

"A value's way" and "A run's way into a list" in CONTRIBUTING.md name the files: a profiler looks
into every frame of a real write and of real reads, and notes those whose variables hold the number.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import pytest

import epochal
from epochal.journal.fold import Fold
from epochal.journal.layout import RunFolder
from epochal.journal.row import RunRow
from epochal.journal.summaries import write_metrics, write_summary
from epochal.server.rows import run_row
from epochal.server.series import Slicing, series_block, series_body
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from epochal.store.local.listed import ListedRun
from tests.store.sealing import seal

VALUE_WAY, LIST_WAY = "A value's way", "A run's way into a list"
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "epochal"
VALUE = 0.6180339887498949
TEXT, BINARY = repr(VALUE).encode(), np.float64(VALUE).tobytes()
# The first lines of a kind are decoded one by one.
NUM_FIRST, NUM_STEPS = 100, 1000


def holds(found: Any, depth: int = 5) -> bool:
    """Whether an object is the number, has it as text or as bytes, or contains it."""
    if isinstance(found, float):
        return found == VALUE
    if isinstance(found, (bytes, bytearray)):
        return any(form in found for form in (TEXT, BINARY, BINARY[::-1]))  # or in MessagePack
    if isinstance(found, np.ndarray):
        return found.dtype.kind == "f" and bool((found == VALUE).any())
    if not depth:
        return False
    if isinstance(found, ListedRun):
        found = found.row
    if isinstance(found, msgspec.Struct):
        found = [getattr(found, name) for name in found.__struct_fields__]
    elif isinstance(found, dict):
        found = list(found.values())
    elif is_dataclass(found):
        found = [getattr(found, one.name, None) for one in fields(found)]
    return isinstance(found, (tuple, list)) and any(holds(one, depth - 1) for one in found[:80])


def files_passed(action: Callable[[], object]) -> list[str]:
    """The files of Epochal whose functions had the number while an action ran, in this order."""
    passed: list[str] = []

    def look(frame: FrameType, event: str, result: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "return" or not path.is_relative_to(SOURCE):
            return
        file = path.relative_to(SOURCE).as_posix()
        if file in passed:
            return
        found = {**frame.f_locals, "the result": result}
        found.pop("self", None)
        if any(map(holds, found.values())):
            passed.append(file)

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return passed


def section(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.split(r"^## ", text[text.index(f"## {title}") + 3 :], flags=re.MULTILINE)[0]


def named(title: str, kind: str | None = None, *, way: str = VALUE_WAY) -> list[str]:
    """The files in the first column of a table; those of a kind by its second column."""
    table = section(way).split(f"**{title}**")[1].split("\n\n")[1]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    kinds = {kind, "both", "all"}
    return [row[0].strip("`") for row in rows if not kind or kinds & {*row[1].split(", ")}]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with epochal.init(project="p", name="x", dir=tmp_path, companion=False, console=False) as run:
        for step in range(NUM_STEPS):
            run.log({"loss": VALUE if step > NUM_FIRST else 1.0}, step=step)
    return tmp_path / "p" / "x"


def read(folder: Path) -> bytes:
    run = load_run(folder)
    series = run.series("loss").reindex("step", run)
    block = series_block(run.id, series, Slicing(100), lo=0.0, hi=899.0)
    return series_body([block], missing=(), positions={})


def without_summary(place: Path) -> RunFolder:
    folder = RunFolder(place)
    for summary in (folder.summary, folder.metrics):
        summary.unlink(missing_ok=True)
    return folder


def test_a_written_value_passes_the_files_that_are_named(tmp_path: Path) -> None:
    with epochal.init(project="p", dir=tmp_path, companion=False, console=False) as run:
        passed = files_passed(lambda: run.log({"loss": VALUE}, step=1))
    assert {*passed} == {*named("Written")}


def test_a_value_of_a_journal_passes_the_files_that_are_named(recorded: Path) -> None:
    without_summary(recorded)
    bodies: list[bytes] = []
    passed = files_passed(lambda: bodies.append(read(recorded)))
    assert {*passed} == {*named("Read", "journal")}
    assert holds(bodies[0])


def test_a_value_of_a_segment_passes_the_files_that_are_named(recorded: Path) -> None:
    seal(without_summary(recorded))
    passed = files_passed(lambda: read(recorded))
    assert {*passed} == {*named("Read", "segment")}


def record(root: Path, *, lr: float = 0.5) -> RunFolder:
    """Record a run without a summary."""
    with epochal.init("p", "x", config={"lr": lr}, dir=root, companion=False, console=False) as run:
        run.log({"loss": 1.0}, step=0)
        run.log({"loss": VALUE}, step=1)
    return without_summary(root / "p" / "x")


def carry(folder: RunFolder) -> None:
    """Summarise a run as its companion does."""
    fold = Fold()
    fold.read({name: folder.part_path(name) for name in folder.parts()})
    known = fold.known()
    write_metrics(folder, known)
    write_summary(folder, known)


def carry_half(folder: RunFolder) -> None:
    """Summarise a run before its last two records were appended."""
    part = folder.part_path(folder.parts()[0])
    whole = part.read_bytes()
    part.write_bytes(b"".join(whole.splitlines(keepends=True)[:-2]))
    carry(folder)
    part.write_bytes(whole)


def listed_row(folder: RunFolder, *, budget_s: float = 60.0) -> RunRow:
    with folder_store(folder.path.parents[1]) as store:
        (run,) = store.known_runs("config.lr < 1", budget_s=budget_s).runs
        return run_row(run, with_config=True, summaries=["role:loss"], whole=False)


def test_a_summary_is_written_by_the_files_that_are_named(tmp_path: Path) -> None:
    folder = record(tmp_path)
    passed = files_passed(lambda: carry(folder))
    rows = named("Summarised", way=LIST_WAY)
    assert [file for file in passed if file in rows] == rows


@pytest.mark.parametrize(
    ("kind", "prepare"), [("carry", carry), ("grown", carry_half), ("none", None)]
)
def test_a_run_comes_into_a_list_by_the_files_that_are_named(
    tmp_path: Path, kind: str, prepare: Callable[[RunFolder], None] | None
) -> None:
    folder = record(tmp_path)
    if prepare is not None:
        prepare(folder)
    rows: list[RunRow] = []
    passed = files_passed(lambda: rows.append(listed_row(folder)))
    every = named("Listed", way=LIST_WAY)
    assert [file for file in passed if file in every] == named("Listed", kind, way=LIST_WAY)
    assert rows[0].summaries["role:loss"].last == VALUE


def test_a_run_that_takes_too_long_is_listed_by_the_files_that_are_named(tmp_path: Path) -> None:
    folder = record(tmp_path, lr=VALUE)
    rows: list[RunRow] = []
    passed = files_passed(lambda: rows.append(listed_row(folder, budget_s=0.0)))
    expected = named("Listed", "late", way=LIST_WAY)
    assert [file for file in passed if file in expected] == expected
    assert (rows[0].is_summarised, rows[0].summaries, rows[0].config) == (False, {}, {"lr": VALUE})


@pytest.mark.parametrize("way", [VALUE_WAY, LIST_WAY])
def test_every_file_on_the_way_exists(way: str) -> None:
    files = re.findall(r"`([\w/.-]+\.(?:py|tsx?|md))`", section(way))
    assert len(files) > 15
    assert [f for f in files if not ((SOURCE / f).exists() or (ROOT / f).exists())] == []
