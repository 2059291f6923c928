from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.companion.diagnosis import judge_attempt
from epochal.health.finding import dedup_key
from epochal.journal.summaries import is_summarised, read_summary
from epochal.store.local.by_path import load_run
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _pack_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochal.cli.pack.WORTH_SEALING_BYTES", 0)


def test_pack_seals_what_is_finished_and_leaves_what_is_written(
    tmp_path: Path, capsys: Capture
) -> None:
    done = Journal(tmp_path, "done").metrics(1, a=1).finish()
    live = Journal(tmp_path, "live").metrics(1, a=1)
    assert main(["manage", "pack", "--all", "--dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "p/done: 2 parts sealed" in said
    assert "p/done: the health rules have read 1 attempt that no companion had watched." in said
    assert "p/live: 1 part may still be written" in said
    assert (done.folder.parts(), len(done.folder.sealed_parts())) == ([], 2)
    assert (len(live.folder.parts()), live.folder.sealed_parts()) == (1, [])
    assert len(load_run(done.folder.path).series("a")) == 1


def test_packing_again_does_nothing(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).metrics(1, a=1).finish()
    main(["manage", "pack", "x", "--dir", str(tmp_path)])
    capsys.readouterr()
    assert main(["manage", "pack", "x", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "p/x: nothing to seal.\n"


def test_pack_says_what_could_not_be_sealed(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).finish()
    journal.folder.segments.write_text("a file where the folder should be")
    assert main(["manage", "pack", "x", "--dir", str(tmp_path), "--json"]) == 2
    (packed,) = json.loads(capsys.readouterr().out)
    assert (packed["parts"], packed["left"], len(packed["problems"])) == (0, 2, 2)
    assert journal.path().exists()


def test_pack_leaves_small_parts_and_says_so(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    journal = Journal(tmp_path).metrics(1, a=1).finish()
    assert main(["manage", "pack", "x", "--dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("p/x: 2 parts are smaller than 64.0 KiB and not sealed.\n")
    assert journal.path().exists()


@pytest.mark.parametrize("arguments", [[], ["x", "--all"]])
def test_pack_takes_runs_or_all(tmp_path: Path, arguments: list[str], capsys: Capture) -> None:
    assert main(["manage", "pack", *arguments, "--dir", str(tmp_path)]) == 2
    assert "pack takes runs, or --all" in capsys.readouterr().err


def test_a_run_is_judged_once_and_carries_its_summaries(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path)
    for step in range(60):
        journal.metrics(step, loss=float("nan") if step > 30 else 1.0)
    journal.finish().metrics(60, attempt=2, loss=1.0).finish(attempt=2)
    assert main(["manage", "pack", "x", "--dir", str(tmp_path), "--json"]) == 0
    (packed,) = json.loads(capsys.readouterr().out)
    assert (packed["judged"], packed["summarised"]) == (2, True)
    assert is_summarised(journal.folder)
    row = read_summary(str(journal.folder.path))
    assert row is not None
    assert (row.counts, row.unwatched, row.step) == ((1, 0, 0, 0), 0, 60)
    assert len(load_run(journal.folder.path).findings()) == 1
    main(["manage", "pack", "x", "--dir", str(tmp_path), "--json"])
    (packed,) = json.loads(capsys.readouterr().out)
    assert (packed["judged"], packed["parts"]) == (0, 0)


def test_what_a_dead_companion_had_found_is_not_repeated(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    journal.metrics(1, loss=float("nan")).metrics(2, loss=float("nan")).finish()
    judge_attempt(journal.folder, 1)
    (part,) = (part for part in journal.folder.parts() if part.writer == "findings")
    path = journal.folder.part_path(part)
    path.write_bytes(path.read_bytes().rpartition(b'{"log":"finish"')[0])  # it was killed
    main(["manage", "pack", "x", "--dir", str(tmp_path)])
    found = load_run(journal.folder.path).findings()
    assert len(found) == len({dedup_key(entry.record) for entry in found}) > 0
    assert not load_run(journal.folder.path).info.is_partly_watched


def test_a_run_that_is_going_on_is_summarised_and_not_judged(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    assert main(["manage", "pack", "--all", "--dir", str(tmp_path)]) == 0
    assert [part.writer for part in journal.folder.parts()] == ["loop"]
    assert is_summarised(journal.folder)


def test_all_leaves_runs_alone_whose_summaries_say_all(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).finish()
    main(["manage", "pack", "x", "--dir", str(tmp_path)])
    before = journal.folder.summary.stat()
    main(["manage", "pack", "--all", "--dir", str(tmp_path)])
    assert journal.folder.summary.stat() == before


def test_summaries_that_cannot_be_written_are_a_problem(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).finish()
    journal.folder.summary.mkdir()
    assert main(["manage", "pack", "x", "--dir", str(tmp_path)]) == 2
    assert "its summary.json or metrics.json cannot be written." in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).finish()
    # The administrator may write everywhere.
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != journal.folder.path)
    assert main(["manage", "pack", "x", "--dir", str(tmp_path)]) == 2
    assert "p/x: its folder cannot be written." in capsys.readouterr().err
    assert [part.writer for part in journal.folder.parts()] == ["loop"]
