from epochal.health.course import LearningRate


def followed(rates: list[float]) -> tuple[LearningRate, list[int]]:
    rate = LearningRate()
    return rate, [n for n, value in enumerate(rates) if rate.push(n, value)]


def test_a_warm_restart_is_a_jump() -> None:
    assert followed([1.0, 0.5, 0.1, 1.0, 0.9])[1] == [3]


def test_a_long_warm_up_is_none() -> None:
    rate, jumps = followed([n / 100 for n in range(10, 100)])
    assert jumps == []
    assert not rate.began_at_peak(0.9)
    assert rate.is_near_peak(0.9)
    assert rate.peak_since == 89
