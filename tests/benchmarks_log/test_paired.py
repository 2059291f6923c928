import pytest

from benchmarks.paired import Answers, paired


def measured(**rounds: list[float]) -> Answers:
    return {(name, 0): [{"p50": figure} for figure in rounds[name]] for name in rounds}


def test_each_round_is_compared_with_the_cheapest_of_that_round() -> None:
    answers = measured(ours=[2.0, 3.0], first=[20.0, 60.0], second=[40.0, 30.0])
    assert paired(answers, "ours", ["first", "second"]).ratios == (0.1, 0.1)


def test_one_disturbed_round_does_not_decide() -> None:
    answers = measured(ours=[2.0, 9.0, 4.0], bare=[1.0, 1.0, 2.0])
    found = paired(answers, "ours", ["bare"])
    assert found.middle == 2.0
    assert str(found) == "2 to 9 in 3 rounds"


@pytest.mark.parametrize("bare", [[1.0], []])
def test_rounds_after_a_failure_are_left_out(bare: list[float]) -> None:
    found = paired(measured(ours=[2.0, 2.0], bare=bare), "ours", ["bare"])
    assert found.ratios == (2.0,) * len(bare)


def test_what_was_never_measured_has_no_ratio() -> None:
    found = paired({}, "ours", ["bare"])
    assert found.middle is None
    assert str(found) == "never measured together"
