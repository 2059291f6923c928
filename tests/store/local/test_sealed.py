from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.layout import PartName, run_folders
from epochal.series.series import Series
from epochal.store.cache import LoadedRuns, MemoryBudget
from epochal.store.folder import FolderSource
from epochal.store.local.by_path import load_run, named_run
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.doubles.every_kind import write_every_kind
from tests.store.journals import Journal, settle
from tests.store.sealing import seal, seal_all

LOOP = PartName("loop", 1, 0)


def everything(run: RunView) -> dict[str, object]:
    """All that can be asked of a run."""
    series = {
        (m.name, m.axis, rank): points(run.series(m.name, rank=rank, axis=m.axis))
        for m in run.metrics()
        for rank in m.ranks
    }
    kinds = ("text", "histogram", "blob", "message", "event", "finding", "epoch", "dataset", "eval")
    return {
        "series": series,
        "metrics": sorted(run.metrics(), key=lambda m: (m.name, m.axis)),
        "entries": {kind: run.entries(kind, rank=None) for kind in kinds},
        "row": {
            field: getattr(run.info, field)
            for field in ("id", "step", "epoch", "records", "updated", "attempts", "config")
        },
        "records": list(run.records()),
        "end": dict(run.end()),
        "kinds": run.kinds(),
    }


def points(series: Series) -> tuple[object, ...]:
    # nan is not equal to itself, but its text is.
    columns = (series.steps.tolist(), series.times.tolist(), list(map(repr, series.values)))
    return (*columns, series.duplicates, series.hidden)


def test_every_kind_of_record_answers_the_same_sealed_and_unsealed(tmp_path: Path) -> None:
    folder = write_every_kind(tmp_path / "runs")
    before = everything(load_run(folder))
    seal_all(tmp_path / "runs")
    after = everything(load_run(folder))
    for question, answer in before.items():
        assert after[question] == answer, question


def test_a_part_that_is_sealed_meanwhile_is_not_lost(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).metrics(2, a=2)
    journal.add({"log": "text", "step": 1, "name": "s", "text": "hello"})
    run = load_run(journal.folder.path)
    end = run.end()
    assert len(run.series("a")) == 2
    seal(journal.folder)
    assert not run.refresh()
    assert run.end() == end
    assert run.series("a").values.tolist() == [1, 2]
    assert [entry.record["text"] for entry in run.texts()] == ["hello"]
    journal.add({"log": "metrics", "step": 3, "m": {"a": 3}}, part=1)
    assert run.refresh()
    assert run.series("a").values.tolist() == [1, 2, 3]
    assert [str(position) for position, _ in run.records(end)] == [
        "loop.0001.0001.0",
        "loop.0001.0001.1",
    ]


