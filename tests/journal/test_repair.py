from __future__ import annotations

from pathlib import Path

import pytest

from epochal.errors import FormatError
from epochal.journal.layout import read_json
from epochal.journal.repair import diagnose, repair
from tests.store.journals import Journal


def dead_journal(root: Path) -> Journal:
    """A journal of a process that is gone."""
    journal = Journal(root, config={"lr": 1})
    journal.add({"log": "message", "text": "one"}, {"log": "message", "text": "two"})
    path = journal.path()
    path.write_bytes(path.read_bytes().replace(b'"pid_start":', b'"pid_start":-', 1))
    return journal


def test_a_whole_run_has_nothing_to_report(tmp_path: Path) -> None:
    assert diagnose(dead_journal(tmp_path).folder).is_whole


@pytest.mark.parametrize("tail", [b'{"log":"step', b"\0" * 5000, b'{"l\0\n{"log"'])
def test_a_tail_is_cut_and_kept_beside(tmp_path: Path, tail: bytes) -> None:
    journal = dead_journal(tmp_path)
    whole = journal.path().read_bytes()
    journal.path().write_bytes(whole + tail)
    found = diagnose(journal.folder)
    assert [part.tail_bytes for part in found.parts] == [len(tail)]
    repair(journal.folder, found)
    assert journal.path().read_bytes() == whole
    assert journal.path().with_name("loop.0001.0000.jsonl.damaged").read_bytes() == tail
    assert diagnose(journal.folder).is_whole


def test_damaged_lines_are_reported_and_left(tmp_path: Path) -> None:
    journal = dead_journal(tmp_path)
    text = journal.path().read_bytes() + b"rubbish\n"
    journal.path().write_bytes(text)
    found = diagnose(journal.folder)
    assert [part.damaged_lines for part in found.parts] == [1]
    assert repair(journal.folder, found) == []
    assert journal.path().read_bytes() == text


def test_a_missing_identity_is_made_again(tmp_path: Path) -> None:
    journal = dead_journal(tmp_path)
    journal.folder.identity.unlink()
    repair(journal.folder, diagnose(journal.folder))
    identity = read_json(journal.folder.identity)
    assert (identity["id"], identity["name"], identity["project"]) == ("id-x", "x", "p")
    assert diagnose(journal.folder).is_whole


def test_a_copied_history_does_not_say_who_a_fork_is(tmp_path: Path) -> None:
    journal = dead_journal(tmp_path)
    journal.metrics(1, a=1, attempt=0)
    own, copied = journal.path(), journal.path(attempt=0)
    own.write_bytes(own.read_bytes().replace(b'"attempt":', b'"config":{"lr":1},"attempt":', 1))
    copied.write_bytes(copied.read_bytes().replace(b'"pid_start":', b'"pid_start":-', 1))
    journal.folder.identity.unlink()
    repair(journal.folder, diagnose(journal.folder))
    assert read_json(journal.folder.identity)["config"] == {"lr": 1}


def test_a_damaged_identity_is_kept_beside(tmp_path: Path) -> None:
    journal = dead_journal(tmp_path)
    journal.folder.identity.write_text("{half")
    repair(journal.folder, diagnose(journal.folder))
    assert (journal.folder.path / "run.json.damaged").read_text() == "{half"
    assert read_json(journal.folder.identity)["name"] == "x"


def test_a_finished_run_of_a_living_process_may_be_mended(tmp_path: Path) -> None:
    journal = Journal(tmp_path).finish()
    journal.folder.identity.unlink()
    repair(journal.folder, diagnose(journal.folder))
    assert diagnose(journal.folder).is_whole


def test_a_living_run_is_not_touched(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    with journal.path().open("ab") as file:
        file.write(b'{"log"')
    before = journal.path().read_bytes()
    with pytest.raises(FormatError, match="still being written"):
        repair(journal.folder, diagnose(journal.folder))
    assert journal.path().read_bytes() == before
