"""The unseen tasks are a set of their own, and every fault that fits can train on them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from torch import nn

from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.harness import prepare
from benchmarks.clinic.plan import parse, trainings
from benchmarks.clinic.tasks import TASKS, UNSEEN

MODES = (nn.Dropout, nn.modules.batchnorm._BatchNorm)


def test_the_sets_of_tasks_are_separate() -> None:
    full = trainings("full", (), "unseen")
    assert not set(TASKS) & set(UNSEEN)
    assert {one.task_name for one in full} == set(UNSEEN)
    assert {one.task_name for one in trainings("full")} == set(TASKS)
    assert {one.fault_name for one in full} == {"healthy", *FAULTS}
    assert all(parse(one.id) == one for one in full)
    assert sum(one.task.steps for one in full if one.fault is None) >= 40_000


@pytest.mark.parametrize("task", UNSEEN)
def test_an_unseen_task_has_the_properties_that_it_declares(task: str) -> None:
    setup = prepare(UNSEEN[task], 0)
    assert setup.train.inputs.is_floating_point() == setup.task.float_inputs
    assert setup.task.has_modes == any(isinstance(one, MODES) for one in setup.model.modules())
    if setup.task.first_layer is not None:
        FAULTS["dead_layer"].apply(setup)
        inputs, targets = setup.train.inputs[:16], setup.train.targets[:16]
        setup.task.loss(setup.task.outputs(inputs), targets).backward()  # type: ignore[no-untyped-call]
        layer = setup.model.get_submodule(setup.task.first_layer)
        assert isinstance(layer.weight, nn.Parameter)
        assert layer.weight.grad is not None
        assert not layer.weight.grad.any()
