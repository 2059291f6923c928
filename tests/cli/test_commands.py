from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.journal.layout import read_json
from tests.cli.test_hostile import OWN_COLOURS, Terminal
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


def test_ls_fits_the_terminal_and_is_complete_in_a_pipe(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    Journal(tmp_path, "n" * 90, project="p" * 60).metrics(123456, loss=0.123456)
    Journal(tmp_path, "b").epoch(2, loss=1e-9).finish("failed")
    assert main(["--dir", str(tmp_path), "ls"]) == 0
    assert f"{'n' * 90}  {'p' * 60}  " in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--dir", str(tmp_path), "ls"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    with contextlib.redirect_stdout(Terminal()) as screen:
        assert main(["--dir", str(tmp_path), "ls"]) == 0
    lines = OWN_COLOURS.sub("", screen.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == "NAME PROJECT STATUS STEP LOSS DIAGNOSIS AGE".split()
    assert any("failed" in line and "ep 2/100" in line for line in lines)
    assert any("running" in line and "0.1235" in line for line in lines)


def test_ls_of_an_empty_folder_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    assert main(["ls", "--dir", str(tmp_path / "none")]) == 0
    assert "epochal demo" in capsys.readouterr().out


def test_ls_lists_a_damaged_run_with_its_reason(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "good").metrics(1, loss=1)
    Journal(tmp_path, "bad").folder.identity.write_text("{")
    assert main(["ls", "--dir", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "unreadable" in captured.out
    assert "not valid JSON" in captured.err


def test_ls_json_is_for_programs(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).metrics(3, loss=0.5)
    main(["ls", "--json", "--dir", str(tmp_path)])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["step"], row["loss"], row["status"]) == (3, 0.5, "running")


def test_ls_hides_what_is_hidden(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "seen")
    Journal(tmp_path, "unseen").folder.labels.write_text('{"hidden":true}')
    main(["ls", "--dir", str(tmp_path)])
    assert "unseen" not in capsys.readouterr().out
    main(["ls", "--all", "--dir", str(tmp_path)])
    assert "unseen" in capsys.readouterr().out


def test_show_prints_status_config_and_metrics(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, config={"net": {"depth": 3}}).metrics(1, loss=2.0).metrics(2, loss=1.0)
    assert main(["show", "x", "--dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "running" in out
    assert "net.depth  3" in out
    assert "1.0000 at 2" in out


def test_show_json_has_summaries(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).metrics(1, loss=float("nan")).metrics(2, loss=1.0)
    main(["show", "x", "--all", "--json", "--dir", str(tmp_path)])
    shown = json.loads(capsys.readouterr().out)
    assert shown["metrics"][0]["summary"]["nonfinite"] == 1
    assert shown["metrics"][0]["best"] == [2, 1.0]


def test_tail_prints_the_latest_of_all_writers_by_time(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path)
    for step in range(30):
        journal.metrics(step, a=step).metrics(step, a=step, writer="rank-0001")
    main(["tail", "x", "-n", "3", "--dir", str(tmp_path)])
    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "[rank-0001]  metrics  step 28  a=28.0000",
        "metrics  step 29  a=29.0000",
        "[rank-0001]  metrics  step 29  a=29.0000",
    ]


def test_tail_tells_what_people_mean_unless_all_is_asked_for(
    tmp_path: Path, capsys: Capture
) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.add({"log": "event", "name": "phase", "phase": "converging", "was": "warm-up"})
    for _ in range(20):
        journal.add({"log": "system", "ram_used": 1550843904, "threads": 12}, writer="telemetry-h")
    journal.finish().add({"log": "finish", "status": "finished"}, writer="findings")
    main(["tail", "x", "-n", "3", "--dir", str(tmp_path)])
    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "metrics  step 1  a=1.0000",
        "event  phase converging (was warm-up)",
        "finish  finished",
    ]
    main(["tail", "x", "-n", "4", "--all", "--dir", str(tmp_path)])
    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "[telemetry-h]  system  system/ram_used=1.4 GiB  system/threads=12"
    assert lines[3] == "[findings]  finish  finished"


def test_tail_tells_a_time_as_a_clock(tmp_path: Path, capsys: Capture) -> None:
    asked = {"log": "event", "name": "control-request", "action": "stop", "asked": 1794824228.5}
    Journal(tmp_path).add(asked)
    main(["tail", "x", "-n", "1", "--dir", str(tmp_path)])
    assert re.search(r"control-request action stop asked \d\d:\d\d:\d\d$", capsys.readouterr().out)


def test_tail_follows_until_the_run_has_ended(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).metrics(1, a=1).finish()
    assert main(["tail", "x", "-f", "--json", "--dir", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["log"] == "finish"


def test_tail_shows_errors_in_red_on_a_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    for level, text in (("stdout", "fine"), ("stderr", "ValueError: no"), ("warning", "slow")):
        journal.add({"log": "message", "level": level, "text": text})
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    main(["tail", "x", "-n", "3", "--dir", str(tmp_path)])
    fine, wrong, slow = capsys.readouterr().out.splitlines()
    assert "\x1b" not in fine
    assert wrong.startswith("\x1b[31m")
    assert slow.startswith("\x1b[33m")


def test_export_writes_a_file(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).epoch(1, loss=0.5)
    target = tmp_path / "out.csv"
    assert main(["export", "x", "--output", str(target), "--dir", str(tmp_path)]) == 0
    assert target.read_text().startswith("epoch,duration_s,loss,")
    assert "1 run written" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_export_writes_to_stdout(name: str, tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path).metrics(1, loss=0.5)
    assert main(["export", "x", "--format", name, "--dir", str(tmp_path)]) == 0
    assert "loss" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["folder of a project", "folder of runs", "project"])
def test_export_of_a_folder_writes_every_run_in_it(
    what: str, tmp_path: Path, capsys: Capture
) -> None:
    for name in ("a", "b"):
        Journal(tmp_path / "runs", name).metrics(1, loss=1.0)
    Journal(tmp_path / "runs", "unseen").folder.labels.write_text('{"hidden":true}')
    folders = {
        "folder of a project": tmp_path / "runs" / "p",
        "folder of runs": tmp_path / "runs",
        "project": "p",
    }
    assert (
        main(["export", str(folders[what]), "--format", "csv", "--dir", str(tmp_path / "runs")])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(",")[0] for line in lines[1:]) == ["p/a", "p/b"]


def test_export_into_a_folder_writes_a_file_for_each_run(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        Journal(tmp_path / "runs", name).metrics(1, loss=1.0)
    target = tmp_path / "out"
    target.mkdir()
    arguments = ["export", str(tmp_path / "runs" / "p"), "-o", str(target), "--format", "csv"]
    assert main([*arguments, "--dir", str(tmp_path)]) == 0
    assert sorted(file.name for file in target.iterdir()) == ["p-a.csv", "p-b.csv"]
    assert (target / "p-a.csv").read_text().startswith("step,t,loss\n1,")
    assert "2 files written" in capsys.readouterr().out


def test_export_of_a_folder_without_runs_is_a_sentence(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["export", str(tmp_path / "empty"), "--dir", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_export_makes_the_folders_on_the_way(tmp_path: Path) -> None:
    Journal(tmp_path)
    target = tmp_path / "none" / "out.csv"
    assert main(["export", "x", "-o", str(target), "--dir", str(tmp_path)]) == 0
    assert target.is_file()


def test_export_to_where_no_file_can_be_is_a_sentence(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path)
    (tmp_path / "file").write_text("in the way")
    target = str(tmp_path / "file" / "out.csv")
    assert main(["export", "x", "-o", target, "--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("epochal: ")


def test_repair_reports_without_touching_a_living_run(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.folder.identity.unlink()
    with journal.path().open("ab") as file:
        file.write(b'{"log":')
    before = journal.path().read_bytes()
    assert main(["manage", "repair", "x", "--dir", str(tmp_path)]) == 1
    assert "nothing was changed" in capsys.readouterr().out
    assert journal.path().read_bytes() == before
    assert not journal.folder.identity.exists()


def test_repair_mends_and_then_finds_nothing(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).finish()
    journal.folder.identity.unlink()
    assert main(["manage", "verify", "x", "--dir", str(tmp_path)]) == 1
    assert not journal.folder.identity.exists()
    assert main(["manage", "repair", "x", "--dir", str(tmp_path)]) == 0
    assert main(["manage", "repair", "x", "--json", "--dir", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["whole"] is True


def test_rm_refuses_a_running_run(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    assert main(["rm", "x", "--yes", "--dir", str(tmp_path)]) == 2
    assert "p/x is running, and a live run cannot be deleted" in capsys.readouterr().err
    assert journal.folder.path.exists()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2), ("", 2)])
def test_rm_asks(answer: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path).finish()
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert main(["rm", "x", "--dir", str(tmp_path)]) == code
    assert journal.folder.path.exists() == bool(code)


def test_labels_are_changed_beside_the_run(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path, tags=["old"])
    before = journal.folder.identity.read_bytes()
    common = ["--dir", str(tmp_path)]
    assert main(["manage", "rename", "x", "better", *common]) == 0
    assert main(["tag", "better", "new", "--remove", "old", *common]) == 0
    assert main(["note", "better", "a note", *common]) == 0
    capsys.readouterr()
    assert main(["note", "better", *common]) == 0
    assert capsys.readouterr().out == "a note\n"
    assert journal.folder.identity.read_bytes() == before
    labels = read_json(journal.folder.labels)
    assert labels == {"name": "better", "tags": ["new"], "notes": "a note"}


def test_removing_a_tag_that_is_not_there_says_so(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path)
    assert main(["tag", "x", "--remove", "t", "--dir", str(tmp_path)]) == 2
    assert "no tag 't'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["manage", "rename", "x", "a\nb"], "a name must not hold a newline"),
        (["manage", "rename", "x", "n" * 201], "a name has at most 200 characters"),
        (["manage", "rename", "x", " a"], "name must not begin or end with a space"),
        (["tag", "x", "a\tb"], "a tag must not hold a tab"),
        (["note", "x", "a\x07"], "a note must not hold the control character U+0007"),
    ],
)
def test_labels_that_no_list_can_show_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    assert main([*arguments, "--dir", str(tmp_path)]) == 2
    assert reason in capsys.readouterr().err
    assert not journal.folder.labels.exists()
