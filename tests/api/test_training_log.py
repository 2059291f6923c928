from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal import LogVerbosity, TrainingRunLogger
from epochal.errors import FormatError, UsageError


@pytest.fixture(autouse=True)
def _runs_in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "runs"))


def one_step(logger: TrainingRunLogger, step: int) -> None:
    logger.log_step(step, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002)


def test_the_file_is_a_json_array_after_every_record(tmp_path: Path) -> None:
    path = tmp_path / "out" / "training.json"
    with TrainingRunLogger(path) as logger:
        assert json.loads(path.read_text()) == []
        for step in range(5):
            one_step(logger, step)
            assert [one["step"] for one in json.loads(path.read_text())] == list(range(step + 1))


def test_a_step_has_the_fields_people_parse(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    with TrainingRunLogger(path) as logger:
        logger.log_step(
            100, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002, moe={"aux_loss": 0.0234, "z_loss": 0.1}
        )
        logger.log_eval(500, 1.5, 32768, 234, 2.1234)
        logger.log_moe_stats(100, 0.0234, 0.0012, 0.9375, 1.45)
    step, evaluation, moe = json.loads(path.read_text())[:3]
    assert list(step)[:9] == [
        *("log", "time", "step", "epoch", "step_tokens", "duration_ms", "norm", "loss", "lr")
    ]
    assert len(step["time"]) == len("2026-01-15T10:30:00.123456")
    assert step["moe_aux_loss"] == 0.0234
    assert evaluation["eval_tokens"] == 32768
    assert (moe["log"], moe["expert_utilization"], moe["load_imbalance"]) == ("moe", 0.9375, 1.45)


def steps_in(path: Path) -> list[int]:
    return [one["step"] for one in json.loads(path.read_text()) if one["log"] == "step"]


def test_an_existing_file_is_refused_and_the_choices_are_named(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    path.touch()  # an empty file has nothing to lose
    with TrainingRunLogger(path) as logger:
        one_step(logger, 0)
    with pytest.raises(UsageError, match=r"training\.json exists.*append.*rotate.*refuse"):
        TrainingRunLogger(path)
    with pytest.raises(UsageError, match="existing='replace' is not known"):
        TrainingRunLogger(path, existing="replace")  # type: ignore[arg-type]
    assert steps_in(path) == [0]


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    for step in range(3):
        with TrainingRunLogger(path, existing="append") as logger:
            one_step(logger, step)
    assert steps_in(path) == [0, 1, 2]
    assert logger.run.attempt == 3


def test_an_existing_file_is_renamed_to_a_free_name(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    for step in range(3):
        with TrainingRunLogger(path, existing="rotate") as logger:
            one_step(logger, step)
    files = ["training.1.json", "training.2.json", "training.json"]
    assert [steps_in(tmp_path / name) for name in files] == [[0], [1], [2]]


def test_strings_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    nasty = 'quote " backslash \\ newline \n </script> \x00 ü'
    with TrainingRunLogger(path) as logger:
        logger.message(nasty, level="debug")
    assert json.loads(path.read_text())[0]["text"] == nasty


def test_the_callback_gets_each_line(tmp_path: Path) -> None:
    lines: list[str] = []
    with TrainingRunLogger(tmp_path / "training.json", callback=lines.append) as logger:
        one_step(logger, 7)
    assert json.loads(lines[0])["step"] == 7


def test_it_writes_into_the_current_run_and_leaves_it_open(tmp_path: Path) -> None:
    run = epochal.init(name="mine", console=False)
    with TrainingRunLogger(tmp_path / "training.json") as logger:
        one_step(logger, 1)
        assert logger.run is run
    assert run.state != "finished"


def test_a_callback_that_raises_costs_neither_the_loop_nor_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []

    def broken(line: str) -> None:
        calls.append(line)
        raise ZeroDivisionError("in the callback")

    path = tmp_path / "training.json"
    with TrainingRunLogger(path, callback=broken) as logger:
        for step in range(6):
            one_step(logger, step)
    written = json.loads(path.read_text())
    assert [one["step"] for one in written if one["log"] == "step"] == list(range(6))
    assert len(calls) == 3
    faults = [one for one in written if one.get("name") == "internal-error"]
    assert [one["member"] for one in faults] == ["TrainingRunLogger callback"]
    assert "ZeroDivisionError" in faults[0]["traceback"]
    assert capsys.readouterr().err.count("in the callback") == 1


def test_the_file_has_a_record_before_the_callback_is_called(tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    seen: list[int] = []
    with TrainingRunLogger(
        path, callback=lambda _: seen.append(len(json.loads(path.read_text())))
    ) as logger:
        one_step(logger, 1)
        one_step(logger, 2)
    assert seen[:2] == [1, 2]


@pytest.mark.parametrize("values", ["low", None, object()])
def test_no_value_raises(tmp_path: Path, values: Any) -> None:
    path = tmp_path / "training.json"
    with TrainingRunLogger(path) as logger:
        logger.log_step(values, values, values, values, values, values, values)
        logger.log_eval(values, values, values, values, values)
    kinds = [one["log"] for one in json.loads(path.read_text())]
    assert "step" in kinds
    assert "eval" in kinds


@pytest.mark.parametrize("with_run", [False, True])
@pytest.mark.parametrize("verbosity", [7, -3])
def test_an_unknown_verbosity_is_refused_whoever_prints(
    tmp_path: Path, with_run: bool, verbosity: int
) -> None:
    if with_run:
        epochal.init(name="mine")
    with pytest.raises(ValueError, match="LogVerbosity"):
        TrainingRunLogger(tmp_path / "t.json", verbosity=verbosity)
    assert not (tmp_path / "t.json").exists()


def test_verbosity_holds_for_the_lines_of_a_run_that_is_there_until_close(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = epochal.init(name="mine", line_every_s=0)
    with TrainingRunLogger(tmp_path / "t.json", verbosity=LogVerbosity.SILENT) as logger:
        one_step(logger, 1)
    one_step_of(run, 2)
    shown = capsys.readouterr().err
    assert ":: step       1" not in shown
    assert ":: step       2" in shown


def one_step_of(run: epochal.Run, step: int) -> None:
    run.log_step(step, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002)


def test_a_total_gives_percent_and_belongs_to_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TrainingRunLogger(tmp_path / "t.json", total_steps=4) as logger:
        one_step(logger, 1)
    assert "[ 50.0%]" in capsys.readouterr().err
    epochal.init(name="mine", console=False)
    with pytest.raises(UsageError, match=r"give them to epochal\.init"):
        TrainingRunLogger(tmp_path / "u.json", total_steps=4)


def test_eval_only_verbosity_prints_evaluations_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TrainingRunLogger(tmp_path / "t.json", verbosity=LogVerbosity.MINIMAL) as logger:
        one_step(logger, 1)
        logger.log_eval(1, 1.0, 32768, 234, 2.1234)
    shown = capsys.readouterr().err
    assert ">> eval" in shown
    assert ":: step" not in shown


def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not an array")
    with pytest.raises(FormatError, match=r"notes\.txt"):
        TrainingRunLogger(path, existing="append")
    assert path.read_text() == "not an array"


def test_a_full_disk_loses_the_file_but_not_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = TrainingRunLogger(tmp_path / "training.json")
    logger._file.close()  # every later write fails as on a vanished disk
    one_step(logger, 1)
    one_step(logger, 2)
    logger.run.finish()
    assert logger.lost == 3
    assert capsys.readouterr().err.count("cannot write") == 1


@pytest.mark.parametrize(
    ("level", "files"), [(LogVerbosity.DEFAULT, False), (LogVerbosity.VERBOSE, True)]
)
def test_files_of_a_dataset_are_shown_when_verbose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: LogVerbosity, files: bool
) -> None:
    with TrainingRunLogger(tmp_path / "t.json", verbosity=level) as logger:
        logger.log_dataset("train", files=["a.bin", "b.bin"], tokens=100)
    shown = capsys.readouterr().err
    assert "train: 100 tokens in 2 files" in shown
    assert ("a.bin" in shown) is files


@pytest.mark.parametrize("level", [LogVerbosity.SILENT, LogVerbosity.MINIMAL])
def test_findings_are_not_printed_where_evaluations_alone_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: LogVerbosity
) -> None:
    with TrainingRunLogger(tmp_path / "t.json", verbosity=level) as logger:
        for step in range(30):
            logger.log_step(step, 1.0, 100, 1.0, 0.1, float("nan") if step > 10 else 1.0, 0.1)
    assert capsys.readouterr().err == ""
