import math
import subprocess
import sys
from pathlib import Path

import epochal
from epochal.companion.diagnosis import Diagnosis
from epochal.journal.summaries import fold_and_write
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.doubles.companions import companion_config
from tests.store.journals import Journal, settle


def sick_run(folder: Path) -> epochal.Run:
    run = epochal.init("p", "a", dir=folder, console=False, companion=False)
    for step in range(5):
        run.log({"loss": 2.0 if step < 3 else math.nan}, step=step)
    return run


def found(view: RunView) -> list[tuple[str, str]]:
    return [(e.record["id"], e.record["rule"]) for e in view.findings()]


def test_findings_are_worked_out_where_no_companion_was(tmp_path: Path) -> None:
    sick_run(tmp_path).finish()
    view = folder_store(tmp_path).run("a")
    assert [rule for _, rule in found(view)] == ["nonfinite"]
    assert found(view) == found(view)


def test_those_a_companion_wrote_are_not_told_twice(tmp_path: Path) -> None:
    run = sick_run(tmp_path)
    Diagnosis(companion_config(run.dir)).look()  # and then it is killed: its file has no end
    run.finish()
    view = folder_store(tmp_path).run("a")
    assert [rule for _, rule in dict.fromkeys(found(view))] == ["nonfinite"]
    assert [e.record["steps"] for e in view.findings()] == [[3, 3], [3, 4]]


def test_what_is_open_has_come_as_far_as_was_read(tmp_path: Path) -> None:
    run = sick_run(tmp_path)
    (entry,) = folder_store(tmp_path).run("a").findings()
    assert entry.record["steps"] == [3, 4]
    assert entry.record["evidence"]["records"] == 2
    run.finish()


def test_a_finished_file_of_findings_is_the_last_word(tmp_path: Path) -> None:
    run = sick_run(tmp_path)
    run.finish()
    Diagnosis(companion_config(run.dir)).go_on()
    written = folder_store(tmp_path).run("a")
    assert [rule for _, rule in dict.fromkeys(found(written))] == ["nonfinite"]
    assert written.findings()[-1].record["steps"] == [3, 4]
    assert all(e.position.writer == "findings" for e in written.findings())


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    sick_run(tmp_path).finish()
    view = folder_store(tmp_path).run("a")
    assert view.findings(most=2) == []
    for _ in range(4):
        view.findings(most=2)
    assert [rule for _, rule in found(view)] == ["nonfinite"]


def test_a_run_that_grows_is_read_on(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    run.log({"loss": 1.0}, step=0)
    store = folder_store(tmp_path)
    view = store.run("a")
    assert view.findings() == []
    run.log({"loss": math.inf}, step=1)
    store.refresh()
    assert [rule for _, rule in found(view)] == ["nonfinite"]
    run.finish()


def test_a_spike_among_the_last_records_of_a_fast_run_that_was_killed_is_found(
    tmp_path: Path,
) -> None:
    program = f"""
import os, random, epochal
chance = random.Random(0)
run = epochal.init("p", "a", dir={str(tmp_path)!r}, console=False, companion=False)
for step in range(5_000):
    run.log({{"loss": 50.0 if step == 4_999 else 0.2 + chance.gauss(0.0, 0.01)}}, step=step)
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    view = folder_store(tmp_path).run("a")
    assert [e.record["steps"] for e in view.findings() if e.record["rule"] == "loss-spike"] == [
        [4_999, 4_999]
    ]


def test_a_run_that_was_watched_and_has_no_findings_is_not_read_for_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).finish()
    journal.add({"log": "finish", "status": "finished"}, writer="findings")
    assert fold_and_write(journal.folder, most_bytes=1 << 20)
    run = folder_store(tmp_path).run("x")
    assert (run.findings(), run.samples(), run.files()) == ([], [], [])
    assert run.summary("loss").last == 1.0
    assert not run.source.parts


def test_findings_that_were_made_from_records_are_made_again(tmp_path: Path) -> None:
    root, cache = tmp_path / "runs", tmp_path / "cache"
    journal = Journal(root).metrics(1, loss=math.nan).metrics(2, loss=math.nan).finish()
    assert fold_and_write(journal.folder, most_bytes=1 << 20)
    settle(root)
    rules: list[list[str]] = []
    for _ in range(2):
        with folder_store(root, cache=cache) as store:
            rules.append([entry.record["rule"] for entry in store.run("x").findings()])
    assert rules == [["nonfinite"]] * 2
