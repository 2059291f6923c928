"""Follows one number from ``run.log`` to the body of ``/api/series``, file by file.

"A value's way" in CONTRIBUTING.md names these files: a profiler looks into every frame of a real
write and of real reads, and notes the files whose variables hold the number.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.journal.layout import RunFolder
from epochal.server.series import Slicing, series_block, series_body
from epochal.store.local.by_path import load_run
from tests.store.sealing import seal

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "epochal"
VALUE = 0.6180339887498949
TEXT, BINARY = repr(VALUE).encode(), np.float64(VALUE).tobytes()
# The first lines of a kind are decoded one by one.
NUM_FIRST, NUM_STEPS = 100, 1000


def holds(found: Any, depth: int = 2) -> bool:
    """Whether an object is the number, has it as text or as bytes, or contains it."""
    if isinstance(found, float):
        return found == VALUE
    if isinstance(found, (bytes, bytearray)):
        return TEXT in found or BINARY in found
    if isinstance(found, np.ndarray):
        return found.dtype.kind == "f" and bool((found == VALUE).any())
    if not depth:
        return False
    if isinstance(found, dict):
        found = tuple(found.values())
    elif is_dataclass(found):
        found = tuple(getattr(found, one.name, None) for one in fields(found))
    return isinstance(found, (tuple, list)) and any(holds(one, depth - 1) for one in found[:20])


def files_passed(action: Callable[[], object]) -> set[str]:
    """The files of Epochal whose functions had the number while an action ran."""
    passed: set[str] = set()

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
            passed.add(file)

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return passed


def section() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.split(r"^## ", text[text.index("## A value's way") + 3 :], flags=re.MULTILINE)[0]


def named(title: str, *, kinds: tuple[str, ...] = ()) -> set[str]:
    """The files in the first column of a table; of these ``kinds`` in its second column."""
    table = section().split(f"**{title}**")[1].split("\n\n")[1]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    return {row[0].strip("`") for row in rows if not kinds or row[1] in kinds}


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


def test_a_written_value_passes_the_files_that_are_named(tmp_path: Path) -> None:
    with epochal.init(project="p", dir=tmp_path, companion=False, console=False) as run:
        passed = files_passed(lambda: run.log({"loss": VALUE}, step=1))
    assert passed == named("Written")


def test_a_value_of_a_journal_passes_the_files_that_are_named(recorded: Path) -> None:
    bodies: list[bytes] = []
    passed = files_passed(lambda: bodies.append(read(recorded)))
    assert passed == named("Read", kinds=("journal", "both"))
    assert holds(bodies[0])


def test_a_value_of_a_segment_passes_the_files_that_are_named(recorded: Path) -> None:
    seal(RunFolder(recorded))
    passed = files_passed(lambda: read(recorded))
    assert passed == named("Read", kinds=("segment", "both"))


def test_every_file_on_the_way_exists() -> None:
    files = re.findall(r"`([\w/.-]+\.(?:py|tsx?|md))`", section())
    assert len(files) > 15
    assert [f for f in files if not ((SOURCE / f).exists() or (ROOT / f).exists())] == []
