"""Runs of other trackers that are kept as run folders in the cache and follow their originals."""

from __future__ import annotations

import gc
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from epochal.exchange.imports.converting import FOLDER, Conversions, delete_unused
from epochal.exchange.imports.foreign import Identity
from epochal.exchange.imports.formats.tensorboard import TensorboardRun
from epochal.journal.layout import SearchBounds
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.exchange.imports.event_files import scalar, write_events
from tests.store.journals import settle


def log_losses(folder: Path, steps: Iterable[int]) -> Path:
    return write_events(folder, [scalar("loss", float(s), step=s, t=1.7e9 + s) for s in steps])


def converted(cache: Path) -> Path:
    (state,) = (cache / FOLDER).glob("*/converted.json")
    return state.parent


def writer(cache: Path) -> object:
    return json.loads((converted(cache) / "converted.json").read_text())["writer"]


def open_run(tmp_path: Path) -> RunView:
    return folder_store(tmp_path / "logs", cache=tmp_path / "cache").run("a")


def points(run: RunView) -> list[float]:
    return [float(value) for value in run.series("loss").values]


def test_an_original_that_has_not_changed_is_converted_once(tmp_path: Path) -> None:
    log_losses(tmp_path / "logs" / "a", range(3))
    settle(tmp_path)
    assert points(open_run(tmp_path)) == [0, 1, 2]
    first = writer(tmp_path / "cache")
    assert points(open_run(tmp_path)) == [0, 1, 2]
    assert writer(tmp_path / "cache") == first
    log_losses(tmp_path / "logs" / "a", [3])
    assert points(open_run(tmp_path)) == [0, 1, 2, 3]
    assert writer(tmp_path / "cache") != first


def test_a_list_of_names_converts_nothing(tmp_path: Path) -> None:
    log_losses(tmp_path / "logs" / "a", range(3))
    with folder_store(tmp_path / "logs", cache=tmp_path / "cache") as store:
        assert [(run.outline().name, run.tracker) for run in store.runs()] == [("a", "TensorBoard")]
    assert list((tmp_path / "cache" / FOLDER).glob("*/journal")) == []


def test_two_readers_of_a_growing_run_both_have_every_point_once(tmp_path: Path) -> None:
    log_losses(tmp_path / "logs" / "a", range(3))
    first, second = open_run(tmp_path), open_run(tmp_path)
    assert points(first) == points(second) == [0, 1, 2]
    for step in range(3, 8):
        log_losses(tmp_path / "logs" / "a", [step])
        for run in (first, second) if step % 2 else (second, first):
            run.refresh()
        assert list(range(step + 1)) in (points(first), points(second))
    # The one that did not write last takes over when the other has been silent for a while.
    state = converted(tmp_path / "cache") / "converted.json"
    os.utime(state, (time.time() - 60, time.time() - 60))
    log_losses(tmp_path / "logs" / "a", [8])
    for run in (first, second):
        run.refresh()
        os.utime(state, (time.time() - 60, time.time() - 60))
        run.refresh()
        assert points(run) == list(range(9))


def test_readers_that_convert_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    log_losses(tmp_path / "logs" / "a", range(2000))
    found: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: found.append(points(open_run(tmp_path)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(2000))] * 4


def test_labels_survive_a_new_conversion(tmp_path: Path) -> None:
    path = log_losses(tmp_path / "logs" / "a", range(9))
    run = open_run(tmp_path)
    assert len(points(run)) == 9
    run.relabel(lambda labels: replace(labels, tags=("good",)))
    path.write_bytes(b"")
    log_losses(tmp_path / "logs" / "a", range(2))
    run.refresh()
    assert (points(run), run.info.tags) == ([0, 1], ("good",))


def test_damage_stays_the_problem_of_the_run_in_later_processes(tmp_path: Path) -> None:
    path = log_losses(tmp_path / "logs" / "a", range(9))
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 255
    path.write_bytes(text)
    settle(tmp_path)
    for _ in range(2):
        assert "is damaged at byte" in str(open_run(tmp_path).info.problem)


def test_a_converted_run_that_was_deleted_is_converted_again(tmp_path: Path) -> None:
    log_losses(tmp_path / "logs" / "a", range(3))
    run = open_run(tmp_path)
    assert len(points(run)) == 3
    shutil.rmtree(tmp_path / "cache")
    log_losses(tmp_path / "logs" / "a", [3])
    run.refresh()
    assert points(run) == [0, 1, 2, 3]


def test_without_a_cache_the_folder_goes_with_the_store(tmp_path: Path) -> None:
    log_losses(tmp_path / "logs" / "a", range(3))
    conversions = Conversions(SearchBounds(tmp_path), None)
    (run,) = conversions.at(tmp_path / "logs")
    run.refresh()
    folder = run.folder.path
    assert (folder / "run.json").exists()
    del conversions, run
    gc.collect()
    assert not folder.parent.exists()


def test_converted_runs_are_deleted_when_nobody_needs_them(tmp_path: Path) -> None:
    for name in ("gone", "old", "large", "small"):
        log_losses(tmp_path / "logs" / name, range(9))
    settle(tmp_path)
    cache = tmp_path / "cache"
    with folder_store(tmp_path / "logs", cache=cache) as store:
        states = {}
        for run in store.runs():
            assert len(run.series("loss")) == 9
            states[run.outline().name] = Path(run.place) / "converted.json"
        store.run("old").relabel(lambda labels: replace(labels, name="kept"))
    shutil.rmtree(tmp_path / "logs" / "gone")
    now = time.time()
    for name, age_s in {"gone": 0, "old": 40 * 86400, "large": 60, "small": 0}.items():
        os.utime(states[name], (now - age_s, now - age_s))
    (cache / FOLDER / ".cleaned").unlink()
    size = sum(file.stat().st_size for file in states["small"].parent.rglob("*") if file.is_file())
    delete_unused(cache / FOLDER, max_bytes=size + 100)
    assert [name for name, state in states.items() if state.exists()] == ["small"]
    # Labels stay.
    assert [
        run.outline().name for run in folder_store(tmp_path / "logs", cache=cache).runs()
    ].count("kept") == 1


def test_a_run_whose_identity_cannot_be_read_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_losses(tmp_path / "logs" / "a", range(3))
    log_losses(tmp_path / "logs" / "b", range(3))
    identity: Callable[[TensorboardRun], Identity] = vars(TensorboardRun)["identity"].fget

    def failing(run: TensorboardRun) -> Identity:
        if run.key == "b":
            raise RuntimeError("no name")
        return identity(run)

    monkeypatch.setattr(TensorboardRun, "identity", property(failing))
    with folder_store(tmp_path / "logs", cache=tmp_path / "cache") as store:
        found = {run.outline().name: run.info.problem for run in store.runs()}
    assert found["a"] is None
    assert "no name" in str(found["b"])
