from __future__ import annotations

import json
import math
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from epochal.torch import PlateauScheduler, Scheduler


def test_the_rate_falls_after_patience_values_without_improvement() -> None:
    plateau = PlateauScheduler(1.0, 2, 0.1, 0.0)
    assert [plateau.observe(value) for value in (5, 5, 5, 4)] == pytest.approx([1, 1, 0.1, 0.1])


def test_the_rate_never_falls_below_the_minimum() -> None:
    plateau = PlateauScheduler(1.0, 1, 0.1, 0.05)
    for _ in range(9):
        plateau.observe(1.0)
    assert plateau.lr() == 0.05


def test_nan_is_no_improvement_even_as_the_first_value() -> None:
    plateau = PlateauScheduler(1.0, 2, 0.5, 0.0)
    plateau.observe(math.nan)
    assert plateau.observe(math.nan) == 0.5
    assert plateau.best is None


def test_larger_is_better_when_told() -> None:
    plateau = PlateauScheduler(1.0, 1, 0.5, 0.0, mode="max")
    assert [plateau.observe(value) for value in (1, 2, 1.5)] == [1.0, 1.0, 0.5]


def test_an_improvement_must_beat_min_delta() -> None:
    plateau = PlateauScheduler(1.0, 1, 0.5, 0.0, min_delta=0.1)
    plateau.observe(1.0)
    assert plateau.observe(0.95) == 0.5


def test_nothing_is_bad_while_cooling_down() -> None:
    plateau = PlateauScheduler(1.0, 1, 0.5, 0.0, cooldown=2)
    assert [plateau.observe(1.0) for _ in range(5)] == [1.0, 0.5, 0.5, 0.5, 0.25]


@given(
    st.lists(st.floats(-5, 5) | st.just(math.nan), max_size=60),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from(["min", "max"]),
)
def test_it_agrees_with_torch(
    values: list[float], patience: int, cooldown: int, delta: float, mode: Literal["min", "max"]
) -> None:
    ours = PlateauScheduler(1.0, patience, 0.5, 0.01, mode=mode, min_delta=delta, cooldown=cooldown)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    # torch counts the values it still tolerates: one fewer than it takes to fall.
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode, 0.5, patience - 1, delta, "abs", cooldown, 0.01, eps=0.0
    )
    for value in values:
        theirs.step(value)
        assert ours.observe(value) == pytest.approx(optimizer.param_groups[0]["lr"])


def test_it_goes_on_where_its_state_was_taken() -> None:
    plateau = PlateauScheduler(1.0, 3, 0.5, 0.0)
    for value in (1.0, 2.0, 2.0):
        plateau.observe(value)
    restored = Scheduler.from_state(json.loads(json.dumps(plateau.state())))
    assert isinstance(restored, PlateauScheduler)
    assert restored == plateau
    assert restored.observe(2.0) == 0.5


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((1.0, 0, 0.5, 0.0), "patience"),
        ((1.0, 1, 1.0, 0.0), "factor"),
        ((1.0, 1, 0.5, 2.0), "min_lr"),
    ],
)
def test_misuse_names_the_argument(arguments: tuple[float, int, float, float], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        PlateauScheduler(*arguments)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode"):
        PlateauScheduler(1.0, 1, 0.5, 0.0, mode="up")  # type: ignore[arg-type]
