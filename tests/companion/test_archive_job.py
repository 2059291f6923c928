"""The archive of a run whose process was killed is written by the companion."""

from __future__ import annotations

import time
from pathlib import Path

from epochal.journal.archive_request import ArchiveJob
from epochal.run.run import recorder_of
from tests.conftest import StartRun


def test_no_archive_is_written_when_none_was_asked_for(start_run: StartRun) -> None:
    run = start_run()
    job = ArchiveJob(recorder_of(run).folder)
    assert not job.go_on()
    assert job.left() is None


def test_every_archive_asked_for_is_written(start_run: StartRun, tmp_path: Path) -> None:
    run = start_run()
    run.log({"loss": 1.0})
    run.save_html(tmp_path / "first.html")
    run.save_html(tmp_path / "second.html")
    job = ArchiveJob(recorder_of(run).folder)
    while job.go_on():
        time.sleep(0.05)
    assert (tmp_path / "first.html").stat().st_size > 10_000
    assert (tmp_path / "second.html").stat().st_size > 10_000
    assert job.left() is None


def test_an_archive_that_was_not_finished_is_named_with_its_command(
    start_run: StartRun, tmp_path: Path
) -> None:
    run = start_run()
    run.save_html(tmp_path / "report.html")
    job = ArchiveJob(recorder_of(run).folder)
    job.go_on()
    job.stop()
    assert "report.html was not written" in str(job.left())
    assert job.command.startswith("epochal export ")
