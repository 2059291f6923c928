"""Every task trains, and every fault changes what it says it changes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import epochal
from benchmarks.clinic import journal
from benchmarks.clinic.accepted import ACCEPTED
from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.harness import Setup, prepare, train
from benchmarks.clinic.plan import parse, trainings
from benchmarks.clinic.task import Split
from benchmarks.clinic.tasks import TASKS

MODES = (nn.Dropout, nn.modules.batchnorm._BatchNorm)


@pytest.fixture(autouse=True)
def one_thread() -> object:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


def trained(folder: Path, setup: Setup) -> journal.Journal:
    """The journal of a training in this process, without other ranks."""
    setup.task.world = 1  # type: ignore[misc]
    name = f"{setup.task.name}-healthy-{setup.seed}"
    run = epochal.init("clinic", name, dir=folder, console=False, companion=False)
    with run:
        result = train(setup, run)
    return journal.collect(name, Path(run.dir), result)


def faulty(task: str, fault: str) -> tuple[Setup, Setup]:
    """A healthy training and one with a fault."""
    wrong = prepare(TASKS[task], 0)
    FAULTS[fault].apply(wrong)
    return prepare(TASKS[task], 0), wrong


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_task_trains_in_the_same_way_for_a_seed(tmp_path: Path, task: str) -> None:
    first, again = (
        trained(tmp_path / str(number), prepare(TASKS[task], 3, steps=3)) for number in range(2)
    )
    assert math.isfinite(first.result["result"])
    assert first.result == again.result
    losses = [points for name, points in first.series().items() if name.endswith("loss")]
    assert losses
    assert all(points in again.series().values() for points in losses)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_the_properties_that_it_declares(task: str) -> None:
    setup = prepare(TASKS[task], 0)
    if setup.task.has_data and task != "gan":  # a GAN sees noise
        assert setup.train.inputs.is_floating_point() == setup.task.float_inputs
    has_modes = any(isinstance(part, MODES) for part in setup.model.modules())
    assert has_modes == setup.task.has_modes
    if setup.task.first_layer is not None:
        assert setup.model.get_submodule(setup.task.first_layer).bias is not None


def test_there_is_a_place_for_every_fault() -> None:
    assert len(TASKS) <= 24
    assert set(FAULTS) == set(ACCEPTED)
    for fault in FAULTS.values():
        assert sum(fault.fits(task) for task in TASKS.values()) >= 4, fault.name
    fast, full = trainings("fast"), trainings("full")
    assert set(fast) <= set(full)
    assert {one.fault_name for one in fast} == {"healthy", *FAULTS}
    assert all(parse(one.id) == one for one in full)
    assert len(trainings("record")) >= 60
    assert {one.id for one in trainings("fast", ("vae/lr_*",))} <= {one.id for one in fast}


def test_faults_of_the_loop_change_how_it_trains() -> None:
    for name, factor in (("lr_x10", 10), ("lr_x30", 30), ("lr_div100", 0.01)):
        healthy, wrong = faulty("census", name)
        assert wrong.lr == pytest.approx(factor * healthy.lr)
    assert not faulty("census", "missing_zero_grad")[1].zero_grad
    assert faulty("friedman", "sum_loss")[1].sums_loss
    assert not faulty("churn", "eval_in_train_mode")[1].evaluates_in_eval_mode
    healthy, wrong = faulty("char_transformer", "missing_parameters")
    assert [name for name, _ in wrong.trained] == ["head.weight", "head.bias"]


def test_faults_of_the_data_change_the_samples() -> None:
    healthy, wrong = faulty("digits_cnn", "inputs_x255")
    assert equal(wrong.train.inputs, 255 * healthy.train.inputs)
    assert equal(wrong.task.held_out.inputs, wrong.evaluation.inputs)
    healthy, wrong = faulty("housing", "eval_scale")
    assert equal(wrong.evaluation.inputs, 20 * healthy.evaluation.inputs)
    assert same(wrong.train, healthy.train)
    assert same(wrong.task.held_out, healthy.task.held_out)
    healthy, wrong = faulty("census", "labels_shuffled")
    assert not equal(wrong.train.targets, healthy.train.targets)
    assert equal(wrong.train.targets.bincount(), healthy.train.targets.bincount())
    healthy, wrong = faulty("housing", "label_leak")
    assert equal(wrong.train.inputs[:, 0], healthy.train.targets[:, 0])
    assert same(wrong.task.held_out, healthy.task.held_out)
    healthy, wrong = faulty("code_topics", "unshuffled")
    assert not wrong.shuffle
    assert (wrong.train.targets.diff() >= 0).all()
    healthy, wrong = faulty("census", "overfitting")
    assert len(wrong.train) < len(healthy.train) / 50


@pytest.mark.parametrize("task", [n for n, t in TASKS.items() if FAULTS["dead_layer"].fits(t)])
def test_a_dead_layer_has_no_gradient(task: str) -> None:
    _, wrong = faulty(task, "dead_layer")
    inputs, targets = wrong.train.inputs[:16], wrong.train.targets[:16]
    wrong.task.loss(wrong.task.outputs(inputs), targets).backward()  # type: ignore[no-untyped-call]
    assert wrong.task.first_layer is not None
    layer = wrong.model.get_submodule(wrong.task.first_layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.grad is not None
    assert not layer.weight.grad.any()


@pytest.mark.slow
def test_scalars_leave_out_what_watching_gives(tmp_path: Path) -> None:
    kept = trained(tmp_path, prepare(TASKS["census"], 0, steps=40))
    assert any(name.startswith("params/") for name in kept.series())
    assert {record["name"] for _, _, record in kept.entries if record["log"] == "data"} >= {"train"}
    scalars = journal.Journal(kept.id, kept.config, entries=list(kept.scalars()))
    assert not any(name.startswith(("params/", "grads/")) for name in scalars.series())
    assert len(scalars.series()["train/loss"]) == 40
    journal.write(kept, tmp_path)
    assert journal.names(tmp_path) == [kept.id]
    again = journal.read(tmp_path / f"{kept.id}{journal.SUFFIX}")
    assert again.result == kept.result
    assert again.entries == kept.entries


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other)


def same(one: Split, other: Split) -> bool:
    return equal(one.inputs, other.inputs) and equal(one.targets, other.targets)
