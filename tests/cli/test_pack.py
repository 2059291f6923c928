from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
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
    assert "p/done: 1 part sealed" in said
    assert "p/live: 1 part may still be written" in said
    assert (done.folder.parts(), len(done.folder.sealed_parts())) == ([], 1)
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
    assert (packed["parts"], packed["left"], len(packed["problems"])) == (0, 1, 1)
    assert journal.path().exists()


def test_pack_leaves_small_parts_and_says_so(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    journal = Journal(tmp_path).metrics(1, a=1).finish()
    assert main(["manage", "pack", "x", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "p/x: 1 part is smaller than 64.0 KiB and not sealed.\n"
    assert journal.path().exists()


@pytest.mark.parametrize("arguments", [[], ["x", "--all"]])
def test_pack_takes_runs_or_all(tmp_path: Path, arguments: list[str], capsys: Capture) -> None:
    assert main(["manage", "pack", *arguments, "--dir", str(tmp_path)]) == 2
    assert "pack takes runs, or --all" in capsys.readouterr().err
