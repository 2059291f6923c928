from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epochal.journal.layout import PartName
from epochal.series.series import Series
from epochal.store.local.columns import SeriesKey
from epochal.store.local.state import RunState
from epochal.store.local.tail import TailedPart
from tests.segments.parts import HEADER, lines, metrics, write_part


@pytest.fixture
def state(tmp_path: Path) -> RunState:
    """Three parts: two series are logged together and one less often."""
    parts = []
    for number in range(3):
        records = []
        for step in range(100 * number, 100 * number + 100):
            seldom = {"seldom": step / 2} if number != 1 and step % 10 == 0 else {}
            records.append(metrics(step, loss=step / 3, accuracy=step / 7, **seldom))
        name = PartName("loop", 1, number)
        folder = write_part(tmp_path, lines(HEADER, *records), name=name)
        parts.append(TailedPart(folder.part_path(name), name))
        parts[-1].poll()
    return RunState(parts)


def ask(state: RunState, name: str) -> Series:
    return state.series(SeriesKey(name, "step"), 0)


def test_series_that_are_logged_together_share_steps_and_times(state: RunState) -> None:
    loss, accuracy = ask(state, "loss"), ask(state, "accuracy")
    assert np.shares_memory(loss.steps, accuracy.steps)
    assert np.shares_memory(loss.times, accuracy.times)
    assert accuracy.values.tolist() == [step / 7 for step in range(300)]


def test_a_series_of_fewer_points_has_its_own(state: RunState) -> None:
    loss = ask(state, "loss")
    seldom = ask(state, "seldom")
    expected = [*range(0, 100, 10), *range(200, 300, 10)]
    assert seldom.steps.tolist() == expected
    assert seldom.values.tolist() == [step / 2 for step in expected]
    assert not np.shares_memory(loss.steps, seldom.steps)
    assert ask(state, "loss").steps.tolist() == list(range(300))
