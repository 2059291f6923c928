from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochal.journal.facts import SeriesKey
from epochal.journal.segments.read import Segment
from epochal.journal.segments.verify import segment_fault
from epochal.records import Record
from epochal.series.blocks import BLOCK_POINTS, blocks_of
from tests.journal.segments.parts import flip, metrics, sealed

SIZE = 9 * BLOCK_POINTS + 100


def training(step: int) -> Record:
    """Steps with a gap, records of two shapes, few of a third one, and values like NaN."""
    at = step + 1000 * (step > 5000)
    if step % (BLOCK_POINTS // 2) == 0:
        return metrics(at, loss=-0.5 * step, note=[1])
    if step % 90 == 5:
        return metrics(at, loss=0.25 * step, evaluated=1.5)
    if step in (20, 21, 3000):
        return {**metrics(at, loss=None), "nonfinite": {"loss": "-inf" if step == 21 else "nan"}}
    return metrics(at, loss=math.sin(step))


def system(step: int) -> Record:
    return {"log": "system", "t": 1700000000 + step // 2 / 8, "cpu_pct": step % 17 + 0.5}


@pytest.mark.parametrize(
    ("record", "key"),
    [(training, SeriesKey("loss", "step")), (system, SeriesKey("system/cpu_pct", "time"))],
)
def test_blocks_are_those_of_all_points(
    tmp_path: Path, record: Callable[[int], Record], key: SeriesKey
) -> None:
    segment = sealed(tmp_path, *map(record, range(SIZE)))
    whole = Segment(segment.path).series(*key)
    blocks, expected = segment.blocks(key), blocks_of(whole)
    assert blocks is not None
    assert expected is not None
    assert bytes(blocks.rows) == bytes(expected.rows)
    assert bytes(blocks.marks) == bytes(expected.marks)
    for first, last in ((0, 1), (3, 7), (9, 10), (2, 2)):
        some, points = blocks.points(first, last), expected.points(first, last)
        for name in ("steps", "times", "values"):
            np.testing.assert_array_equal(getattr(some, name), getattr(points, name))


def test_a_series_that_is_short_or_repeats_a_step_has_no_blocks(tmp_path: Path) -> None:
    again: list[dict[str, Any]] = [metrics(step, a=1.0) for step in (*range(SIZE), SIZE - 1)]
    segment = sealed(tmp_path, *again, *(metrics(SIZE + step, b=1.0) for step in range(100)))
    assert segment.blocks(SeriesKey("a", "step")) is None
    assert segment.blocks(SeriesKey("b", "step")) is None


def test_damaged_block_summaries_are_reported_and_not_used(tmp_path: Path) -> None:
    path = sealed(tmp_path, *map(training, range(SIZE))).path
    (section,) = Segment(path).footer.blocks
    flip(path, section.offset + section.size // 2)
    segment = Segment(path)
    assert segment.blocks(SeriesKey("loss", "step")) is None
    assert len(segment.series("loss", "step")) == SIZE
    fault = segment_fault(path)
    assert fault is not None
    assert fault.problem.startswith("the block summaries of loss are damaged")
