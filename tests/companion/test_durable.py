import os
from pathlib import Path

import pytest

from epochal.companion.durable import Durable
from epochal.journal.layout import RunFolder
from epochal.journal.process import process_identity
from tests.segments.parts import HEADER, lines, write_part


def test_only_what_has_grown_is_brought_to_the_disk(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines({**HEADER, **process_identity()}))
    durable = Durable(folder)
    assert (durable.sync(), durable.sync()) == (1, 0)
    with open(folder.part_path(folder.parts()[0]), "ab") as file:
        file.write(lines({"log": "event", "name": "x"}))
    assert (durable.sync(), durable.sync()) == (1, 0)


def test_files_of_other_machines_are_left_to_their_own_companions(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines({**HEADER, "host": "elsewhere"}))
    assert Durable(folder).sync() == 0


def test_a_disk_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    durable = Durable(write_part(tmp_path, lines({**HEADER, **process_identity()})))
    monkeypatch.setattr(os, "fdatasync", fail)
    assert durable.sync() == 0
    monkeypatch.undo()
    assert durable.sync() == 1


def test_a_folder_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    assert Durable(RunFolder(tmp_path / "gone")).sync() == 0
