"""What fails or hangs in the training's own process: the loop and ``finish()`` go on."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.base.guard import Guard
from epochal.cli.main import main
from epochal.health.engine import Health
from epochal.health.registry import RULES
from epochal.run import companion
from epochal.run.companion import FindingsReporter
from epochal.run.console.printer import Console
from epochal.run.ending import Callbacks
from epochal.run.recorder import Recorder
from epochal.run.run import Run, recorder_of
from epochal.telemetry.sampler import ResourceSampler
from tests.doubles.journals import of_kind
from tests.members import faults
from tests.members.faults import FAULTS, broken, hanging

SOURCES = ("_host", "_gpu", "_memory")


def started(folder: Path, **options: Any) -> Run:
    return epochal.init("p", "a", dir=folder, companion=False, **options)


def errors_in(run: Run) -> list[dict[str, Any]]:
    return [event for event in of_kind(run.dir, "event") if event["name"] == "internal-error"]


HOOKS: dict[str, Callable[[Recorder], Callable[..., object]]] = {
    "on_tick": lambda recorder: recorder.on_tick.add,
    "on_line": lambda recorder: recorder.observe,
    "on_end": lambda recorder: recorder.ending.on_end.add,
    "on_finish": lambda recorder: recorder.ending.on_finish.add,
    "on_close": lambda recorder: recorder.ending.on_close.add,
    "after_finish": lambda recorder: recorder.ending.after_finish.add,
}


def test_every_hook_is_known(tmp_path: Path) -> None:
    recorder = recorder_of(started(tmp_path, console=False))
    members = {**vars(recorder), **vars(recorder.ending)}
    lists = {name.strip("_") for name, one in members.items() if isinstance(one, Callbacks)}
    assert lists == set(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_callback_that_fails_reaches_neither_the_loop_nor_the_next(
    hook: str, tmp_path: Path
) -> None:
    run = started(tmp_path, console=False)
    calls: list[object] = []
    add = HOOKS[hook](recorder_of(run))
    add(broken)
    add(lambda *_args: calls.append(hook))
    for step in range(3):
        run.log({"loss": 1.0}, step=step)
        time.sleep(0.01)
    run.finish()
    assert run.state == "finished"
    assert of_kind(run.dir, "finish")[0]["status"] == "finished"
    called = [event["member"] for event in errors_in(run)]
    assert len(called) == len(set(called)) == (1 if calls else 0)
    if hook not in ("on_tick", "on_line"):  # these are called when there is something to tell
        assert calls == [hook]


def test_a_console_line_that_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(tmp_path, console=True)
    monkeypatch.setattr(Console, "_write", broken)
    run.log_step(0, 0.1, 10, 10.0, 1.0, 2.0, 1e-3)
    run.finish()
    assert of_kind(run.dir, "step")[0]["loss"] == 2.0
    assert of_kind(run.dir, "finish")[0]["status"] == "finished"
    assert "console line" in [event["member"] for event in errors_in(run)]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_rule_that_fails_when_a_run_finishes_keeps_nobody(
    fault: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("_HANGS_S", "_LEAST_HANGS_S"):
        monkeypatch.setattr(companion, name, 1.0 if fault is hanging else 60.0)
    rule = next(rule for rule in RULES if rule.name == "divergence")
    monkeypatch.setattr(rule, "observe", fault)
    run = started(tmp_path, console=True)
    FindingsReporter(recorder_of(run)).begin()  # a companion would be started with it
    run.log({"loss": math.nan}, step=0)
    began_s = time.monotonic()
    run.finish()
    if fault is hanging:
        assert time.monotonic() - began_s < faults.HANG_S
    (event,) = errors_in(run)
    assert event["member"] == ("diagnosis" if fault is hanging else "rule divergence")
    assert "Traceback" in event["traceback"]
    assert "nonfinite" in _doctor(run, capsys, monkeypatch)


def _doctor(run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.undo()
    capsys.readouterr()
    main(["doctor", str(run.dir)])
    text = capsys.readouterr().out
    assert "Epochal had an internal error" in text
    return text


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_source_that_fails_leaves_its_readings_out_of_an_epoch(fault: Callable[..., Any]) -> None:
    for source in SOURCES:
        guard = Guard()
        sampler = ResourceSampler(guard=guard, source_budget_s=1.0 if fault is hanging else 60.0)
        getattr(sampler, source).read = fault
        sample = sampler.sample()
        assert (sample.ram_total is None) == (source == "_host")
        sampler.close()
        (member,) = guard.faults
        assert member.startswith("source ")


def test_a_monitor_goes_on_with_a_source_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monitor = epochal.Monitor(2, dir=tmp_path, console=False, companion=False)
    monitor._sampler._budget_s = 1.0
    monkeypatch.setattr(monitor._sampler._host, "read", lambda: ended.wait(faults.HANG_S))
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.log(1, 1.0, {"loss": 0.5})
    ended.set()
    monitor.finish()
    (event,) = errors_in(monitor.run)
    assert (event["member"], event["reason"][:14]) == ("source host", "BudgetExceeded")
    assert len(of_kind(monitor.run.dir, "epoch")) == 2


def test_the_doctor_shows_a_fault_that_it_meets_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(tmp_path, console=False)
    run.log({"loss": math.nan}, step=0)
    run.finish()
    for fault in FAULTS.values():
        with monkeypatch.context() as patch:
            patch.setitem(Guard.__init__.__kwdefaults__ or {}, "tick_s", 0.01)
            patch.setitem(Health.__init__.__kwdefaults__ or {}, "rule_budget_s", 0.05)
            rule = next(rule for rule in RULES if rule.name == "divergence")
            patch.setattr(rule, "observe", fault)
            assert main(["doctor", str(run.dir), "--json"]) == 1
            said = json.loads(capsys.readouterr().out)
            assert main(["--dir", str(tmp_path), "ls"]) == 0
            assert "p" in capsys.readouterr().out
        (error,) = said["internal_errors"]
        assert error["member"] == "rule divergence"
        assert "Traceback" in error["traceback"]
        assert [one["rule"] for one in said["causes"]] == ["nonfinite"]
