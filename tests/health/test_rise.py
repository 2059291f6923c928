from epochal.health.curve import Curve, CurveThresholds
from epochal.health.rise import Rise


def followed(values: list[float]) -> Rise:
    curve, rise = Curve("loss", axis="step", thresholds=CurveThresholds()), Rise(points=20)
    for position, value in enumerate(values):
        curve.push(position, value)
        rise.follow(curve)
    return rise


def test_the_height_is_above_the_best_blocks() -> None:
    rise = followed([5.0] * 50 + [2.0] * 50 + [9.0] * 40)
    assert (rise.best, rise.level, rise.height) == (2.0, 9.0, 7.0)


def test_a_rise_that_was_undone_is_remembered() -> None:
    assert followed([2.0] * 60 + [9.0] * 40 + [2.0] * 60).worst == 7.0


def test_a_rise_that_stays_is_not() -> None:
    assert followed([2.0] * 60 + [9.0] * 400).worst == 0.0
