from __future__ import annotations

import time

import pytest
import torch

from epochal.recipes.gpt2 import clock as clocks
from epochal.recipes.gpt2.clock import StepClock
from epochal.recipes.gpt2.place import Place

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    made = Now()
    monkeypatch.setattr(clocks, "time", made)
    return made


def test_a_lap_is_what_passed_since_the_one_before(now: Now) -> None:
    clock = StepClock(Place(torch.device("cpu")))
    now.seconds += 0.25
    clock.mark()
    assert clock.lap_ms() == 250.0
    now.seconds += 0.5
    assert clock.lap_ms() == 500.0


def test_an_evaluation_is_in_no_lap(now: Now) -> None:
    clock = StepClock(Place(torch.device("cpu")))
    now.seconds += 1.0
    clock.lap_ms()
    now.seconds += 0.125  # the end of the step it follows
    with clock.paused():
        now.seconds += 60.0
    now.seconds += 1.0
    assert clock.lap_ms() == 1125.0


def test_nothing_is_left_out_where_nothing_is_due(now: Now) -> None:
    clock = StepClock(Place(torch.device("cpu")))
    with clock.paused(when=False):
        now.seconds += 1.0
    assert clock.lap_ms() == 1000.0


@needs_gpu
def test_laps_are_the_gpu_s_time() -> None:
    place = Place(torch.device("cuda", 0))
    matrix = torch.randn(4096, 4096, device=place.device)
    clock = StepClock(place)
    laps = []
    begun = time.perf_counter()
    for _ in range(10):
        for _ in range(20):
            matrix = matrix @ matrix
            matrix /= matrix.norm()
        clock.mark()
        laps.append(clock.lap_ms())
    place.synchronize()
    assert sum(laps) == pytest.approx((time.perf_counter() - begun) * 1000, rel=0.1)
