"""Messages, events, sections, definitions, options: what a run says besides numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.api.training_log import TrainingRunLogger
from epochal.errors import UsageError
from epochal.run.run import Run, recorder_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def records(run: Run, kind: str) -> list[dict[str, Any]]:
    return of_kind(run.dir, kind)


def test_a_section_is_timed_recorded_and_printed(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(console=True)
    with run.section("loading"):
        pass
    (message,) = records(run, "message")
    assert message["text"] == "loading"
    assert message["duration_ms"] >= 0
    assert "loading ... done in " in capsys.readouterr().err


def test_a_section_that_fails_is_recorded_and_the_error_goes_on(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(RuntimeError, match="no such file"), run.section("loading"):
        raise RuntimeError("no such file")
    assert len(records(run, "message")) == 1


def test_messages_go_to_stdout_and_warnings_to_stderr(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(console=True)
    capsys.readouterr()
    run.message("100 % of the data")
    run.message("disk is slow", level="warning")
    shown = capsys.readouterr()
    assert shown.out == "100 % of the data\n"
    assert shown.err == "epochal: disk is slow\n"
    assert [one["level"] for one in records(run, "message")] == ["info", "warning"]


def test_an_event_carries_its_facts_and_the_step(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 1.0}, step=7)
    run.event("checkpoint", path="a/b", size=3)
    (event,) = records(run, "event")
    assert (event["name"], event["step"], event["path"], event["size"]) == (
        "checkpoint",
        7,
        "a/b",
        3,
    )


@pytest.mark.parametrize("field", ["log", "t", "v", "nonfinite"])
def test_an_event_cannot_overwrite_a_record_s_own_fields(start_run: StartRun, field: str) -> None:
    with pytest.raises(UsageError, match=field):
        start_run(strict=True).event("checkpoint", **{field: 1})


def test_a_definition_says_what_a_metric_means(start_run: StartRun) -> None:
    run = start_run()
    run.define("acc", unit="%", goal="max", x="epoch", role="eval_loss")
    (defined,) = records(run, "define")
    assert {k: defined[k] for k in ("name", "unit", "goal", "x", "role")} == {
        "name": "acc",
        "unit": "%",
        "goal": "max",
        "x": "epoch",
        "role": "eval_loss",
    }


@pytest.mark.parametrize("wrong", [{"goal": "up"}, {"role": "speed"}])
def test_an_unknown_goal_or_role_says_what_is_known(
    start_run: StartRun, wrong: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="use"):
        start_run().define("acc", **wrong)


def test_options_are_recorded_one_by_one_and_shown_as_a_table(
    start_run: StartRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(console=True, config={"lr": 0.1})
    TrainingRunLogger(tmp_path / "log.json").log_options({"depth": 3, "lr": 0.2})
    assert [(one["name"], one["value"]) for one in records(run, "option")] == [
        ("depth", 3),
        ("lr", 0.2),
    ]
    assert run.config == {"lr": 0.2, "depth": 3}
    assert "[Options]" in capsys.readouterr().err


def test_an_observer_sees_every_line_free_or_typed(start_run: StartRun) -> None:
    lines: list[bytes] = []
    run = start_run()
    recorder_of(run).observe(lines.append)
    run.log({"loss": 1.0})
    run.log({"sample": "hello"})
    run.finish()
    assert [line.split(b'"')[3] for line in lines] == [b"metrics", b"text", b"finish"]


def test_the_closing_line_repeats_the_last_values(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_run(console=True) as run:
        run.log({"loss": 2.0})
        run.log({"loss": 1.0})
    assert capsys.readouterr().err.splitlines()[-1].endswith("| loss: 1.0000")


def test_the_closing_line_repeats_what_was_logged_even_if_its_dict_has_changed(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {"loss": 2.0}
    with start_run(console=True) as run:
        run.log(metrics)
        metrics["loss"] = 7.0
    assert capsys.readouterr().err.splitlines()[-1].endswith("| loss: 2.0000")


def test_an_exit_with_a_code_inside_the_block_is_a_failure(start_run: StartRun) -> None:
    with pytest.raises(SystemExit), start_run() as run:
        raise SystemExit(3)
    (finish,) = records(run, "finish")
    assert (finish["status"], finish["reason"]) == ("failed", "exit code 3")


def test_log_and_finish_of_the_package_act_on_the_current_run(start_run: StartRun) -> None:
    run = start_run()
    epochal.log({"loss": 1.0}, step=3)
    epochal.finish()
    assert run.state == "finished"
    assert records(run, "metrics")[0]["step"] == 3


@pytest.mark.parametrize(("every_s", "shown"), [(60, [0, 2, 4]), (0, [0, 1, 2, 3, 4])])
def test_lines_of_steps_are_bounded_and_the_newest_stands_before_what_follows(
    start_run: StartRun, capsys: pytest.CaptureFixture[str], every_s: float, shown: list[int]
) -> None:
    run = start_run(console=True, line_every_s=every_s, total_steps=5)
    for step in range(5):
        run.log_step(step, 0.0, 100, 10.0, 0.5, 1.0, 0.001)
        if step == 2:
            run.log_eval(step, 0.0, 100, 10.0, 1.5)
    run.finish()
    lines = capsys.readouterr().err.splitlines()
    steps = [line for line in lines if line.startswith(":: step")]
    assert [int(line.split()[2]) for line in steps] == shown
    assert "[ 60.0%]" in lines[next(i for i, line in enumerate(lines) if ">> eval" in line) - 1]
    assert "[100.0%]" in steps[-1]
