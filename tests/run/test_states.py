"""What the calls of a run do in each of its states; the table is in ``run/recorder.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochal.errors import RunFinishedError, UsageError
from epochal.run.run import Run
from epochal.run.start import init
from tests.doubles.journals import of_kind, records

OPEN, RESUMING, OFF, FINISHED = "open", "resuming", "off", "finished"
STATES = (OPEN, RESUMING, OFF, FINISHED)
PNG = b"\x89PNG\r\n\x1a\n"


def timed_section(run: Run) -> None:
    with run.section("load"):
        pass


# Every call that records, and the kind of its record.
RECORDING: dict[str, tuple[str, Callable[[Run], object]]] = {
    "log": ("metrics", lambda run: run.log({"loss": 1.0})),
    "log_step": ("step", lambda run: run.log_step(5, 0.1, 10, 5.0, 1.0, 2.0, 0.1)),
    "log_eval": ("eval", lambda run: run.log_eval(5, 0.1, 10, 5.0, 2.0)),
    "log_epoch": ("epoch", lambda run: run.log_epoch(1, 1.0, {"loss": 1.0})),
    "log_moe_stats": ("moe", lambda run: run.log_moe_stats(5, 0.1, 0.2, 0.5, 1.5)),
    "log_gpu_state": ("gpu", lambda run: run.log_gpu_state(5, 0, clock=1000)),
    "log_gpu_model": ("gpu-model", lambda run: run.log_gpu_model(name="H200")),
    "log_sol_estimate": (
        "sol",
        lambda run: run.log_sol_estimate(blocks=1.0, lm_head=1.0, attention=1.0, tps=10.0),
    ),
    "log_allocator": ("allocator", lambda run: run.log_allocator({"weights": 10})),
    "log_dataset": ("dataset", lambda run: run.log_dataset("train", files=1, tokens=10)),
    "log_abs_maxes": ("abs-maxes", lambda run: run.log_abs_maxes(5, {"w": 1.0})),
    "log_file": ("file", lambda run: run.log_file(__file__)),
    "log_graph": ("graph", lambda run: run.log_graph("<svg/>")),
    "event": ("event", lambda run: run.event("restarted")),
    "alert": ("event", lambda run: run.alert("loss", "it is high")),
    "message": ("message", lambda run: run.message("words")),
    "section": ("message", timed_section),
    "define": ("define", lambda run: run.define("loss", goal="min")),
    "config": ("option", lambda run: run.config.update(lr=0.1)),
    "summary": ("summary", lambda run: run.summary.update(best=1)),
    "write": ("event", lambda run: run.write({"log": "event", "t": 1.0, "name": "own"})),
}
# Calls that record nothing themselves.
OTHERS = {"fork", "finish", "flush", "on_finish", "phase", "save_html", "serve"}
READING = {"attempt", "diagnosis", "dir", "files", "id", "name", "project", "rank", "state", "step"}


@pytest.fixture
def in_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Run]:
    def start(state: str) -> Run:
        options: dict[str, Any] = {"dir": tmp_path, "console": False, "companion": False}
        if state == OFF:
            monkeypatch.setenv("EPOCHAL_MODE", "off")
        if state == RESUMING:
            with init("tests", "run", **options) as first:
                first.log({"loss": 2.0}, step=4)
            options["resume"] = "must"
        run = init("tests", "run", **options)
        if state == FINISHED:
            run.finish()
        assert run.state == state
        return run

    return start


def test_every_member_of_a_run_has_its_place_in_these_lists() -> None:
    members = {name for name in dir(Run) if not name.startswith("_")}
    assert members == {*RECORDING, *OTHERS, *READING}


@pytest.mark.parametrize("call", RECORDING)
def test_an_open_run_records_a_call(call: str, in_state: Callable[[str], Run]) -> None:
    run = in_state(OPEN)
    kind, act = RECORDING[call]
    act(run)
    assert len(of_kind(run.dir, kind)) == 1
    run.finish()


@pytest.mark.parametrize("call", RECORDING)
def test_a_run_that_is_off_takes_a_call_and_writes_nothing(
    call: str, in_state: Callable[[str], Run], tmp_path: Path
) -> None:
    run = in_state(OFF)
    RECORDING[call][1](run)
    run.finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", RECORDING)
def test_a_finished_run_refuses_a_call(call: str, in_state: Callable[[str], Run]) -> None:
    run = in_state(FINISHED)
    before = records(run.dir)
    with pytest.raises(RunFinishedError, match="is finished: start another"):
        RECORDING[call][1](run)
    assert records(run.dir) == before


@pytest.mark.parametrize("call", ["log", "log_step", "log_eval", "log_moe_stats"])
def test_the_first_step_of_a_resumed_run_says_where_it_continues(
    call: str, in_state: Callable[[str], Run]
) -> None:
    run = in_state(RESUMING)
    RECORDING[call][1](run)
    assert run.state == OPEN
    kinds = [record["log"] for record in records(run.dir)]
    assert kinds[-2:] == ["resume", RECORDING[call][0]]
    assert of_kind(run.dir, "resume")[0]["step"] == 5
    run.finish()


@pytest.mark.parametrize("call", ["message", "event", "define", "config", "log_gpu_model"])
def test_records_without_a_step_leave_a_run_resuming(
    call: str, in_state: Callable[[str], Run]
) -> None:
    run = in_state(RESUMING)
    RECORDING[call][1](run)
    assert (run.state, of_kind(run.dir, "resume")) == (RESUMING, [])
    run.finish()


def test_a_run_that_is_resumed_at_a_given_step_is_open_at_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"dir": tmp_path, "console": False, "companion": False}
    init("tests", "run", **options).finish()
    run = init("tests", "run", resume="must", resume_step=3, **options)
    assert (run.state, run.step, run.attempt) == (OPEN, 2, 2)
    assert of_kind(run.dir, "resume")[0]["step"] == 3
    run.finish()


@pytest.mark.parametrize("state", STATES)
def test_every_state_ends_finished_and_finishing_again_does_nothing(
    state: str, in_state: Callable[[str], Run]
) -> None:
    run = in_state(state)
    run.finish()
    run.finish("failed")
    assert run.state == FINISHED
    if state != OFF:
        assert {r["status"] for r in of_kind(run.dir, "finish")} == {"finished"}


@pytest.mark.parametrize("state", STATES)
def test_members_that_only_read_answer_in_every_state(
    state: str, in_state: Callable[[str], Run]
) -> None:
    run = in_state(state)
    answers = {name: getattr(run, name) for name in READING}
    assert answers["state"] == state
    assert None not in answers.values()
    run.flush()
    run.finish()


@pytest.mark.parametrize("state", STATES)
def test_phases_raise_in_no_state(state: str, in_state: Callable[[str], Run]) -> None:
    run = in_state(state)
    with run.phase("data"):
        pass
    run.finish()


def test_a_callback_of_a_finished_run_would_never_be_called_and_is_refused(
    in_state: Callable[[str], Run],
) -> None:
    run = in_state(FINISHED)
    with pytest.raises(RunFinishedError):
        run.on_finish(list)


def test_a_run_that_is_off_has_no_page_and_no_archive(
    in_state: Callable[[str], Run], tmp_path: Path
) -> None:
    run = in_state(OFF)
    run.save_html(tmp_path / "run.html")
    assert run.serve() is None
    run.finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", [OPEN, OFF])
def test_misuse_raises_whether_anything_is_written_or_not(
    state: str, in_state: Callable[[str], Run]
) -> None:
    run = in_state(state)
    with pytest.raises(UsageError, match="goal='up'"):
        run.define("loss", goal="up")
    run.finish()
