from epochal.health.rules.replica_drift import RankTable


def test_a_row_is_complete_when_every_known_rank_is_in_it() -> None:
    table = RankTable()
    assert table.push(1, 0, 0.5) is None
    assert table.push(1, 1, 0.6) == {0: 0.5, 1: 0.6}
    assert table.push(2, 2, 0.1) is None
    assert table.push(2, 0, 0.1) is None
    assert table.push(2, 1, 0.1) == {2: 0.1, 0: 0.1, 1: 0.1}


def test_steps_that_others_skip_do_not_pile_up() -> None:
    table = RankTable()
    for step in range(10_000):
        table.push(step, 0, 1.0)
    assert table.push(9_999, 1, 2.0) == {0: 1.0, 1: 2.0}
    assert table.push(0, 1, 2.0) is None


def test_a_value_that_is_not_finite_voids_its_row() -> None:
    table = RankTable()
    table.push(1, 0, 1.0)
    assert table.push(1, 1, float("nan")) is None
