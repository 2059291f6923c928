from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.torch import (
    ConstantLR,
    Cooldown,
    CosineScheduler,
    GroupRates,
    PermanentReduction,
    PlateauScheduler,
    ScaledLR,
    SequentialLR,
    StepDecay,
    TemporaryOverride,
    WarmupScheduler,
)


def test_warm_up_climbs_without_a_step_at_zero_and_then_starts_the_other_at_its_zero() -> None:
    schedule = WarmupScheduler(StepDecay(1.0, 5, 0.1), 1.0, 10)
    assert [schedule.lr(step) for step in (0, 4, 9, 10, 14, 15)] == pytest.approx(
        [0.1, 0.5, 1.0, 1.0, 1.0, 0.1]
    )


def test_a_warm_up_without_a_target_climbs_to_where_the_other_starts() -> None:
    assert WarmupScheduler(ConstantLR(0.4), None, 4).lr(1) == pytest.approx(0.2)


def gpt2_rate(step: int, *, top: float, low: float, warmup: int, total: int) -> float:
    """The reference trainer's own rule, written down anew."""
    if step < warmup:
        return top * (step + 1) / warmup
    if step > total:
        return low
    share = (step - warmup) / (total - warmup)
    return low + (1 + math.cos(math.pi * share)) / 2 * (top - low)


def test_warm_up_and_cosine_are_the_gpt2_schedule() -> None:
    schedule = WarmupScheduler(CosineScheduler(1e-3, 1e-4, 95_365 - 715), 1e-3, 715)
    for step in (0, 1, 714, 715, 716, 48_000, 95_364, 95_365, 95_366, 200_000):
        expected = gpt2_rate(step, top=1e-3, low=1e-4, warmup=715, total=95_365)
        assert schedule.lr(step) == pytest.approx(expected, rel=1e-12)


def test_warm_up_goes_around_a_plateau() -> None:
    plateau = PlateauScheduler(1.0, 1, 0.5, 0.0)
    schedule = WarmupScheduler(plateau, 1.0, 2)
    plateau.observe(1.0)
    plateau.observe(2.0)
    assert [schedule.lr(0), schedule.lr(2)] == [0.5, 0.5]


@given(st.integers(1, 300), st.integers(50, 3000))
def test_warm_up_meets_the_schedule_without_a_jump(warmup: int, total: int) -> None:
    schedule = WarmupScheduler(CosineScheduler(1.0, 0.0, total), None, warmup)
    curve = [schedule.lr(step) for step in range(warmup + 10)]
    assert max(abs(b - a) for a, b in pairwise(curve)) <= max(1 / warmup, math.pi / total) + 1e-9


def test_cooldown_falls_by_one_minus_the_square_root_from_the_rate_it_found() -> None:
    schedule = Cooldown(CosineScheduler(1.0, 0.0, 200), 100, 100)
    assert schedule.lr(100) == pytest.approx(0.5)
    assert schedule.lr(125) == pytest.approx(0.25)
    assert schedule.lr(200) == schedule.lr(999) == 0.0


def test_an_override_is_held_and_blends_back_linearly() -> None:
    schedule = TemporaryOverride(ConstantLR(1.0), 0.2, at_step=10, blend_steps=4, hold_steps=2)
    assert [schedule.lr(step) for step in (9, 10, 12, 14, 16, 99)] == pytest.approx(
        [1.0, 0.2, 0.2, 0.6, 1.0, 1.0]
    )


def test_a_reduction_is_for_good() -> None:
    schedule = PermanentReduction(ConstantLR(1.0), 0.5, 10)
    assert [schedule.lr(step) for step in (9, 10, 10_000)] == [1.0, 0.5, 0.5]


def test_a_sequence_gives_each_schedule_its_own_steps() -> None:
    schedule = SequentialLR((StepDecay(1.0, 2, 0.1), ConstantLR(0.5)), (3,))
    assert [schedule.lr(step) for step in range(4)] == pytest.approx([1.0, 1.0, 0.1, 0.5])


def test_groups_have_rates_of_their_own() -> None:
    assert GroupRates.scaled(ConstantLR(1.0), [0.1, 2.0]).lrs(5) == (0.1, 2.0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: WarmupScheduler(ConstantLR(1.0), 1.0, 0), "warmup_steps"),
        (lambda: WarmupScheduler(0.1, 1.0, 5), "inner"),  # type: ignore[arg-type]
        (lambda: Cooldown(ConstantLR(1.0), 5, 0), "cooldown_steps"),
        (lambda: Cooldown(ConstantLR(1.0), 5, 5, final_lr=2.0), "final_lr"),
        (lambda: TemporaryOverride(ConstantLR(1.0), 0.5, 5, 0), "blend_steps"),
        (lambda: PermanentReduction(ConstantLR(1.0), 1.5, 5), "factor"),
        (lambda: ScaledLR(ConstantLR(1.0), 0.0), "factor"),
        (lambda: SequentialLR((ConstantLR(1.0),), (5,)), "one fewer"),
        (lambda: SequentialLR((ConstantLR(1.0),) * 3, (5, 5)), "rise"),
        (lambda: SequentialLR((), ()), "at least one"),
        (lambda: GroupRates(()), "at least one"),
    ],
)
def test_misuse_is_a_sentence_that_names_the_argument(make: object, word: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=word):
        make()
