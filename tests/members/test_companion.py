"""Each task, job, callback and source of a companion fails or hangs, and the others go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.base.alarm import interrupting
from epochal.base.guard import DISABLE_AFTER, Guard
from epochal.companion.diagnosis import Diagnosis
from epochal.companion.ending import do_what_is_left
from epochal.companion.own_journal import OwnJournal
from epochal.companion.process import Companion
from epochal.companion.telemetry_journal import Telemetry, host_sources
from epochal.telemetry.machine_gpus import MachineGpus, UsedGpus
from tests.doubles.companions import companion_config
from tests.doubles.journals import of_kind
from tests.members.faults import FAULTS, broken, hanging

BUDGET_S = 0.05
every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def ours_alone() -> Iterator[None]:
    """A companion's process may be interrupted."""
    with interrupting():
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    run.log({"loss": 1.0}, step=0)
    run.finish()
    return run.dir


def companion_of(folder: Path, clock: Time) -> Companion:
    companion = Companion(companion_config(folder, parent=os.getpid()), clock=clock)
    companion.guard.alarm.tick_s = 0.01
    return companion


def errors_in(folder: Path) -> list[dict[str, Any]]:
    return [event for event in of_kind(folder, "event") if event["name"] == "internal-error"]


def counting(call: Callable[..., Any], name: str, calls: list[str]) -> Callable[..., Any]:
    def counted(*args: Any) -> Any:
        calls.append(name)
        return call(*args)

    return counted


@every_fault
def test_a_task_that_fails_leaves_the_others_and_is_recorded_once(
    folder: Path, fault: Callable[..., Any]
) -> None:
    clock = Time()
    companion = companion_of(folder, clock)
    tasks, calls = companion.loop.tasks, list[str]()
    names = [task.name for task in tasks]
    assert {"gpu telemetry", "sync", "sealing", "sinks", "diagnosis"} < set(names)
    real = [counting(task.call, task.name, calls) for task in tasks]
    for faulty in tasks:
        for task, call in zip(tasks, real, strict=True):
            task.call = fault if task is faulty else call
        budget_s, faulty.budget_s = faulty.budget_s, BUDGET_S
        for _ in range(2):
            clock.now_s += 100.0
            calls.clear()
            companion.loop.run_due()
            assert calls == [name for name in names if name != faulty.name]
        faulty.budget_s = budget_s
        assert companion.guard.count(f"task {faulty.name}") == 2
    companion.journal.close()
    assert [event["member"] for event in errors_in(folder)] == [
        f"task {task.name}" for task in tasks
    ]
    assert all("Traceback" in event["traceback"] for event in errors_in(folder))


@every_fault
@pytest.mark.parametrize("method", ["go_on", "left"])
def test_a_last_job_that_fails_leaves_the_others(
    folder: Path, method: str, fault: Callable[..., Any]
) -> None:
    if method == "left" and fault is hanging:
        return  # it asks nobody and waits for nothing
    clock = Time()
    companion = companion_of(folder, clock)
    jobs = companion._last_jobs("vanished")
    assert list(jobs) == [
        *("samples", "diagnosis", "archive", "sealing", "summary", "alerts", "sinks")
    ]
    for faulty in jobs:
        calls: list[str] = []
        doubles: dict[str, Any] = {name: _Job(name, calls) for name in jobs}
        setattr(doubles[faulty], method, fault)
        left = do_what_is_left(
            doubles, deadline_s=1.0, guard=companion.guard, budget_s=BUDGET_S, clock=clock
        )
        assert calls == [name for name in jobs if name != faulty or method == "left"]
        assert companion.guard.count(f"job {faulty}") == 1
        failed = [one["what"] for one in left if "failed" in one["what"]]
        assert len(failed) == (method == "go_on")
        companion.guard.faults.clear()


class _Job:
    command = "do it"

    def __init__(self, name: str, calls: list[str]) -> None:
        self.go_on = counting(lambda: False, name, calls)

    def stop(self) -> None: ...

    def left(self) -> None: ...


STEPS = ("begin", "end", "sample_gpus", "sample_host")


def test_beginning_and_winding_up_go_on_whatever_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in STEPS:
        monkeypatch.setattr(Telemetry, name, broken)
    for name in ("has_finished", "do_what_is_left"):
        monkeypatch.setattr(f"epochal.companion.ending.{name}", broken)
    monkeypatch.setattr("epochal.companion.ending.CrashEvidence.collect", broken)
    monkeypatch.setattr("epochal.companion.own_journal.Durable.sync", broken)
    # No process has this number, so the watch ends at its first look.
    companion = Companion(companion_config(folder, parent=2**22 + 1))
    companion.run()
    members = {event["member"] for event in errors_in(folder)}
    assert members == {
        *("end of run", "task telemetry", "task evidence", "task sync", "task last jobs")
    }


@every_fault
def test_a_callback_that_fails_is_left_out_after_a_while_and_findings_are_written(
    folder: Path, fault: Callable[..., Any]
) -> None:
    for name in Diagnosis(companion_config(folder)).callbacks:
        guard = Guard(tick_s=0.01)
        diagnosis = Diagnosis(companion_config(folder), guard=guard, budget_s=BUDGET_S)
        calls: list[str] = []
        for other in diagnosis.callbacks:
            diagnosis.callbacks[other] = counting(lambda *_args: None, other, calls)
        diagnosis.callbacks[name] = fault
        with guard.alarm.armed():
            for _ in range(DISABLE_AFTER + 1):
                diagnosis._call(name, {})
            while diagnosis.go_on():
                pass
        assert guard.count(f"callback {name}") == DISABLE_AFTER
        assert set(calls) <= set(diagnosis.callbacks) - {name}
        assert diagnosis.left() is None


@every_fault
def test_a_source_that_fails_is_absent_and_the_others_are_read(
    tmp_path: Path, fault: Callable[..., Any]
) -> None:
    for name in (*host_sources(companion_config(tmp_path / "x")), "gpu"):
        folder = tmp_path / name
        config, guard = companion_config(folder, parent=os.getpid()), Guard()
        sources, calls = host_sources(config), list[str]()
        gpus = MachineGpus(vendors=[])
        for other, source in sources.items():
            sources[other] = fault if other == name else counting(source, other, calls)
        if name == "gpu":
            gpus.gpu_models = gpus.pids = fault  # type: ignore[method-assign]
        journal = OwnJournal(config)
        telemetry = Telemetry(
            config,
            journal,
            gpus=gpus,
            used=UsedGpus([]),
            own_pids=lambda: {os.getpid()},
            guard=guard,
            host=sources,
            source_budget_s=1.0 if fault is hanging else 60.0,
        )
        telemetry.begin()
        telemetry.sample_gpus()
        telemetry.sample_host()
        telemetry.end()
        journal.close()
        assert guard.count(f"source {name}") >= 1
        assert {one for one in calls if calls.count(one) == 2} == set(sources) - {name}
        (event,) = [one for one in of_kind(folder, "event") if one["name"] == "telemetry"]
        assert event["failures"] >= 1
        assert event["last_failure"]
