from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from epochal.errors import ValueTypeError
from epochal.run import phases
from epochal.run.run import Run, recorder_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


class Ticks:
    """A clock that stands still until it is told to go on; milliseconds in, nanoseconds out."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, milliseconds: float) -> None:
        self.now_ns += int(milliseconds * 1e6)


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    clock = Ticks()
    monkeypatch.setattr(phases, "perf_counter_ns", clock)
    return clock


def written(run: Run, *kinds: str) -> list[dict[str, Any]]:
    return [record for kind in kinds for record in of_kind(run.dir, kind)]


def train(run: Run, ticks: Ticks, steps: int, **each_ms: float) -> None:
    """Steps of phases in a row, and one millisecond in none."""
    for _ in range(steps):
        for name, milliseconds in each_ms.items():
            with run.phase(name):
                ticks.pass_ms(milliseconds)
        ticks.pass_ms(1)
        run.log({"loss": 1.0})


def test_the_means_of_a_step_are_written_when_the_run_finishes(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()
    train(run, ticks, 11, data=2, forward=5)
    run.finish()
    (record,) = written(run, "phases")
    assert record["step"] == 10
    assert record["steps"] == 10
    assert record["m"] == {"phase/data": 2.0, "phase/forward": 5.0, "phase/other": 0.9}
    # after the last phase nothing is known of the step
    assert record["wall_ms"] == 7.9


def test_the_first_step_is_left_out(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 1, forward=9000)
    train(run, ticks, 4, forward=3)
    run.finish()
    (record,) = written(run, "phases")
    assert record["m"]["phase/forward"] == 3.0


def test_a_phase_inside_another_is_not_counted_twice(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    for _ in range(3):
        with run.phase("forward"):
            ticks.pass_ms(4)
            with run.phase("attention"):
                ticks.pass_ms(6)
            with run.phase("attention"):
                ticks.pass_ms(1)
        run.log({"loss": 1.0})
    run.finish()
    (record,) = written(run, "phases")
    assert record["m"] == {"phase/attention": 7.0, "phase/forward": 4.0, "phase/other": 0.0}


def test_a_phase_around_the_whole_loop_is_shared_out_over_its_steps(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()
    with run.phase("train"):
        for _ in range(5):
            with run.phase("forward"):
                ticks.pass_ms(3)
            ticks.pass_ms(2)
            run.log({"loss": 1.0})
    run.finish()
    (record,) = written(run, "phases")
    assert record["m"]["phase/forward"] == 3.0
    assert record["m"]["phase/train"] == 2.0
    assert record["wall_ms"] == 5.0


def test_steps_that_were_not_logged_count_as_well(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    for step in range(31):
        with run.phase("forward"):
            ticks.pass_ms(4)
        if step % 10 == 0:
            run.log({"loss": 1.0}, step=step)
    run.finish()
    (record,) = written(run, "phases")
    assert record["steps"] == 30
    assert record["step"] == 30
    assert record["m"]["phase/forward"] == 4.0


def test_typed_steps_end_steps_too(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    for step in range(3):
        with run.phase("forward"):
            ticks.pass_ms(4)
        run.log_step(step, 0.1, 10, 4.0, 1.0, 2.0, 1e-3)
    run.finish()
    assert written(run, "phases")[0]["steps"] == 2


def test_records_come_while_the_run_goes_on(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 1 + 49, forward=1000)  # no fifty steps yet, no minute yet
    before = len(written(run, "phases"))
    train(run, ticks, 2, forward=1)
    assert before == 0
    assert written(run, "phases")[0]["steps"] == 50
    train(run, ticks, 500, forward=1)  # a second
    assert len(written(run, "phases")) == 1
    run.finish()


def test_long_steps_are_not_waited_for(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 5, forward=30_000)
    run.finish()
    assert [record["steps"] for record in written(run, "phases")] == [2, 2]


def test_a_step_or_two_at_the_end_are_no_record(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 1 + 50 + 1, forward=1000)
    with run.phase("eval"):
        ticks.pass_ms(30_000)
    run.finish()
    assert [record["steps"] for record in written(run, "phases")] == [50]


def test_some_steps_at_the_end_are(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 1 + 50 + 5, forward=1000)
    run.finish()
    assert [record["steps"] for record in written(run, "phases")] == [50, 5]


def test_a_run_of_weeks_is_not_told_minute_by_minute(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 1, forward=1)
    ticks.pass_ms(20 * 86_400_000)
    train(run, ticks, 100, forward=60_000)
    run.finish()
    # A two-thousandth of twenty days is 14.4 minutes.
    assert {record["steps"] for record in written(run, "phases")[1:-1]} == {15}


def test_an_exception_closes_its_phases_and_goes_on(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 1, forward=1)

    def fail() -> None:
        with run.phase("forward"), run.phase("loss"):
            ticks.pass_ms(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    run.log({"loss": 1.0})
    train(run, ticks, 1, data=1)
    run.finish()
    assert written(run, "phases")[0]["m"]["phase/loss"] == 1.0  # over two steps


def test_a_decorated_function_is_timed_and_keeps_its_name(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()

    @run.phase("forward")
    def forward(x: int) -> int:
        """Doc."""
        ticks.pass_ms(5)
        return 2 * x

    for _ in range(3):
        assert forward(2) == 4
        run.log({"loss": 1.0})
    run.finish()
    assert forward.__name__ == "forward"
    assert written(run, "phases")[0]["m"]["phase/forward"] == 5.0


def test_a_generator_function_cannot_be_a_phase(start_run: StartRun) -> None:
    run = start_run()

    def batches() -> Iterator[int]:
        yield 1

    with pytest.raises(ValueTypeError, match="batches"):
        run.phase("data")(batches)


@pytest.mark.parametrize("name", ["", 3, None, ["data"]])
def test_a_name_must_be_a_text(start_run: StartRun, name: Any) -> None:
    with pytest.raises(ValueTypeError, match="name"):
        start_run(strict=True).phase(name)


def test_a_long_phase_is_a_span_with_its_place_in_time(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 3, forward=5)
    with run.phase("save"):
        ticks.pass_ms(830)
    run.finish()
    (record,) = written(run, "span")
    assert record["name"] == "save"
    assert record["duration_ms"] == 830.0
    assert record["step"] == 2
    assert record["start"] == pytest.approx(record["t"] - 0.83, abs=0.1)


def test_long_phases_of_every_step_do_not_fill_the_journal(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()
    train(run, ticks, 300, forward=200)
    assert 1 <= len(written(run, "span")) < 10


def test_phases_of_another_thread_are_spans_and_not_part_of_a_step(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()
    train(run, ticks, 2, forward=5)

    def save() -> None:
        with run.phase("save"):
            ticks.pass_ms(150)

    thread = threading.Thread(target=save)
    thread.start()
    thread.join()
    train(run, ticks, 1, forward=5)
    run.finish()
    assert [record["name"] for record in written(run, "span")] == ["save"]
    assert "phase/save" not in written(run, "phases")[0]["m"]


def test_a_loop_in_another_thread_has_phases_as_long_as_the_main_thread_has_none(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()
    thread = threading.Thread(target=train, args=(run, ticks, 4), kwargs={"forward": 5.0})
    thread.start()
    thread.join()
    run.finish()
    assert written(run, "phases")[0]["m"]["phase/forward"] == 5.0


def test_many_threads_at_once_lose_nothing_and_raise_nothing(start_run: StartRun) -> None:
    run = start_run()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(500):
                with run.phase("outer"), run.phase("inner"):
                    pass
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(200):
        with run.phase("forward"):
            run.log({"loss": 1.0}, step=step)
    for thread in threads:
        thread.join()
    run.finish()
    assert failures == []


def test_a_phase_that_is_left_by_another_thread_is_forgotten(
    start_run: StartRun, ticks: Ticks
) -> None:
    run = start_run()
    train(run, ticks, 1, forward=5)

    def batches() -> Generator[int, None, None]:
        with run.phase("data"):
            yield 1

    lost = batches()
    next(lost)
    thread = threading.Thread(target=lost.close)
    thread.start()
    thread.join()
    train(run, ticks, 2, forward=5)
    run.finish()
    assert written(run, "phases")[0]["m"]["phase/forward"] == 5.0


def test_phases_after_the_end_and_of_a_run_that_is_off_do_nothing(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch, ticks: Ticks
) -> None:
    run = start_run()
    train(run, ticks, 3, forward=1)
    run.finish()
    with run.phase("forward"):
        ticks.pass_ms(5000)
    assert len(written(run, "phases")) == 1
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    off = start_run("off")
    train(off, ticks, 3, forward=500)
    off.finish()


def test_finishing_inside_a_phase_counts_it_until_there(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    train(run, ticks, 2, forward=1)
    with run.phase("log"):
        ticks.pass_ms(3)
        run.log({"loss": 1.0})
        run.finish()
    assert written(run, "phases")[0]["m"]["phase/log"] == 1.5


def test_without_phases_nothing_is_written(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 1.0})
    run.finish()
    assert written(run, "phases", "span") == []


def test_a_verbose_console_shows_where_the_time_went(
    start_run: StartRun, ticks: Ticks, capsys: pytest.CaptureFixture[str]
) -> None:
    from epochal.run.console.messages import LogVerbosity
    from epochal.run.console.printer import Console

    run = start_run(console=Console(verbosity=LogVerbosity(1)))
    train(run, ticks, 5, data=1, forward=6)
    run.finish()
    shown = capsys.readouterr().err
    assert "[Phases] 4 steps to 4, 7.8 ms each" in shown
    assert "  forward      6.00 ms   77.4 %" in shown


class GpuClock:
    """Stands for a GPU that takes twice the host's time for what it is given, in any phase."""

    def __init__(self) -> None:
        self.host_ms: dict[str, float] = {}
        self.steps = 0

    def enter(self, outer: Any) -> Any:
        return self

    def leave(self, mark: Any, name: str, own_ns: int) -> None:
        self.host_ms[name] = self.host_ms.get(name, 0.0) + own_ns / 1e6

    def end_step(self) -> None:
        self.steps += 1

    def take(self, *, wait: bool = False) -> phases.DeviceTimes:
        doubled = {name: 2 * time for name, time in self.host_ms.items()}
        return phases.DeviceTimes(self.steps, doubled, self.host_ms, host_bound=1)


def test_the_clock_of_a_gpu_goes_before_the_host_s(
    start_run: StartRun, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "_open_clock", GpuClock)
    run = start_run()
    for _ in range(5):
        with run.phase("forward"):
            ticks.pass_ms(3)
        with run.phase("log"):
            ticks.pass_ms(5)
            run.log({"loss": 1.0})
    run.finish()
    (record,) = written(run, "phases")
    assert record["clock"] == "gpu"
    assert record["m"]["phase/forward"] == 6.0
    assert record["host_ms"] == {"forward": 3.0, "log": 5.0}
    assert record["host_bound"] == 0.25


def test_a_forked_child_has_no_phases_of_this_training(start_run: StartRun, ticks: Ticks) -> None:
    run = start_run()
    with run.phase("data"):
        run.log({"loss": 1.0})
        child = os.fork()
        if child == 0:
            with run.phase("data"):
                ticks.pass_ms(500)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.finish()
    assert [part.writer for part in recorder_of(run).folder.parts()] == ["loop"]
