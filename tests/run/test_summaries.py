"""A run without a companion writes its summaries itself when it ends, if that takes no time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from epochal.journal.segments.seal import seal_part
from epochal.journal.summaries import is_summarised, read_metrics, read_summary
from epochal.run.start import init
from tests.doubles.journals import of_kind


def finished(root: Path, *, resume_step: int | None = None, metrics: int = 1) -> RunFolder:
    again = {} if resume_step is None else {"resume": "must", "resume_step": resume_step}
    run = init("p", "a", dir=root, console=False, companion=False, **again)  # type: ignore[arg-type]
    for step in range(resume_step or 0, (resume_step or 0) + 3):
        run.log({"loss": 1.0 / (step + 1), **{f"m{i}": 0.1 for i in range(metrics)}}, step=step)
    run.finish()
    return RunFolder(run.dir)


def test_a_run_without_a_companion_carries_its_summaries(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    row, known = read_summary(str(folder.path)), read_metrics(str(folder.path))
    assert is_summarised(folder)
    assert row is not None
    assert known is not None
    assert (row.step, row.is_ended, row.counts, row.headline[0].last) == (2, True, None, 1 / 3)
    assert known.marks == row.positions


@pytest.mark.parametrize("resume_step", [3, 1])
def test_one_that_goes_on_writes_them_again_unless_it_goes_back(
    tmp_path: Path, resume_step: int
) -> None:
    finished(tmp_path)
    folder = finished(tmp_path, resume_step=resume_step)
    row = read_summary(str(folder.path))
    assert is_summarised(folder) is (resume_step == 3)
    assert row is not None
    assert (row.attempts, row.step) == ((2, 5) if resume_step == 3 else (1, 2))


@pytest.mark.parametrize("has_summary", [True, False])
def test_sealed_parts_count_where_they_were_summarised(tmp_path: Path, has_summary: bool) -> None:
    folder = finished(tmp_path)
    seal_part(folder, folder.parts()[0])
    if not has_summary:
        folder.summary.unlink()
        folder.metrics.unlink()
    finished(tmp_path, resume_step=3)
    assert is_summarised(folder) is has_summary


def test_a_long_journal_is_left_to_others(tmp_path: Path) -> None:
    folder = finished(tmp_path, metrics=80_000)
    assert not folder.summary.exists()


def test_other_ranks_leave_them_to_rank_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "2951"}.items():
        monkeypatch.setenv(name, value)
    with init("p", "a", dir=tmp_path, console=False, companion=False) as run:
        monkeypatch.setenv("RANK", "1")
        with init("p", "a", dir=tmp_path, console=False, companion=False) as second:
            second.log({"loss": 1.0}, step=3)
        assert second.dir == run.dir
        assert not (run.dir / "summary.json").exists()
    assert is_summarised(RunFolder(run.dir))


def test_a_folder_that_refuses_them_does_not_disturb_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_paths: object) -> None:
        raise OSError(30, "read-only file system")

    with init("p", "a", dir=tmp_path, console=False, companion=False) as run:
        monkeypatch.setattr(os, "replace", refuse)
    assert not list(run.dir.glob("*summary*"))
    assert not (run.dir / "metrics.json").exists()
    assert of_kind(run.dir, "finish")
    assert not of_kind(run.dir, "event")
