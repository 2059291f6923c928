from pathlib import Path

import pytest

from epochal.companion.ending import do_what_is_left
from epochal.companion.sealing import Sealing
from epochal.journal.layout import RunFolder
from epochal.journal.segments.parts import WORTH_SEALING_BYTES
from tests.doubles.companions import wait_for
from tests.journal.segments.parts import (
    FINISH,
    HEADER,
    NAME,
    finished_part,
    lines,
    metrics,
    write_part,
)

MANY = [metrics(step, loss=1 / (step + 1)) for step in range(2000)]


def test_a_finished_part_is_sealed_by_a_process_of_its_own(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, *MANY)
    sealing = Sealing(folder, attempt=1)
    assert sealing.look()
    wait_for(lambda: not sealing.look())
    assert (folder.parts(), folder.sealed_parts()) == ([], [NAME])
    assert sealing.failures == {}


def test_a_small_part_is_not_worth_it(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, *MANY[:10])
    assert folder.part_path(NAME).stat().st_size < WORTH_SEALING_BYTES
    assert not Sealing(folder, attempt=1).look()


def test_a_part_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines(HEADER, *MANY))
    assert not Sealing(folder, attempt=1).look()


def unsealable(folder: Path) -> RunFolder:
    """A finished part beside a segment that holds something else."""
    finished_part(folder, *MANY)
    run_folder = RunFolder(folder)
    sealing = Sealing(run_folder, attempt=1)
    wait_for(lambda: not sealing.look())
    return write_part(folder, lines(HEADER, *reversed(MANY), FINISH))


def test_what_cannot_be_sealed_is_told_and_not_tried_for_ever(tmp_path: Path) -> None:
    folder = unsealable(tmp_path)
    sealing = Sealing(folder, attempt=1)
    assert sealing.look()
    wait_for(lambda: not sealing.look())
    assert "different records" in sealing.failures[NAME.stem]
    assert folder.parts() == [NAME]


def test_what_is_left_is_named_with_its_command(tmp_path: Path) -> None:
    folder = unsealable(tmp_path)
    job = Sealing(folder, attempt=1)
    (left,) = do_what_is_left({"sealing": job}, deadline_s=float("inf"))
    assert left["command"] == f"epochal manage pack {tmp_path}"
    assert left["what"].startswith("not sealed: loop.0001.0000; ")


def test_time_that_is_up_stops_the_sealing_and_leaves_the_journal_whole(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, *MANY)
    before = folder.part_path(NAME).read_bytes()
    job = Sealing(folder, attempt=1)
    (left,) = do_what_is_left({"sealing": job}, deadline_s=0.0)
    assert left["what"] == "not sealed: loop.0001.0000"
    assert folder.part_path(NAME).read_bytes() == before


def test_where_nothing_can_be_sealed_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished_part(tmp_path, *MANY)
    monkeypatch.setattr("epochal.companion.sealing.find_spec", lambda _: None)
    job = Sealing(folder, attempt=1)
    assert not job.go_on()
    assert job.left() == "not sealed: loop.0001.0000"
