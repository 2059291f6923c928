import os
import time
from pathlib import Path
from typing import Any

from epochal.companion.cpu_ring import CpuRing
from epochal.companion.idle import Sample
from epochal.companion.own_journal import OwnJournal
from epochal.companion.timeline import Timeline, on_grid
from epochal.journal.alike import decode_alike
from epochal.journal.columnar import model_of
from epochal.journal.line import encode
from tests.doubles.companions import companion_config, wait_for
from tests.doubles.journals import of_kind


class Ring:
    def __init__(self, percent: float) -> None:
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


def test_steps_that_are_alike_are_followed_as_others_are(tmp_path: Path) -> None:
    times = [1000.0 + i / 100 for i in range(60)] + [1004.0]
    steps = [{"log": "step", "t": at, "step": i} for i, at in enumerate(times)]
    text = b"".join(map(encode, steps))
    model = model_of(encode(steps[0])[:-1])
    assert model is not None
    alike = decode_alike(model, text)
    assert alike is not None
    for name, records in (("alike", alike), ("each", steps)):
        bench = Bench(tmp_path / name, {})
        bench.now = 1004.0
        bench.timeline.take("loop", records)
        (record,) = bench.written()
        assert record["reason"] == "step 60 took 3.4 s, 341.0 times the usual"
