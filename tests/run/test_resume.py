from pathlib import Path
from typing import Any

import pytest

from epochal.errors import RunNotFoundError
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode
from epochal.journal.segments.seal import seal_part
from epochal.records import Record
from epochal.run import resume
from epochal.run.run import recorder_of
from tests.conftest import StartRun

STEP_7: Record = {"log": "metrics", "t": 0.0, "step": 7, "m": {}}


def last_step_of(folder: RunFolder, before_attempt: int = 100) -> int:
    return resume.last_step_of(folder, {}, before_attempt=before_attempt)


def folder_with(path: Path, *records: Record, part: str = "loop.0001.0000") -> RunFolder:
    folder = RunFolder(path)
    folder.journal.mkdir(exist_ok=True)
    (folder.journal / f"{part}.jsonl").write_bytes(b"".join(map(encode, records)))
    return folder


def test_there_is_no_last_step_before_the_first(tmp_path: Path) -> None:
    assert last_step_of(RunFolder(tmp_path)) == -1
    assert last_step_of(folder_with(tmp_path, {"log": "run", "t": 0.0})) == -1


@pytest.mark.parametrize("kind", ["text", "eval", "gpu", "event", "histogram"])
def test_samples_and_telemetry_do_not_move_the_last_step(tmp_path: Path, kind: str) -> None:
    assert last_step_of(folder_with(tmp_path, STEP_7, {"log": kind, "t": 0.0, "step": 99})) == 7


def test_a_resume_without_steps_of_its_own_stands_before_its_first(tmp_path: Path) -> None:
    assert last_step_of(folder_with(tmp_path, STEP_7, {"log": "resume", "t": 0.0, "step": 5})) == 4


def test_an_unfinished_tail_and_damage_are_looked_past(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, STEP_7)
    with (folder.journal / "loop.0001.0000.jsonl").open("ab") as file:
        file.write(b'rubbish\n\n{"log":"metrics","t":0.0,"step":8,"m":{}}')
    assert last_step_of(folder) == 7


def test_a_step_before_megabytes_of_text_is_found(tmp_path: Path) -> None:
    text = {"log": "text", "t": 0.0, "text": "x" * 2_000_000}
    assert last_step_of(folder_with(tmp_path, STEP_7, text)) == 7


def test_only_rank_0_and_earlier_attempts_count(tmp_path: Path) -> None:
    folder_with(tmp_path, STEP_7)
    folder_with(tmp_path, {**STEP_7, "step": 70}, part="loop.0002.0000")
    folder = folder_with(tmp_path, {**STEP_7, "step": 700}, part="rank-0001.0001.0000")
    assert last_step_of(folder) == 70
    assert last_step_of(folder, before_attempt=2) == 7


def test_a_sealed_part_says_where_it_ended(tmp_path: Path, start_run: StartRun) -> None:
    with start_run("sealed") as run:
        for step in range(3):
            run.log({"loss": 1.0}, step=step)
        run.log({"sample": "late"}, step=99)
    for part in recorder_of(run).folder.parts():
        seal_part(recorder_of(run).folder, part)
    assert last_step_of(recorder_of(run).folder) == 2
    assert start_run("sealed", resume="must").step == 2


@pytest.mark.parametrize("is_sealed", [False, True])
def test_the_last_epoch_of_a_run_without_steps(tmp_path: Path, is_sealed: bool) -> None:
    epochs: list[Record] = [{"log": "epoch", "t": 0.0, "epoch": n, "m": {}} for n in (1, 2)]
    folder = folder_with(
        tmp_path, {"log": "run", "t": 0.0, "v": 1}, *epochs, {"log": "finish", "t": 1.0}
    )
    if is_sealed:
        seal_part(folder, folder.parts()[0])
    assert resume.last_epoch_of(folder, before_attempt=2) == 2
    assert resume.last_epoch_of(folder, before_attempt=1) is None


def resumed_words(start_run: StartRun, capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    capsys.readouterr()
    start_run(name="a", resume="must", console=True, **options).finish()
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("epochal: run 'a' resumed as attempt 2 in ")
    return first.partition("(")[2].rstrip(")")


def test_a_resumed_run_says_how_far_it_had_come(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(name="a")
    for step in range(14):
        run.log({"loss": 1.0}, step=step)
    run.finish()
    assert resumed_words(start_run, capsys) == "it had reached step 13"


def test_a_resumed_run_says_where_it_continues_if_that_is_known(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(name="a")
    run.log({"loss": 1.0}, step=13)
    run.finish()
    words = resumed_words(start_run, capsys, resume_step=10)
    assert words == "it had reached step 13, and continues at step 10"


def test_a_resumed_run_of_epochs_says_epochs(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(name="a")
    run.log_epoch(30, duration_s=1.0, metrics={"loss": 1.0}, total=40)
    run.finish()
    assert resumed_words(start_run, capsys) == "it had reached epoch 30"


def test_a_resumed_run_that_logged_nothing_says_so(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    start_run(name="a").finish()
    assert resumed_words(start_run, capsys) == "it had logged no step"


def test_a_run_is_resumed_by_the_id_it_was_given(start_run: StartRun) -> None:
    with start_run("first", id="job-7") as run:
        run.log({"loss": 1.0})
    resumed = start_run("another-name", id="job-7", resume="must")
    assert (resumed.id, resumed.name, resumed.attempt) == ("job-7", "first", 2)
    with pytest.raises(RunNotFoundError, match="with the id 'job-8'"):
        start_run(id="job-8", resume="must")
    assert start_run(id="job-8", resume="allow").id == "job-8"
