from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.torch import (
    ConstantLR,
    CosineScheduler,
    MultiStepLR,
    OneCycleLR,
    Scheduler,
    SequentialLR,
    WarmupScheduler,
    format_schedule,
    parse_schedule,
)
from tests.torch.schedule.schedules_drawn import any_schedule


def test_the_text_of_the_guide_is_read() -> None:
    expected = WarmupScheduler(CosineScheduler(1e-3, 1e-6, 1000), None, 100)
    assert parse_schedule(" warmup( cosine(1e-3, 1e-6, 1_000), 1e2 ) ") == expected


def test_lists_and_named_arguments_are_read() -> None:
    assert parse_schedule("multistep(1,[3,5],gamma=.5)") == MultiStepLR(1.0, (3, 5), 0.5)
    assert parse_schedule("onecycle(1e-2,100,warmup_frac=0.2)") == OneCycleLR(0.01, 100, 0.2)
    both = parse_schedule("sequence([constant(1),constant(2)],[5])")
    assert both == SequentialLR((ConstantLR(1.0), ConstantLR(2.0)), (5,))


def test_defaults_are_not_written() -> None:
    schedule = WarmupScheduler(OneCycleLR(0.01, 50), 0.5, 5)
    assert format_schedule(schedule) == "warmup(onecycle(0.01,50),5,target_lr=0.5)"


@given(any_schedule())
def test_a_schedule_is_read_as_it_was_written(schedule: Scheduler) -> None:
    assert parse_schedule(format_schedule(schedule)) == schedule


@given(any_schedule())
def test_a_schedule_comes_back_from_its_state(schedule: Scheduler) -> None:
    assert Scheduler.from_state(json.loads(json.dumps(schedule.state()))) == schedule


@given(st.text(alphabet="cosine(1e-3,)[]=warmup.+_ 5", max_size=40))
def test_any_text_is_a_schedule_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_schedule(text), Scheduler)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "ends where a schedule"),
        ("3", "must read like"),
        ("cosin(1,0,10)", "column 1: 'cosin' is no schedule; there are constant, linear"),
        ("warmup(cosin(1,0,10),5)", "column 8: 'cosin'"),
        ("cosine(1,0)", "total_steps is missing"),
        ("cosine(1,0,10,11)", "got 4 values"),
        ("cosine(1,0,10,base_lr=2)", "base_lr is given twice"),
        ("cosine(1,0,total=10)", "total is not among them"),
        ("cosine(base_lr=1,0,10)", "named arguments of cosine come last"),
        ("cosine(1,0,0)", "total_steps must be at least 1, got 0"),
        ("cosine(1,0,2.5)", "total_steps must be a whole number"),
        ("multistep(1,3,0.1)", "milestones must be a list"),
        ("cosine(1,0,10) x", "column 16: expected the end"),
        ("cosine(1;0,10)", "column 9: ';' has no meaning"),
        ("constant(__import__('os'))", "column 21"),
        ("warmup(" * 5000, "50 deep"),
        ("[" * 5000, "50 deep"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is compared below
        parse_schedule(text)
    assert sentence in str(caught.value)


class Mine(Scheduler):
    def lr(self, step: int) -> float:
        return 1.0


def test_a_schedule_of_the_users_own_has_no_text_and_says_so() -> None:
    with pytest.raises(ValueError, match="Mine is not one of Epochal's own"):
        format_schedule(Mine())
    with pytest.raises(ValueError, match="Mine is not one of Epochal's own"):
        Mine().state()


@pytest.mark.parametrize("state", [{}, {"schedule": "cosine"}, {"schedule": "x", "lr": 1}])
def test_a_state_that_does_not_fit_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="state must"):
        Scheduler.from_state(state)
