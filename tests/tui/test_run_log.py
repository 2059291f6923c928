from __future__ import annotations

from pathlib import Path
from typing import Any

from epochal.store.local.load import load_run
from epochal.tui.glyphs import UNICODE
from epochal.tui.run_log import RunLog, flagged_steps
from epochal.tui.run_text import finding_lines, log_lines, wrapped_entry
from tests.store.journals import Journal


def finding(state: str = "open", **more: Any) -> dict[str, Any]:
    return {
        "log": "finding",
        "id": "f",
        "rule": "spike",
        "severity": "warning",
        "sentence": "the loss jumped.",
        "steps": [7, 9],
        "advice": "clip.",
        "state": state,
        **more,
    }


def read(journal: Journal) -> RunLog:
    run_log = RunLog(load_run(journal.folder.path))
    run_log.read()
    return run_log


def texts(run_log: RunLog) -> list[str]:
    return [entry.text for entry in run_log.log]


def test_only_what_was_written_since_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "message", "level": "info", "text": "one"})
    run = load_run(journal.folder.path)
    run_log = RunLog(run)
    run_log.read()
    journal.add({"log": "message", "level": "error", "text": "two"})
    run.refresh()
    run_log.read()
    run_log.read()
    assert texts(run_log) == ["one", "two"]
    assert [entry.style for entry in run_log.log] == ["", "bad"]


def test_a_resume_takes_back_what_no_longer_stands(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "eval", "step": 5, "loss": 1.0})
    run = load_run(journal.folder.path)
    run_log = RunLog(run)
    run_log.read()
    journal.add({"log": "resume", "attempt": 2, "step": 3}, attempt=2)
    run.refresh()
    run_log.read()
    assert texts(run_log) == ["resumed at step 3, attempt 2"]


def test_lines_of_several_writers_come_by_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "message", "text": "first"}, writer="rank-0001")
    journal.add({"log": "message", "text": "second"})
    assert texts(read(journal)) == ["first", "second"]
    assert [entry.rank for entry in read(journal).log] == [1, 0]


def test_a_finding_that_ended_is_told_once_and_comes_last(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add(finding(), finding("closed"), finding(id="g", severity="error"))
    found = read(journal).findings
    assert [(one.severity, one.is_open) for one in found] == [("error", True), ("warning", False)]
    assert flagged_steps(found) == (7.0, 7.0)


def test_findings_show_their_advice_where_there_is_room(tmp_path: Path) -> None:
    found = read(Journal(tmp_path).add(finding(), finding(id="g"))).findings

    def shown(rows: int) -> list[str]:
        lines = finding_lines(found, columns=30, rows=rows, glyphs=UNICODE)
        return [one.plain.rstrip() for one in lines]

    assert shown(4) == ["▲ the loss jumped.", "  clip."] * 2
    assert shown(3) == ["▲ the loss jumped."] * 2
    assert shown(1) == ["▲ the loss jumped.     +1 more"]


def test_the_log_is_cut_in_the_overview_and_wrapped_in_its_tab(tmp_path: Path) -> None:
    log = list(read(Journal(tmp_path).add({"log": "message", "text": "a\nb " + "c" * 30})).log)
    (short,) = log_lines(log, columns=24, rows=3)
    assert short.plain[9:] == "a b cccccccccc…"
    assert len(wrapped_entry(log[0], 24)) == 4


def test_text_samples_are_kept_with_their_steps(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "text", "name": "s", "step": 4, "text": "once"})
    (sample,) = read(journal).texts
    assert (sample.name, sample.step, sample.text) == ("s", 4, "once")
