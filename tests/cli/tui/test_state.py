from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from epochal.cli.tui.state import AppState
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def runs(root: Path, *names: str) -> list[Journal]:
    return [
        Journal(root, name, created=1000.0 - place, config={"lr": place}).metrics(0, loss=1.0)
        for place, name in enumerate(names)
    ]


def state_of(root: Path, clock: Clock | None = None) -> AppState:
    return AppState(folder_store(root), clock=clock or Clock())


def names(state: AppState) -> list[str]:
    return [run.info.name for run in state.runs]


def chosen(state: AppState) -> str:
    assert state.run is not None
    return state.run.info.name


def test_the_newest_run_is_looked_at_first(tmp_path: Path) -> None:
    runs(tmp_path, "new", "old")
    assert chosen(state_of(tmp_path)) == "new"


def test_a_refresh_tells_whether_there_is_news(tmp_path: Path, clock: Clock) -> None:
    (journal,) = runs(tmp_path, "a")
    state = state_of(tmp_path, clock)
    state.refresh()
    journal.metrics(1, loss=2.0)
    assert not state.refresh(), "it is not yet time"
    clock.now += 1
    assert state.refresh()
    assert state.run is not None
    assert len(state.run.series("loss")) == 2
    clock.now += 1
    assert not state.refresh()


def test_new_runs_appear_and_deleted_ones_go(tmp_path: Path, clock: Clock) -> None:
    (first, _) = runs(tmp_path, "a", "b")
    state = state_of(tmp_path, clock)
    runs(tmp_path, "c")
    clock.now += 10
    assert state.refresh()
    assert sorted(names(state)) == ["a", "b", "c"]
    shutil.rmtree(first.folder.path)
    clock.now += 10
    assert state.refresh()
    assert chosen(state) != "a"


def test_what_is_no_filter_is_said_and_the_list_stays(tmp_path: Path) -> None:
    runs(tmp_path, "a", "b")
    state = state_of(tmp_path)
    state.filter("(")
    assert "missing )" in (state.problem or "")
    state.filter("config.lr >")
    assert state.problem
    assert names(state) == ["a", "b"]


def test_up_to_four_runs_are_compared(tmp_path: Path) -> None:
    runs(tmp_path, *"abcde")
    state = state_of(tmp_path)
    for index in range(5):
        state.choose(index)
        state.compare()
    assert [run.info.name for run in state.compared] == ["b", "c", "d", "e"]
    state.compare()
    assert [run.info.name for run in state.compared] == ["b", "c", "d"]


def test_the_most_important_metrics_come_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "a").metrics(0, other=1.0, loss=1.0, more=2.0, score=0.5)
    journal.add({"log": "define", "name": "score", "goal": "max"})
    state = state_of(tmp_path)
    assert [metric.name for metric in state.metrics()] == ["score", "loss", "other", "more"]
    assert getattr(state.metric(None), "name", "") == "score"
    assert getattr(state.metric("more"), "name", "") == "more"


def test_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    runs(tmp_path, "a", "b")

    class Slow(Clock):
        def __call__(self) -> float:
            self.now += 0.15
            return self.now

    state = state_of(tmp_path, Slow())
    first = state.rows(state.runs)
    assert [row is None for row in first] == [False, True]
    assert state.is_behind
    assert None not in state.rows(state.runs)
    assert not state.is_behind


def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    state = state_of(tmp_path)
    state.choose(1)
    state.compare()
    assert state.run is None
    assert state.metric(None) is None
