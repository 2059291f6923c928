"""Rules on what the program does wrong by its own settings."""

from epochal.health.rules.layers import UntrainedParameters
from epochal.health.rules.program import TrainingMode, WeightDecay
from epochal.records import Record
from tests.health.machine_records import event, opened, updated


def absent(count: int, elements: int) -> Record:
    fields = {"of": 8, "elements": elements, "of_elements": 1000, "names": ["body.weight"]}
    return event("parameters-without-gradient", at_step=9, parameters=count, **fields)


def test_parameters_without_gradient_are_a_warning_if_they_are_many() -> None:
    (many,) = opened(UntrainedParameters, [absent(2, 670)])
    assert (many.series, many.severity, many.steps) == ("grads", "warning", (0, 9))
    assert "2 of 8 parameters in the optimizer (body.weight) have got no gradient" in many.sentence
    (few,) = opened(UntrainedParameters, [absent(1, 50)])
    assert few.severity == "info"
    states = [one.state for one in updated(UntrainedParameters, [absent(2, 670), absent(0, 0)])]
    assert states == ["open", "closed"]


def mode(dropouts: int) -> Record:
    fields = {"at_step": 29, "steps": 10, "batchnorms": 0}
    return event("training-in-evaluation-mode", dropouts=dropouts, **fields)


def test_training_in_evaluation_mode_is_a_warning_until_it_ends() -> None:
    (found,) = opened(TrainingMode, [mode(2)])
    assert (found.severity, found.steps) == ("warning", (20, 29))
    assert [one.state for one in updated(TrainingMode, [mode(2), mode(0)])] == ["open", "closed"]


def decay(share: float) -> Record:
    fields = {"lr": 1e-3, "weight_decay": 1000 * share}
    return event("weight-decay", at_step=9, decay=share, **fields)


def test_weight_decay_of_a_percent_a_step_is_a_warning_with_a_right_value() -> None:
    (found,) = opened(WeightDecay, [decay(0.01)])
    assert "takes 1.0 % of each weight at every step (learning rate 0.001" in found.sentence
    assert "after 69 steps" in found.sentence
    assert "by about 100, to 0.1" in found.advice
    assert opened(WeightDecay, [decay(0.003)]) == []
