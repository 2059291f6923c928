from __future__ import annotations

import gc
import weakref
from pathlib import Path

from epochal.store.local.by_path import load_run
from tests.store.journals import Journal


def test_a_run_that_nobody_uses_goes_without_the_garbage_collector(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=0.5)
    gc.disable()
    try:
        run = load_run(tmp_path / "p" / "x")
        assert run.info.records == 2
        assert len(run.series("loss")) == 1
        run.close()
        gone = weakref.ref(run)
        del run
        assert gone() is None
    finally:
        gc.enable()


def test_a_change_of_the_files_makes_another_row(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=0.5)
    run = load_run(tmp_path / "p" / "x")
    before = run.read_row()
    assert run.read_row() is before
    journal.metrics(2, loss=0.25)
    assert run.refresh()
    assert run.read_row() is not before
    assert run.read_row().records == 3
