from __future__ import annotations

from dataclasses import dataclass

import pytest

from epochal.torch.step_count import StepCount


@dataclass
class Loop:
    """A run that somebody logs to."""

    step: int = -1


class Optimizer:
    """Something that steps."""


def counted(loop: Loop, count: StepCount, steps: range, *, logs_first: bool = False) -> list[int]:
    """The numbers that steps get, of a loop that logs each before or after it is made."""
    found, optimizer = [], Optimizer()
    for step in steps:
        if logs_first:
            loop.step = step
        count.begins_with(optimizer)
        found.append(count.step)
        loop.step = step
    return found


@pytest.mark.parametrize("logs_first", [False, True])
def test_a_new_run_is_counted_from_its_first_step(logs_first: bool) -> None:
    loop = Loop()
    count = StepCount(loop)
    assert counted(loop, count, range(4), logs_first=logs_first) == [0, 1, 2, 3]
    assert not count.is_guess


@pytest.mark.parametrize("first", [0, 20, 31, 50])
def test_a_resumed_run_is_guessed_until_it_logs(first: int) -> None:
    loop = Loop(30)
    count = StepCount(loop)
    assert count.is_guess
    assert counted(loop, count, range(first, first + 3)) == [31, first + 1, first + 2]
    assert not count.is_guess


def test_a_loop_that_logs_a_step_before_it_is_known_at_once() -> None:
    loop = Loop(30)
    assert counted(loop, StepCount(loop), range(20, 23), logs_first=True) == [20, 21, 22]


def test_a_loop_that_begins_again_is_followed_when_both_move_alike() -> None:
    loop = Loop()
    count = StepCount(loop)
    counted(loop, count, range(10))
    assert counted(loop, count, range(5)) == [10, 11, 2, 3, 4]


def test_steps_that_are_epochs_or_tokens_move_nothing() -> None:
    loop, optimizer = Loop(), Optimizer()
    count = StepCount(loop)
    for number in range(30):
        count.begins_with(optimizer)
        assert count.step == number
        loop.step = number
        if number % 10 == 9:
            loop.step = number // 10
        if number % 4 == 3:
            loop.step = number * 1000


def test_skipped_optimizer_steps_are_made_up_for() -> None:
    loop = Loop()
    count = StepCount(loop)
    counted(loop, count, range(3))
    loop.step = 3  # a step in which no optimizer moved
    assert counted(loop, count, range(4, 8)) == [3, 5, 6, 7]


def test_a_loop_that_never_logs_is_taken_at_the_count() -> None:
    loop, optimizer = Loop(30), Optimizer()
    count = StepCount(loop)
    for _ in range(200):
        count.begins_with(optimizer)
    assert count.step == 230
    assert not count.is_guess


def test_several_optimizers_step_once_each() -> None:
    count, first, second = StepCount(Loop()), Optimizer(), Optimizer()
    begun = [count.begins_with(one) for one in (first, second, first, second, second)]
    assert begun == [True, False, True, False, True]
    assert count.step == 2


def test_a_number_that_is_given_is_no_guess() -> None:
    count = StepCount(Loop(30), 12)
    assert (count.step, count.is_guess) == (12, False)


def test_an_optimizer_that_replaces_one_steps_in_its_place() -> None:
    count = StepCount(Loop())
    assert all(count.begins_with(Optimizer()) for _ in range(3))
    assert count.step == 2
