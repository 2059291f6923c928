from hypothesis import given
from hypothesis import strategies as st

from epochal.health.curve import Blocks


@given(st.integers(0, 3000), st.integers(1, 7), st.integers(2, 40))
def test_blocks_cover_the_points_in_order_and_stay_few(count: int, size: int, limit: int) -> None:
    blocks = Blocks(size=size, limit=limit)
    for n in range(count):
        blocks.push(n, float(n))
    whole = blocks.all()
    assert len(whole) <= limit
    assert all(block.size == blocks.size for block in whole)
    edges = [block.first for block in whole] + [block.last for block in whole]
    assert sorted(edges) == sorted(
        edge for n in range(len(whole)) for edge in (n * blocks.size, (n + 1) * blocks.size - 1)
    )


def test_a_level_is_the_median_of_its_points() -> None:
    blocks = Blocks(size=3)
    for n, value in enumerate([1.0, 100.0, 2.0]):
        blocks.push(n, value)
    assert blocks[0].level == 2.0


def test_the_newest_two_are_not_among_the_former() -> None:
    blocks = Blocks(size=1)
    for n, value in enumerate([1.0, 2.0, 3.0, 50.0, 60.0]):
        blocks.push(n, value)
    assert blocks.former_median() == 2.0


def test_a_cut_takes_every_block_that_reaches_there() -> None:
    blocks = Blocks(size=10)
    for n in range(95):
        blocks.push(n, 0.0)
    blocks.forget_from(45)
    assert blocks[-1].last == 39
