from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochal.torch import (
    ConstantLR,
    CosineScheduler,
    ExponentialLR,
    LinearLR,
    Scheduler,
    draw_schedule,
)
from tests.torch.schedule.schedules_drawn import any_schedule


def test_a_line_is_drawn_from_corner_to_corner() -> None:
    lines = draw_schedule(LinearLR(0.0, 1.0, 100), width=16, height=4).splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("1 ┤⠀")
    assert lines[0][-1] != "⠀"
    assert lines[3].startswith("0 ┤")
    assert lines[3][3] != "⠀"
    assert lines[5].endswith("100 steps")


def test_a_constant_rate_is_a_flat_line() -> None:
    lines = draw_schedule(ConstantLR(0.5), width=20, height=3).splitlines()
    assert lines[2] == "0.5 ┤" + "⣀" * 20


def test_fewer_steps_than_columns_are_joined() -> None:
    (_, *rows, _, _) = draw_schedule(CosineScheduler(1.0, 0.0, 3), width=40, height=4).splitlines()
    columns = zip(*(row.split("┤")[1] for row in rows), strict=True)
    assert sum(any(cell != "⠀" for cell in column) for column in columns) > 25


@settings(max_examples=25)
@given(any_schedule(), st.integers(1, 500))
def test_every_schedule_can_be_drawn(schedule: Scheduler, steps: int) -> None:
    lines = draw_schedule(schedule, steps=steps, width=20, height=5).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_a_rate_without_end_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="not finite"):
        draw_schedule(ExponentialLR(1.0, 10.0), steps=1000)


@given(any_schedule())
def test_every_schedule_says_how_much_to_show(schedule: Scheduler) -> None:
    assert schedule.horizon() >= 1
