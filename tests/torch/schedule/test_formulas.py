from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.torch import (
    WSD,
    ConstantLR,
    CosineScheduler,
    CyclicLR,
    ExponentialLR,
    InverseSqrt,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    Scheduler,
    StepDecay,
)
from tests.torch.schedule.schedules_drawn import any_schedule, rates

STEPS = range(400)


def test_step_decay_multiplies_every_so_many_steps() -> None:
    schedule = StepDecay(0.01, 30, 0.1)
    assert [schedule.lr(step) for step in (0, 29, 30, 60)] == pytest.approx(
        [0.01, 0.01, 1e-3, 1e-4]
    )


def test_multi_step_drops_on_the_milestones_given_in_any_order() -> None:
    schedule = MultiStepLR(1.0, (90, 30, 60), 0.1)
    assert [schedule.lr(step) for step in (29, 30, 89, 90)] == pytest.approx([1, 0.1, 0.01, 0.001])


def test_exponential_growth_ends_in_infinity_not_in_an_error() -> None:
    assert ExponentialLR(1.0, 2.0).lr(5000) == math.inf
    assert ExponentialLR(0.0, 2.0).lr(5000) == 0.0


def test_cosine_starts_at_base_is_halfway_in_the_middle_and_holds_the_minimum() -> None:
    schedule = CosineScheduler(1.0, 0.2, 100)
    assert schedule.lr(0) == 1.0
    assert schedule.lr(50) == pytest.approx(0.6)
    assert [schedule.lr(step) for step in (100, 101, 10_000)] == [0.2] * 3


def test_one_cycle_climbs_for_three_tenths_from_a_25th() -> None:
    schedule = OneCycleLR(0.01, 1000)
    assert schedule.lr(0) == pytest.approx(0.01 / 25)
    assert schedule.lr(150) == pytest.approx((0.01 + 0.01 / 25) / 2)
    assert max(STEPS, key=schedule.lr) == 300
    assert schedule.lr(1000) == schedule.lr(5000) == pytest.approx(0.01 / 25)


@pytest.mark.parametrize(("frac", "peak"), [(0.0, 0), (0.2, 20), (1.0, 100)])
def test_one_cycle_takes_another_warm_up_share(frac: float, peak: int) -> None:
    schedule = OneCycleLR.with_warmup_frac(0.01, 100, frac)
    assert max(range(101), key=schedule.lr) == peak
    assert schedule.lr(peak) == pytest.approx(0.01)


def test_cyclic_is_a_triangle_with_its_peak_after_the_climb() -> None:
    schedule = CyclicLR.asymmetric(0.0, 1.0, 4, 2)
    assert [schedule.lr(step) for step in range(8)] == pytest.approx(
        [0, 0.25, 0.5, 0.75, 1, 0.5, 0, 0.25]
    )


def test_wsd_warms_up_stays_and_decays_by_one_minus_the_square_root() -> None:
    schedule = WSD(1.0, 0.1, 1000, warmup_steps=10)
    assert [schedule.lr(step) for step in (0, 9, 10, 900)] == pytest.approx([0.1, 1, 1, 1])
    assert schedule.lr(925) == pytest.approx(0.1 + 0.9 * (1 - math.sqrt(0.25)))
    assert schedule.lr(1000) == schedule.lr(9999) == 0.1


def test_wsd_decays_linearly_when_told() -> None:
    assert WSD(1.0, 0.0, 100, decay_frac=0.5, shape="linear").lr(75) == pytest.approx(0.5)


def test_inverse_square_root_is_a_half_after_three_timescales() -> None:
    assert InverseSqrt(1.0, 100).lr(300) == 0.5


def test_constant_and_linear_are_what_they_say() -> None:
    assert ConstantLR(0.3).lr(7) == 0.3
    assert [LinearLR(0.0, 1.0, 4).lr(step) for step in (0, 1, 4, 5)] == [0, 0.25, 1, 1]


@given(any_schedule(), st.integers(0, 10_000))
def test_no_rate_is_negative_or_nan(schedule: Scheduler, step: int) -> None:
    assert schedule.lr(step) >= 0


@given(rates(), rates(), st.integers(1, 500), st.integers(0, 1000))
def test_cosine_stays_within_its_bounds(one: float, other: float, total: int, step: int) -> None:
    low, high = sorted((one, other))
    slack = high * 1e-12
    assert low - slack <= CosineScheduler(high, low, total).lr(step) <= high + slack


@given(st.integers(20, 2000))
def test_cosine_moves_in_small_steps_only(total: int) -> None:
    curve = [CosineScheduler(1.0, 0.0, total).lr(step) for step in range(total + 1)]
    assert max(abs(b - a) for a, b in pairwise(curve)) <= math.pi / 2 / total + 1e-12


@given(st.integers(1, 500), st.integers(1, 500))
def test_cyclic_moves_in_small_steps_only(up: int, down: int) -> None:
    schedule = CyclicLR.asymmetric(0.0, 1.0, up, down)
    moves = [abs(schedule.lr(s + 1) - schedule.lr(s)) for s in range(2 * (up + down))]
    assert max(moves) <= 1 / min(up, down) + 1e-9


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: StepDecay(0.1, 0, 0.1), "step_size"),
        (lambda: StepDecay(0.1, 10, 0.0), "gamma"),
        (lambda: CosineScheduler(0.1, 0.0, 0), "total_steps"),
        (lambda: CosineScheduler(0.1, 0.2, 10), "min_lr"),
        (lambda: CosineScheduler(-0.1, 0.0, 10), "base_lr"),
        (lambda: CosineScheduler(math.nan, 0.0, 10), "base_lr"),
        (lambda: MultiStepLR(0.1, (), 0.1), "milestones"),
        (lambda: MultiStepLR(0.1, (-1,), 0.1), "milestones"),
        (lambda: OneCycleLR(0.1, -5), "total_steps"),
        (lambda: OneCycleLR.with_warmup_frac(0.1, 5, 1.5), "warmup_frac"),
        (lambda: CyclicLR(0.0, 0.1, 0), "step_size"),
        (lambda: CyclicLR.asymmetric(0.0, 0.1, 1, 0), "step_size_down"),
        (lambda: CyclicLR(0.2, 0.1, 5), "base_lr"),
        (lambda: WSD(0.1, 0.0, 10, warmup_steps=10), "must fit"),
        (lambda: WSD(0.1, 0.0, 10, shape="round"), "shape"),  # type: ignore[arg-type]
        (lambda: InverseSqrt(0.1, 0), "timescale"),
        (lambda: ConstantLR(0.1).lr(-1), "step"),
    ],
)
def test_misuse_is_a_sentence_that_names_the_argument(make: object, word: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=word):
        make()


def test_a_length_that_is_not_whole_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="whole number of steps"):
        CosineScheduler(0.1, 0.0, 2.5)  # type: ignore[arg-type]


def test_schedules_and_rng_do_not_import_torch() -> None:
    script = (
        "import sys; from epochal.torch import CosineScheduler, Rng, parse_schedule\n"
        "parse_schedule('warmup(cosine(1e-3,1e-6,1000),100)').lr(5); Rng(1).f64()\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
