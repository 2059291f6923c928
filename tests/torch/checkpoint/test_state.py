from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.optim import lr_scheduler

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.loss_picture import LossHistory
from epochal.torch.checkpoint.manifest import CheckpointNotFoundError, pointed, read_manifest
from epochal.torch.checkpoint.model_file import load_checkpoint
from epochal.torch.checkpoint.state import load_state, save_state
from epochal.torch.checkpoint.training_state import TrainingState
from epochal.torch.schedule.formulas import CosineScheduler
from epochal.torch.schedule.plateau import PlateauScheduler
from epochal.torch.worker import CpuWorker
from tests.conftest import StartRun
from tests.torch.checkpoint.models import Net, same, values
from tests.torch.checkpoint.trainings import Training

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.05, total_steps=30),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "multi step": lambda o: lr_scheduler.MultiStepLR(o, [2, 6, 9]),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.1, 4, cycle_momentum=False),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)], [5]
    ),
    "ours": lambda o: CosineScheduler(0.05, 0.001, 12).to_torch(o),
    "plateau": lambda o: PlateauScheduler(0.05, 2, 0.5, 1e-4, min_delta=0.01),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "rprop": lambda p: torch.optim.Rprop(p),
    "groups": lambda p: torch.optim.RMSprop(
        [{"params": [q], "lr": 0.01 * i} for i, q in enumerate(p, 1)], momentum=0.5
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_resumed_training_is_the_uninterrupted_one_to_the_last_bit(
    tmp_path: Path, name: str
) -> None:
    expected = Training(scheduler=SCHEDULERS[name]).steps(12)
    first = Training(scheduler=SCHEDULERS[name])
    assert first.steps(5) == expected[:5]
    save_state(tmp_path, first.state(), step=4)
    first.steps(3)
    second = Training(seed=99, scheduler=SCHEDULERS[name])
    second.steps(2)
    restored = load_state(tmp_path, second.state())
    assert restored.next_step == 5
    assert restored.left == ()
    assert second.steps(7) == expected[5:]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_same_with_other_optimizers(tmp_path: Path, name: str) -> None:
    def make(seed: int) -> Training:
        return Training(
            seed=seed,
            optimizer=OPTIMIZERS[name],
            scheduler=lambda o: lr_scheduler.ExponentialLR(o, 0.95),
        )

    expected = make(0).steps(9)
    first = make(0)
    first.steps(4)
    save_state(tmp_path, first.state(), step=3)
    second = make(7)
    load_state(tmp_path, second.state())
    assert second.steps(5) == expected[4:]


def test_a_save_in_the_background_is_of_its_moment(tmp_path: Path) -> None:
    expected = Training().steps(9)
    training = Training()
    training.steps(4)
    with CpuWorker() as worker:
        save_state(tmp_path, training.state(), step=3, worker=worker)
        training.steps(3)
    other = Training(seed=3)
    load_state(tmp_path, other.state())
    assert other.steps(5) == expected[4:]


def test_generators_of_ones_own_go_on(tmp_path: Path) -> None:
    def generators(seed: int) -> dict[str, Any]:
        return {
            "python": random.Random(seed),
            "numpy": np.random.default_rng(seed),
            "torch": torch.Generator().manual_seed(seed),
        }

    def draw(rng: dict[str, Any]) -> list[float]:
        drawn = torch.rand(1, generator=rng["torch"]).item()
        return [rng["python"].random(), rng["numpy"].random(), drawn]

    own = generators(1)
    draw(own)
    save_state(tmp_path, TrainingState(nn.Linear(1, 1), rng=own), step=0)
    expected = draw(own)
    other = generators(2)
    load_state(tmp_path, TrainingState(nn.Linear(1, 1), rng=other))
    assert draw(other) == expected
    with pytest.raises(UsageError, match=r"rng must hold \['numpy', 'python', 'torch'\]"):
        load_state(tmp_path, TrainingState(nn.Linear(1, 1)))


def test_a_checkpoint_is_plain_files(tmp_path: Path) -> None:
    training = Training()
    training.steps(2)
    path = save_state(tmp_path, training.state(), step=1, epoch=0.5, metric=0.25)
    assert path == tmp_path / "step-1"
    assert sorted(p.name for p in path.iterdir()) == [
        "manifest.json",
        "model.safetensors",
        "rank-0000.safetensors",
        "shared.safetensors",
    ]
    assert (tmp_path / "latest").read_text() == (tmp_path / "best").read_text() == "step-1\n"
    assert same(safetensors.torch.load_file(path / "model.safetensors"), values(training.model))
    body = json.loads((path / "manifest.json").read_text())
    assert (body["step"], body["epoch"], body["metric"]) == (1, 0.5, 0.25)
    other = Training(seed=5)
    assert load_checkpoint(path / "model.safetensors", other.model).is_complete


def test_best_names_the_best_and_latest_the_latest(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    for step, metric in enumerate([3.0, 1.0, float("nan"), 2.0, 1.0]):
        save_state(tmp_path, state, step=step, metric=metric)
    assert pointed(tmp_path, "latest") == "step-4"
    assert pointed(tmp_path, "best") == "step-1"
    restored = load_state(tmp_path, state)
    assert restored.best is not None
    assert (restored.best.step, restored.best.metric) == (1, 1.0)
    assert load_state(tmp_path, state, which="best").step == 1
    assert load_state(tmp_path, state, which=3).metric == 2.0
    assert load_state(tmp_path, state, which="step-0").step == 0


def test_larger_can_be_better(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    for step, metric in enumerate([0.5, 0.9, 0.7]):
        save_state(tmp_path, state, step=step, metric=metric, mode="max")
    assert pointed(tmp_path, "best") == "step-1"


def test_an_existing_checkpoint_is_not_overwritten_unless_told(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    save_state(tmp_path, TrainingState(model), step=1)
    before = (tmp_path / "step-1/manifest.json").read_bytes()
    with pytest.raises(UsageError, match=r"step-1 exists already: pass overwrite=True"):
        save_state(tmp_path, TrainingState(model), step=1)
    assert (tmp_path / "step-1/manifest.json").read_bytes() == before
    save_state(tmp_path, TrainingState(model), step=1, kind="epoch", overwrite=True)
    assert read_manifest(tmp_path / "step-1").kind == "epoch"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["latest", "step-1"]


def test_without_a_manifest_there_is_no_checkpoint(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    save_state(tmp_path, state, step=1)
    save_state(tmp_path, state, step=2)
    (tmp_path / "step-2/manifest.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"latest, which names step-2,.*: step-1"):
        load_state(tmp_path, state)
    (tmp_path / "latest").unlink()
    assert load_state(tmp_path, state).step == 1


@pytest.mark.parametrize("file", ["model", "shared", "rank-0000"])
@pytest.mark.parametrize("fault", ["flip", "cut", "gone", "other"])
def test_a_damaged_checkpoint_changes_nothing(tmp_path: Path, file: str, fault: str) -> None:
    training = Training()
    training.steps(2)
    save_state(tmp_path, training.state(), step=1)
    training.steps(1)
    save_state(tmp_path, training.state(), step=2)
    path = tmp_path / "step-2" / f"{file}.safetensors"
    whole = path.read_bytes()
    if fault == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {
                "flip": whole[:-1] + bytes([whole[-1] ^ 1]),
                "cut": whole[:-1],
                "other": (tmp_path / "step-1" / f"{file}.safetensors").read_bytes(),
            }[fault]
        )
    twin = Training()
    expected = twin.steps(6)
    other = Training()
    other.steps(3)
    with pytest.raises(FormatError, match=r"step-2 is damaged.*Others in this folder: step-1"):
        load_state(tmp_path, other.state())
    assert other.steps(3) == expected[3:]


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    class Bad:
        def state_dict(self) -> dict[str, Any]:
            return {"open": open}

        def load_state_dict(self, state: Any) -> None: ...

    state = TrainingState(nn.Linear(1, 1), others={"bad": Bad()})
    with pytest.raises(TypeError, match=r"state.others.bad.open is builtin_function_or_method"):
        save_state(tmp_path, state, step=1)
    assert list(tmp_path.iterdir()) == []


def test_another_model_or_part_is_refused_before_anything_changes(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    save_state(tmp_path, TrainingState(model, optimizer=optimizer), step=1)
    with pytest.raises(UsageError, match="another architecture"):
        load_state(tmp_path, TrainingState(Net(hidden=9)))
    scaler = torch.amp.GradScaler("cpu")  # type: ignore[attr-defined, unused-ignore]
    other = Net()
    before = values(other)
    with pytest.raises(UsageError, match="no state for scaler: leave it out"):
        load_state(tmp_path, TrainingState(other, scaler=scaler))
    wrong = torch.optim.Adam([{"params": [p]} for p in other.parameters()])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        load_state(tmp_path, TrainingState(other, optimizer=wrong))
    assert same(before, values(other))


def test_what_has_no_place_here_is_named(tmp_path: Path) -> None:
    save_state(tmp_path, Training().state(), step=1)
    restored = load_state(tmp_path, TrainingState(Training().model, rng=Training().rng))
    assert restored.left == ("optimizer", "scheduler", "scaler", "data")


def test_changed_hyperparameters_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = TrainingState(nn.Linear(1, 1))
    save_state(tmp_path, state, step=1, config={"lr": 0.1, "data": {"size": 3}, "old": 1})
    restored = load_state(tmp_path, state, config={"lr": 0.2, "data": {"size": 3}, "new": 2})
    assert [str(drift) for drift in restored.drift] == [
        "lr: 0.1 → 0.2",
        "new: (absent) → 2",
        "old: 1 → (absent)",
    ]
    assert "changed since step-1 was saved:\n  lr: 0.1 → 0.2" in capsys.readouterr().err
    load_state(tmp_path, state)
    assert capsys.readouterr().err == ""


def test_a_run_gives_its_identity_and_records_the_save(tmp_path: Path, start_run: StartRun) -> None:
    run = start_run(config={"lr": 0.1})
    run.log({"loss": 1.0}, step=7)
    state = TrainingState(nn.Linear(1, 1))
    path = save_state(
        tmp_path, state, step=7, metric=0.5, run=run, external={"wandb": "abc"}, kind="epoch"
    )
    restored = load_state(tmp_path, state, run=run)
    assert (restored.run_id, restored.attempt) == (run.id, 1)
    assert restored.external == {"wandb": "abc"}
    assert restored.config == {"lr": 0.1}
    lines = [json.loads(line) for line in _journal(run.dir)]
    event = next(line for line in lines if line["log"] == "event")
    assert event["name"] == "checkpoint"
    assert (event["step"], event["kind"], event["metric"]) == (7, "epoch", 0.5)
    assert event["path"] == str(path)
    assert event["is_best"] is True


def _journal(folder: Path) -> list[str]:
    return [
        line
        for file in (folder / "journal").glob("loop*")
        for line in file.read_text().splitlines()
    ]


def test_a_picture_of_the_loss_lies_in_every_checkpoint(tmp_path: Path) -> None:
    losses = LossHistory()
    paths = []
    for step in range(5):
        losses.add(step, torch.tensor(1 / (step + 1)))
        state = TrainingState(nn.Linear(1, 1))
        paths.append(save_state(tmp_path, state, step=step, losses=losses))
    pictures = [(path / "loss.svg").read_text() for path in paths]
    assert all(picture.startswith("<svg") for picture in pictures)
    assert len(set(pictures)) == 5
    found = LossHistory()
    load_state(tmp_path, TrainingState(nn.Linear(1, 1)), losses=found)
    assert found.buckets() == losses.buckets()


def test_a_graph_keeps_its_observations(tmp_path: Path) -> None:
    class Observing(nn.Linear):
        seen = 0

        def observation_state(self) -> dict[str, Any]:
            return {"seen": self.seen}

        def restore_observation(self, state: dict[str, Any]) -> None:
            self.seen = state["seen"]

    model, other = Observing(1, 1), Observing(1, 1)
    model.seen = 3
    save_state(tmp_path, TrainingState(model), step=1)
    assert load_state(tmp_path, TrainingState(other)).left == ()
    assert other.seen == 3


def test_misuse_names_the_argument(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    with pytest.raises(TypeError, match="model must be"):
        TrainingState([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="optimizer must have state_dict"):
        TrainingState(nn.Linear(1, 1), optimizer=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rng must be an epochal Rng"):
        TrainingState(nn.Linear(1, 1), rng=3)
    with pytest.raises(UsageError, match="kind must be one of rolling, epoch, emergency"):
        save_state(tmp_path, state, step=1, kind="best")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="step must be a whole number"):
        save_state(tmp_path, state, step=-1)
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint \.\./x; there are: none"):
        load_state(tmp_path, state, which="../x")


def test_ranks_without_torch_distributed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"rank 1 of 2.*init_process_group"):
        save_state(tmp_path, TrainingState(nn.Linear(1, 1)), step=1)
