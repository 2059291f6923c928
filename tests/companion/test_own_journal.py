import os
import shutil
from pathlib import Path

from epochal.companion.own_journal import OwnJournal
from epochal.journal.layout import PartName, RunFolder, write_json
from epochal.segments.finished import sealable_parts
from tests.doubles.companions import companion_config
from tests.doubles.journals import records


def test_the_file_begins_like_every_other_and_is_made_with_the_first_record(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"id": "abc", "name": "a", "project": "p"})
    journal = OwnJournal(companion_config(tmp_path, rank=8))
    assert RunFolder(tmp_path).parts() == []
    journal.event("hardware", text="x")
    header, event = records(tmp_path)
    assert (header["id"], header["rank"], header["pid"]) == ("abc", 8, os.getpid())
    assert (event["name"], event["text"]) == ("hardware", "x")


def test_a_closed_file_can_be_sealed_by_the_process_that_wrote_it(tmp_path: Path) -> None:
    journal = OwnJournal(companion_config(tmp_path))
    journal.event("a")
    assert sealable_parts(RunFolder(tmp_path)) == []
    journal.close()
    assert sealable_parts(RunFolder(tmp_path)) == [PartName("telemetry-here", 1, 0)]


def test_after_closing_it_goes_on_in_the_next_part(tmp_path: Path) -> None:
    journal = OwnJournal(companion_config(tmp_path))
    for name in ("a", "b"):
        journal.event(name)
        journal.close()
    assert [part.part for part in RunFolder(tmp_path).parts()] == [0, 1]


def test_a_run_that_was_deleted_is_not_brought_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    journal = OwnJournal(companion_config(folder))
    journal.event("a")
    shutil.rmtree(folder)
    journal.event("b")
    journal.close()
    assert not folder.exists()
