import math

import pytest
import torch

from epochal.errors import UsageError
from epochal.torch.early_stopping import EarlyStopping


def test_evaluations_that_gain_a_little_each_never_stop() -> None:
    stopping = EarlyStopping(patience=3)
    for index in range(50):
        assert stopping.observe_eval(index, 3 * 0.985**index) is None


def test_evaluations_that_get_worse_stop_after_the_patience() -> None:
    stopping = EarlyStopping(patience=3)
    stopping.observe_eval(0, 2.0)
    reasons = [stopping.observe_eval(step, 2.0 * 1.05**step) for step in range(1, 4)]
    assert reasons == [None, None, "3 evaluations did not beat the best (2 at 0)"]
    assert (stopping.best, stopping.best_step, stopping.should_stop) == (2.0, 0, True)


def test_an_accuracy_grows() -> None:
    stopping = EarlyStopping(patience=2, goal="max", min_delta=0.01)
    assert [stopping.observe_eval(i, v) for i, v in enumerate((0.5, 0.6, 0.7))] == [None] * 3
    stopping.observe_eval(3, 0.701)
    assert stopping.observe_eval(4, math.nan) is not None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_called_so(value: float) -> None:
    stopping = EarlyStopping()
    for step in range(10):
        stopping.observe(step, 3.0)
    reasons = [stopping.observe(step, value) for step in range(10, 31)]
    assert reasons[-2:] == [None, f"the loss is {value} since step 10"]


def test_single_losses_that_are_no_numbers_are_passed_over() -> None:
    stopping = EarlyStopping()
    for step in range(900):
        assert stopping.observe(step, math.nan if step % 10 == 0 else 5 * 0.999**step) is None


def test_what_was_seen_survives_a_resume() -> None:
    before = EarlyStopping(patience=2)
    before.observe(1, 3.0)
    for step, value in enumerate((1.0, 2.0)):
        before.observe_eval(step, value)
    after = EarlyStopping(patience=2)
    after.load_state_dict(before.state_dict())
    assert after.state_dict() == before.state_dict()
    assert after.observe_eval(2, 3.0) is not None


@pytest.mark.parametrize("wrong", [{"patience": -1}, {"goal": "up"}, {"min_delta": -1.0}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        EarlyStopping(**wrong)  # type: ignore[arg-type]


def test_numbers_of_other_libraries_are_numbers() -> None:
    stopping = EarlyStopping()
    stopping.observe_eval(torch.tensor(3), torch.tensor([0.5]))  # type: ignore[arg-type]
    assert (stopping.best, stopping.best_step) == (0.5, 3)


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(UsageError, match="lacks reason, best, best_step"):
        EarlyStopping().load_state_dict({})
