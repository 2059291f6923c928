from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.facts import SeriesKey
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.state import RunState
from epochal.journal.tail import TailedPart
from epochal.series.series import Series
from epochal.store.local.catalog import folder_store
from tests.journal.segments.parts import HEADER, lines, metrics, write_part
from tests.store.journals import Journal


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


def test_a_series_in_several_parts_has_all_of_its_points(state: RunState) -> None:
    assert ask(state, "accuracy").steps.tolist() == list(range(300))
    assert ask(state, "accuracy").values.tolist() == [step / 7 for step in range(300)]


def test_a_series_of_fewer_points_has_its_own(state: RunState) -> None:
    loss = ask(state, "loss")
    seldom = ask(state, "seldom")
    expected = [*range(0, 100, 10), *range(200, 300, 10)]
    assert seldom.steps.tolist() == expected
    assert seldom.values.tolist() == [step / 2 for step in expected]
    assert not np.shares_memory(loss.steps, seldom.steps)
    assert ask(state, "loss").steps.tolist() == list(range(300))


# A part is a list of steps; records of some of them have all series, of others only one.
part_steps = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["ab", "a", "b", "abc"])))


@given(
    st.lists(st.tuples(st.integers(1, 2), part_steps), min_size=1, max_size=4),
    st.permutations(["a", "b", "c", "a"]),
)
def test_series_are_the_same_whatever_was_asked_before(
    tmp_path_factory: pytest.TempPathFactory,
    wanted: list[tuple[int, list[tuple[int, str]]]],
    names: list[str],
) -> None:
    folder = tmp_path_factory.mktemp("series")
    parts = []
    for number, (attempt, steps) in enumerate(wanted):
        name = PartName("loop", attempt, number)
        records = [metrics(at, **dict.fromkeys(given, at + number / 8)) for at, given in steps]
        write_part(folder, lines(HEADER | {"attempt": attempt}, *records), name=name)
        parts.append(TailedPart(RunFolder(folder).part_path(name), name))
        parts[-1].poll()
    one = RunState(parts)
    kept = []  # as a store keeps series in memory
    for metric in names:
        key = SeriesKey(metric, "step")
        if key in one.ranks:
            kept.append(one.series(key, 0))
            alone = RunState(parts).series(key, 0)
            assert kept[-1].name == metric
            assert kept[-1].steps.tolist() == alone.steps.tolist()
            assert kept[-1].times.tolist() == alone.times.tolist()
            assert kept[-1].values.tolist() == alone.values.tolist()
            assert (kept[-1].duplicates, kept[-1].hidden) == (alone.duplicates, alone.hidden)


def test_a_series_that_grew_is_read_whole(tmp_path: Path) -> None:
    name = PartName("loop", 1, 0)
    records = [metrics(step, loss=step / 3, accuracy=step / 7) for step in range(20)]
    folder = write_part(tmp_path, lines(HEADER, *records[:10]), name=name)
    part = TailedPart(folder.part_path(name), name)
    part.poll()
    state = RunState([part])
    loss = ask(state, "loss")
    write_part(tmp_path, lines(HEADER, *records), name=name)
    part.poll()
    assert len(ask(state, "accuracy")) == 20
    assert len(loss) == 10


def test_metrics_are_made_anew_only_where_they_changed(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0, a=2.0)
    with folder_store(tmp_path) as store:
        first = store.run("x").metrics()
        for step, change in enumerate(("step", "metric", "definition"), 2):
            if change == "step":
                journal.metrics(step, loss=1.0, a=2.0)
            elif change == "metric":
                journal.metrics(step, b=1.0)
            else:
                journal.add({"log": "define", "name": "a", "unit": "ms"})
            store.refresh()
            found = store.run("x").metrics()
            assert (list(found) == list(first)) == (change == "step")
            first = found
        assert [(metric.name, metric.unit) for metric in first] == [
            ("loss", None),
            ("a", "ms"),
            ("b", None),
        ]
