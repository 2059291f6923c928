import os
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.companion.own_journal import OwnJournal
from epochal.companion.timeline import (
    CpuRing,
    Doing,
    Gap,
    Sample,
    SlowSteps,
    Stretch,
    Timeline,
    cause_of,
    doing_of,
    idle_gaps,
    on_grid,
)
from tests.doubles.companions import companion_config, wait_for
from tests.doubles.journals import of_kind


class Ring(CpuRing):
    def __init__(self, percent: float) -> None:
        super().__init__(0)
        self.percent = percent

    def between(self, start: float, end: float) -> list[Sample]:
        return [(start + 0.1 * i, self.percent) for i in range(int((end - start) / 0.1))]


class Bench:
    """A run with even steps, a clock, and a timeline over both."""

    def __init__(self, folder: Path, gpus: dict[int, list[Sample]]) -> None:
        self.now = 1000.0
        self.step = 0
        journal = OwnJournal(companion_config(folder))
        self.timeline = Timeline(
            journal, gpus=lambda _since: gpus, cpu=Ring(50.0), wall=lambda: self.now
        )
        self.folder = folder

    def take(self, **record: Any) -> None:
        self.timeline.take("loop", [{"t": self.now, **record}])

    def train(self, *durations: float) -> None:
        for seconds in durations:
            self.now += seconds
            self.step += 1
            self.take(log="step", step=self.step)

    def written(self) -> list[dict[str, Any]]:
        self.now += 1.5
        self.timeline.look()
        return of_kind(self.folder, "timeline")


def test_a_slow_step_is_written_with_samples_gaps_and_their_cause(tmp_path: Path) -> None:
    idle = [(1006.0 + 0.1 * i, 0.0 if 5 <= i < 45 else 97.0) for i in range(50)]
    bench = Bench(tmp_path, {0: idle})
    bench.train(*[0.1] * 60)
    bench.now += 4.4
    bench.take(log="span", name="data", start=bench.now - 4.0)
    bench.train(0.1)
    (record,) = bench.written()
    assert record["reason"] == "step 61 took 4.5 s, 45.0 times the usual"
    (gap,) = record["gaps"]
    assert (gap["device"], gap["cause"]) == ("gpu/0", "data")
    assert 3.9 < gap["end"] - gap["start"] < 4.1
    assert len(record["samples"]["gpu/0/util"]) == len(record["samples"]["cpu"]) == 75
    assert record["samples"]["gpu/0/util"][0] is None  # before the driver's memory begins


def test_the_same_cause_is_told_ever_more_seldom(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {})
    bench.train(*[0.1] * 30)
    for _ in range(40):
        bench.train(5.0, *[0.1] * 150)
        bench.written()
    assert 3 <= len(bench.written()) <= 5


def test_a_stretch_of_long_ago_is_not_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {})
    bench.train(*[0.1] * 30)
    at = bench.now
    bench.now += 500.0  # a companion that was started again reads on from the beginning
    bench.timeline.take("loop", [{"log": "step", "step": 31, "t": at + 9.0}])
    assert bench.written() == []


def test_samples_are_put_on_even_times() -> None:
    assert on_grid([(0.0, 1.0), (0.11, 2.04)], 0.0, 0.5) == [1.0, 2.0, 2.0, None, None]
    assert on_grid([], 0.0, 0.2) == [None, None]


def test_a_busy_process_is_seen_to_be_busy() -> None:
    ring = CpuRing(os.getpid())
    begun = time.time()
    ring.start()
    try:
        found = wait_for(lambda: ring.between(begun, time.time()))
    finally:
        ring.stop()
    assert all(percent >= 0 for _, percent in found)


# -- slow steps -------------------------------------------------------------------


def stretches(times: list[float], *, every: int = 1) -> list[Stretch]:
    slow = SlowSteps()
    records = [{"log": "step", "step": every * i, "t": t} for i, t in enumerate(times)]
    return [found for record in records if (found := slow.take(record)) is not None]


def test_a_step_that_took_many_times_the_usual_is_a_stretch() -> None:
    times = [0.2 * i for i in range(50)]
    times.append(times[-1] + 4.0)
    (stretch,) = stretches(times)
    assert (stretch.start, stretch.end, stretch.step) == (times[-2], times[-1], 50)
    assert stretch.sentence == "step 50 took 4.0 s, 20.0 times the usual"


def test_even_and_short_steps_are_none() -> None:
    assert stretches([2.0 * i for i in range(50)]) == []
    short = [0.01 * i for i in range(50)]
    assert stretches([*short, short[-1] + 0.5]) == []


def test_the_first_steps_may_take_long() -> None:
    assert stretches([0.0, 0.2, 0.4, 9.0]) == []


def test_steps_that_were_not_logged_count() -> None:
    times = [2.0 * i for i in range(50)]
    assert stretches([*times, times[-1] + 4.0], every=10) == []
    assert len(stretches([*times, times[-1] + 8.0], every=10)) == 1


def test_a_run_that_goes_back_is_not_slow() -> None:
    slow = SlowSteps()
    for step in range(30):
        slow.take({"log": "metrics", "step": step, "t": float(step)})
    assert slow.take({"log": "metrics", "step": 5, "t": 500.0}) is None
    assert slow.take({"log": "metrics", "t": 600.0, "step": "x"}) is None


# -- idle devices -------------------------------------------------------------------


def test_a_gap_is_where_use_stays_low_for_long_enough() -> None:
    samples = [(0.0, 90.0), (0.1, 2.0), (0.2, 0.0), (0.3, 1.0), (0.4, 80.0), (0.5, 0.0)]
    assert idle_gaps(samples, below_pct=5, least_s=0.2) == [Gap(0.1, 0.4)]
    assert idle_gaps(samples, below_pct=5, least_s=0.5) == []


def test_a_gap_may_last_to_the_end() -> None:
    assert idle_gaps([(0.0, 0.0), (1.0, 0.0)], below_pct=5, least_s=0.5) == [Gap(0.0, 1.0)]
    assert idle_gaps([], below_pct=5, least_s=0.5) == []


@pytest.mark.parametrize(
    ("record", "doing"),
    [
        ({"log": "span", "t": 9.0, "start": 7.5, "name": "save"}, Doing("save", 7.5, 9.0)),
        ({"log": "eval", "t": 9.0, "duration_ms": 2000}, Doing("eval", 7.0, 9.0)),
        ({"log": "epoch", "t": 9.0}, Doing("epoch boundary", 8.5, 9.5)),
        ({"log": "event", "t": 9.0, "name": "checkpoint"}, Doing("save", 8.5, 9.5)),
        ({"log": "step", "t": 9.0, "duration_ms": 100}, None),
        ({"log": "span", "t": None}, None),
    ],
)
def test_records_say_what_was_done(record: dict[str, object], doing: Doing | None) -> None:
    assert doing_of(record) == doing


def cause(*doings: Doing, cpu: list[Sample] | None = None, started: float | None = None) -> str:
    return cause_of(Gap(100.0, 110.0), doings=doings, cpu=cpu or [], started=started)


def test_the_largest_overlap_explains_a_gap() -> None:
    assert cause(Doing("data", 100, 103), Doing("save", 104, 110)) == "save"
    assert cause(Doing("data", 90, 101)) == "unexplained"


def test_without_a_doing_the_start_or_the_host_may_explain_it() -> None:
    assert cause(started=80.0) == "start-up"
    assert cause(cpu=[(101.0, 99.0), (105.0, 100.0)]) == "host"
    assert cause(cpu=[(101.0, 3.0)], started=10.0) == "unexplained"