def test_a_part_sealed_between_listing_and_reading_is_found(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    run = load_run(journal.folder.path)
    assert run.outline().name == "x"  # looks at the folder, reads no journal
    seal(journal.folder)
    assert len(run.series("a")) == 1


def test_a_journal_that_outgrew_its_segment_is_read_instead(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    text = journal.path().read_bytes()
    seal(journal.folder)
    journal.path().write_bytes(text)
    assert len(load_run(journal.folder.path).series("a")) == 1
    journal.metrics(2, a=2)
    assert len(load_run(journal.folder.path).series("a")) == 2


def test_a_damaged_segment_is_a_problem_of_its_run_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    other = Journal(tmp_path, "other").metrics(1, a=1)
    seal(journal.folder)
    (journal.folder.segments / f"{LOOP.stem}.parquet").write_bytes(b"PAR1 rubbish")
    store = folder_store(tmp_path)
    assert "is damaged" in str(store.run("x").info.problem)
    assert len(named_run(store, str(other.folder.path)).series("a")) == 1


def test_a_damaged_segment_beside_its_journal_does_no_harm(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.folder.segments.mkdir()
    (journal.folder.segments / f"{LOOP.stem}.parquet").write_bytes(b"PAR1 rubbish")
    run = load_run(journal.folder.path)
    assert (len(run.series("a")), run.info.problem) == (1, None)


def test_a_sealed_part_of_a_newer_format_is_not_half_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    seal(journal.folder)
    journal.path("rank-0001").write_text('{"log":"run","v":2}\n')
    run = load_run(journal.folder.path)
    assert (run.info.status.state, run.metrics()) == ("unreadable", [])


def test_runs_let_go_of_journals_and_read_them_again(tmp_path: Path) -> None:
    for number in range(3):
        Journal(tmp_path, f"r{number}").metrics(1, a=number)
    settle(tmp_path)
    held = MemoryBudget(loaded=LoadedRuns(limit_bytes=0))
    runs = [RunView(FolderSource(folder.path), held=held) for folder in run_folders(tmp_path)]
    for _ in range(2):
        assert [run.series("a").values[0] for run in runs] == [0, 1, 2]
        assert [run.held_bytes > 0 for run in runs] == [False, False, True]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_one_step_spike_is_seen_at_any_zoom(tmp_path: Path, sealed: bool) -> None:
    journal, spike, size = Journal(tmp_path), 177_777, 200_000
    with journal.add().path().open("ab") as file:
        for step in range(size):
            loss = 99.5 if step == spike else 1.25
            file.write(
                b'{"log":"metrics","t":%.3f,"step":%d,"m":{"loss":%s}}\n'
                % (1000 + step, step, repr(loss).encode())
            )
    if sealed:
        seal(journal.folder)
    run = load_run(journal.folder.path)
    series = run.series("loss")
    for width in (size, 50_000, 3_000, 200, 3):
        lo, hi = max(0, spike - width), spike + width
        found = run.downsample("loss", 20, lo=lo, hi=hi)
        shown = None if found is None else found.shown
        if isinstance(shown, Series):
            assert shown.steps.tolist() == series.steps[lo : hi + 1].tolist()
            assert shown.values.max() == 99.5
        elif shown is not None:
            assert shown.max_step[int(np.argmax(shown.max))] == spike
        assert (shown is not None) == sealed
        cut = series.buckets(100, lo=lo, hi=hi)
        assert cut.max.max() == 99.5
        assert cut.max_step[int(np.argmax(cut.max))] == spike
        assert cut.raw == (len(series.steps[lo : hi + 1]) <= 100)


VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**70), 2**70)
ROWS = st.lists(
    st.tuples(st.integers(-3, 6), st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)),
    max_size=40,
)


@given(rows=ROWS)
def test_points_in_any_order_and_shape_come_out_alike(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, dict[str, float]]]
) -> None:
    journal = Journal(tmp_path_factory.mktemp("runs")).add()
    expected: dict[str, dict[int, float]] = {}
    for step, metrics in rows:
        journal.add({"log": "metrics", "step": step, "m": metrics})
        for name, value in metrics.items():
            expected.setdefault(name, {})[step] = _as_float(value)
    for _ in range(2):
        run = load_run(journal.folder.path)
        for name, by_step in expected.items():
            series = run.series(name)
            assert series.steps.tolist() == sorted(by_step)
            np.testing.assert_array_equal(series.values, [by_step[s] for s in sorted(by_step)])
        if journal.folder.parts():
            seal(journal.folder)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def test_only_so_many_runs_keep_their_journals(tmp_path: Path) -> None:
    for number in range(5):
        Journal(tmp_path, f"r{number}").metrics(1, a=number)
    settle(tmp_path)
    held = MemoryBudget(loaded=LoadedRuns(most=2))
    runs = [RunView(FolderSource(folder.path), held=held) for folder in run_folders(tmp_path)]
    assert [run.info.step for run in runs] == [1] * 5
    assert [run.held_bytes > 0 for run in runs] == [False, False, False, True, True]


def test_runs_being_written_keep_their_journals(tmp_path: Path) -> None:
    for number in range(20):
        Journal(tmp_path, f"r{number}").metrics(1, a=number)
    held = MemoryBudget(loaded=LoadedRuns(most=1))
    runs = [RunView(FolderSource(folder.path), held=held) for folder in run_folders(tmp_path)]
    assert [len(run.series("a")) for run in runs] == [1] * 20
    assert all(run.held_bytes > 0 for run in runs)
