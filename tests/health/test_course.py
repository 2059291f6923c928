"""The course of a loss: its best level, its level now, and its falls."""

import math
from collections.abc import Sequence

import pytest

from epochal.health.course import Course
from epochal.health.curve import Block, Blocks, Curve
from tests.health.curve_records import falling, flat


def followed(losses: Sequence[float], *, shift_at: int | None = None) -> Course:
    course = Course(Curve("loss", axis="step"))
    for step, loss in enumerate(losses):
        if step == shift_at:
            course.curve.expect_a_shift()
        course.curve.push(step, loss)
        course.follow()
    return course


def test_the_best_level_and_the_level_now() -> None:
    course = followed(flat(200, 4.0) + flat(200, 2.0) + flat(100, 3.0))
    assert course.is_known
    assert course.best == pytest.approx(2.0, rel=0.02)
    assert 200 <= course.best_at < 400
    assert course.level == pytest.approx(3.0, rel=0.02)
    assert course.height == pytest.approx(1.0, rel=0.1)
    assert course.gained == pytest.approx(2.0, rel=0.1)
    assert course.has_risen()
    assert not course.has_lost_all()
    assert followed(flat(200, 4.0) + flat(200, 2.0) + flat(100, 6.0)).has_lost_all()


def test_a_few_points_have_no_course() -> None:
    course = followed(flat(5, 2.0))
    assert not course.is_known
    assert (course.best, course.height, course.gained) == (None, 0.0, 0.0)
    assert math.isnan(course.level)


def test_the_worst_is_the_largest_rise_that_was_undone() -> None:
    waves = flat(200, 2.0) + flat(60, 5.0) + flat(100, 2.0) + flat(60, 3.0) + flat(100, 2.0)
    assert followed(waves).worst == pytest.approx(3.0, rel=0.1)
    assert followed(flat(200, 2.0) + flat(60, 5.0)).worst < 1.0


def test_a_shift_makes_it_forget_the_best_level_but_one() -> None:
    losses = flat(300, 2.0) + flat(300, 3.0)
    assert followed(losses).best == pytest.approx(2.0, rel=0.02)
    course = followed(losses, shift_at=300)
    assert course.best == pytest.approx(3.0, rel=0.02)
    assert course.before == pytest.approx(2.0, rel=0.02)
    assert not course.has_risen()
    assert not followed(losses[:350], shift_at=300).is_known


class _Counted(Blocks):
    """Counts how often one of its blocks is read."""

    num_reads = 0

    def __getitem__(self, index: int) -> Block:
        self.num_reads += 1
        return super().__getitem__(index)


def test_a_point_costs_the_same_however_long_the_run_is() -> None:
    course = Course(Curve("loss", axis="step"))
    blocks = course.curve.blocks = _Counted(size=course.curve.blocks.size)
    reads = []
    for step, loss in enumerate(falling(40_000)):
        course.curve.push(step, loss)
        course.follow()
        if step % 10_000 == 9_999:
            reads.append(blocks.num_reads)
            blocks.num_reads = 0
    assert max(reads) <= 10_000
    assert reads[-1] <= 2 * reads[0]


def test_a_fall_since_a_position() -> None:
    course = followed(flat(200, 4.0) + flat(200, 3.0))
    assert course.has_fallen_since(100)
    assert not course.has_fallen_since(300)
    assert not course.has_fallen_since(100, share=0.5)
    assert not course.has_fallen_since(10_000)  # there is no such point


def test_falling_now_and_having_learned() -> None:
    course = followed(falling(400))
    assert course.has_learned()
    assert followed([3.0 - 0.01 * n for n in range(200)]).is_falling()
    assert not followed(flat(400, 2.0)).has_learned()
    assert not followed(flat(400, 2.0)).is_falling()
