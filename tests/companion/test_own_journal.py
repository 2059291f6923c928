import os
import shutil
from pathlib import Path

import pytest

import epochal
from epochal.companion.own_journal import HEARTBEAT_LOOK_S, Durable, OwnJournal
from epochal.journal.layout import PartName, RunFolder, write_json
from epochal.journal.process import process_identity
from epochal.journal.segments.parts import sealable_parts
from epochal.records import HEARTBEAT_EVERY_S
from tests.doubles.companions import companion_config
from tests.doubles.journals import failing_sync, of_kind, records
from tests.journal.segments.parts import HEADER, lines, write_part


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


def beats_of(folder: Path, *, looks: int, every_s: float, writes: bool) -> int:
    """How many heartbeats a companion writes that looks so often, on a clock of its own."""
    now_s = [0.0]
    journal = OwnJournal(companion_config(folder), clock=lambda: now_s[0])
    for _ in range(looks):
        now_s[0] += every_s
        if writes:
            journal.write("system", {"cpu_pct": 1.0})
        journal.beat()
    journal.close()
    return len(of_kind(folder, "heartbeat"))


def test_a_companion_with_nothing_to_say_beats_every_half_minute(tmp_path: Path) -> None:
    beats = beats_of(tmp_path, looks=120, every_s=HEARTBEAT_LOOK_S, writes=False)
    assert beats == 120 * HEARTBEAT_LOOK_S / HEARTBEAT_EVERY_S


def test_what_a_companion_writes_anyway_is_a_heartbeat(tmp_path: Path) -> None:
    assert beats_of(tmp_path, looks=60, every_s=10.0, writes=True) == 0


def test_a_heartbeat_is_no_series_and_no_entry(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    journal = OwnJournal(companion_config(run.dir))
    journal.write("heartbeat", {})
    run.finish()
    view = epochal.load(run.dir).view
    assert view.metrics() == []
    assert [entry.kind for entry in view.events()] == []
    assert any(record["log"] == "heartbeat" for _, record in view.records())


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


def test_a_disk_that_fails_is_reported_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    failed: list[tuple[str, str]] = []
    durable = Durable(
        write_part(tmp_path, lines({**HEADER, **process_identity()})),
        lambda part, reason: failed.append((part.stem, reason)),
    )
    monkeypatch.setattr(os, "fdatasync", fail)
    assert (durable.sync(), durable.sync()) == (0, 0)
    monkeypatch.undo()
    assert durable.sync() == 1
    assert failed == [("loop.0001.0000", "Input/output error")]


def test_a_companion_writes_again_what_the_disk_failed_to_store_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    journal = OwnJournal(companion_config(tmp_path))
    journal.event("a")
    (part,) = (tmp_path / "journal").iterdir()
    inode = part.stat().st_ino
    with failing_sync(part):
        journal.sync()
    journal.close()
    assert part.stat().st_ino != inode
    assert [event["name"] for event in of_kind(tmp_path, "event")] == ["a", "sync-failed"]


def test_a_folder_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    assert Durable(RunFolder(tmp_path / "gone")).sync() == 0
