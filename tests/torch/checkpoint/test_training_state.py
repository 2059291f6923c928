from __future__ import annotations

import json
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim import lr_scheduler

from epochal import FlowBuilder, TrainingState
from epochal.errors import FormatError, UsageError
from epochal.torch import CosineScheduler, PlateauScheduler, WarmupScheduler, load_checkpoint
from epochal.torch.checkpoint.file import Content, write_checkpoint
from epochal.torch.checkpoint.manifest import CheckpointNotFoundError, pointed
from epochal.torch.checkpoint.training_state import packed, read_state
from tests.torch.checkpoint.models import Net, same, values
from tests.torch.checkpoint.trainings import Training, restore, save

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary())
KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.tuples(st.integers(), st.text()))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner), st.tuples(inner, inner), st.dictionaries(KEYS, inner)),
    max_leaves=12,
)
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.05, total_steps=30),
    "multi step": lambda o: lr_scheduler.MultiStepLR(o, [2, 6, 9]),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)], [5]
    ),
    "ours": lambda o: CosineScheduler(0.05, 0.001, 12).to_torch(o),
    "plateau": lambda o: PlateauScheduler(0.05, 2, 0.5, 1e-4, min_delta=0.01),
    "warm-up": lambda o: WarmupScheduler(CosineScheduler(0.05, 0.0, 12), None, 3).to_torch(o),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "groups": lambda p: torch.optim.RMSprop(
        [{"params": [q], "lr": 0.01 * i} for i, q in enumerate(p, 1)], momentum=0.5
    ),
}
KINDS = [(scheduler, "adamw") for scheduler in SCHEDULERS]
KINDS += [("sequence", optimizer) for optimizer in OPTIMIZERS]


@pytest.mark.parametrize(("scheduler", "optimizer"), KINDS)
def test_a_resumed_training_is_the_uninterrupted_one_to_the_last_bit(
    tmp_path: Path, scheduler: str, optimizer: str
) -> None:
    def make(seed: int = 0) -> Training:
        return Training(seed=seed, scheduler=SCHEDULERS[scheduler], optimizer=OPTIMIZERS[optimizer])

    expected = make().steps(12)
    first = make()
    assert first.steps(5) == expected[:5]
    save(tmp_path, first.state(), 4)
    first.steps(3)
    second = make(seed=99)
    second.steps(2)
    restored = restore(tmp_path, second.state())
    assert restored.next_step == 5
    assert restored.left == ()
    assert second.steps(7) == expected[5:]


def test_the_trends_of_a_graph_go_on(tmp_path: Path) -> None:
    first, second = (FlowBuilder.start(nn.Linear(1, 1)).build() for _ in range(2))
    for loss in (3.0, 2.0, 1.0):
        first.record_scalar("loss", loss)
        first.flush()
    save(tmp_path, TrainingState(first), 2)
    assert restore(tmp_path, TrainingState(second)).left == ()
    assert list(second.trend("loss").values()) == [3.0, 2.0, 1.0]


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
    save(tmp_path, TrainingState(nn.Linear(1, 1), rng=own), 0)
    expected = draw(own)
    other = generators(2)
    restore(tmp_path, TrainingState(nn.Linear(1, 1), rng=other))
    assert draw(other) == expected
    with pytest.raises(UsageError, match=r"rng must hold \['numpy', 'python', 'torch'\]"):
        restore(tmp_path, TrainingState(nn.Linear(1, 1)))


def test_a_checkpoint_is_plain_files(tmp_path: Path) -> None:
    training = Training()
    training.steps(2)
    path = save(tmp_path, training.state(), 1, epoch=0.5, metric=0.25)
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
        save(tmp_path, state, step, metric=metric)
    assert pointed(tmp_path, "latest") == "step-4"
    assert pointed(tmp_path, "best") == "step-1"
    restored = restore(tmp_path, state)
    best = restored.manifest.best
    assert best is not None
    assert (best.step, best.metric) == (1, 1.0)
    assert restore(tmp_path, state, "best").step == 1
    assert restore(tmp_path, state, 3).manifest.metric == 2.0
    assert restore(tmp_path, state, "step-0").step == 0


def test_without_a_manifest_there_is_no_checkpoint(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    save(tmp_path, state, 1)
    save(tmp_path, state, 2)
    (tmp_path / "step-2/manifest.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"latest names step-2, which .*: step-1"):
        restore(tmp_path, state)
    (tmp_path / "latest").unlink()
    assert restore(tmp_path, state).step == 1


@pytest.mark.parametrize("file", ["model", "shared", "rank-0000"])
@pytest.mark.parametrize("fault", ["flip", "cut", "gone", "other"])
def test_a_damaged_checkpoint_changes_nothing(tmp_path: Path, file: str, fault: str) -> None:
    training = Training()
    training.steps(2)
    save(tmp_path, training.state(), 1)
    training.steps(1)
    save(tmp_path, training.state(), 2)
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
        restore(tmp_path, other.state())
    assert other.steps(3) == expected[3:]


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    class Bad:
        def state_dict(self) -> dict[str, Any]:
            return {"open": open}

        def load_state_dict(self, state: Any) -> None: ...

    state = TrainingState(nn.Linear(1, 1), others={"bad": Bad()})
    with pytest.raises(TypeError, match=r"state.others.bad.open is builtin_function_or_method"):
        save(tmp_path, state, 1)
    assert list(tmp_path.iterdir()) == []


def test_another_model_or_part_is_refused_before_anything_changes(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    save(tmp_path, TrainingState(model, optimizer=optimizer), 1)
    with pytest.raises(UsageError, match="another architecture"):
        restore(tmp_path, TrainingState(Net(hidden=9)))
    scaler = torch.amp.GradScaler("cpu")  # type: ignore[attr-defined, unused-ignore]
    other = Net()
    before = values(other)
    with pytest.raises(UsageError, match="no state for scaler: leave it out"):
        restore(tmp_path, TrainingState(other, scaler=scaler))
    wrong = torch.optim.Adam([{"params": [p]} for p in other.parameters()])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        restore(tmp_path, TrainingState(other, optimizer=wrong))
    assert same(before, values(other))


def test_what_has_no_place_here_is_named(tmp_path: Path) -> None:
    save(tmp_path, Training().state(), 1)
    restored = restore(tmp_path, TrainingState(Training().model, rng=Training().rng))
    assert restored.left == ("optimizer", "scheduler", "scaler", "data")


def test_misuse_names_the_argument() -> None:
    with pytest.raises(TypeError, match="model must be"):
        TrainingState([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="optimizer must be an object with state_dict"):
        TrainingState(nn.Linear(1, 1), optimizer=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rng must be an epochal Rng"):
        TrainingState(nn.Linear(1, 1), rng=3)


def test_ranks_without_torch_distributed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"rank 1 of 2.*init_process_group"):
        save(tmp_path, TrainingState(nn.Linear(1, 1)), 1)


def again(value: Any) -> Any:
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder) / "x", packed(value, name="x"))
        return read_state(Path(folder) / "x")


@given(TREES)
def test_any_tree_of_plain_values_comes_back(tree: Any) -> None:
    found = again(tree)
    assert type(found) is type(tree)
    assert repr(found) == repr(tree) or found == tree


def test_tensors_and_arrays_are_kept_apart_under_their_places() -> None:
    tree = {"a": [torch.ones(2, dtype=torch.bfloat16)], 1: np.arange(3), "1": np.float32(0.5)}
    assert sorted(packed(tree, name="x").tensors) == ["x.1", "x.1'", "x.a.0"]
    found = again(tree)
    assert found["a"][0].dtype == torch.bfloat16
    assert found[1].tolist() == [0, 1, 2]
    assert found["1"] == np.float32(0.5)
    assert type(found["1"]) is np.float32


@pytest.mark.parametrize(
    "value",
    [
        Counter({2: 1, 5: 3}),
        torch.Size([2, 3]),
        OrderedDict(a=1),
        {"$tensor": "not one of ours"},
        2**200,
        -0.0,
    ],
)
def test_rarer_kinds_come_back(value: Any) -> None:
    found = again(value)
    assert found == value
    assert repr(found) == repr(value) or isinstance(value, (torch.Size, OrderedDict))


def test_what_needs_code_is_refused_by_its_place() -> None:
    with pytest.raises(TypeError, match=r"x\.a\.1 is function, which a checkpoint cannot hold"):
        packed({"a": [0, lambda: None]}, name="x")
    with pytest.raises(TypeError, match=r"x\.names holds object"):
        packed({"names": np.array([object()])}, name="x")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"$tensor": "nowhere"}',
        '{"$strange": 1}',
        '{"$bytes": "!"}',
        '{"$dict": 3}',
        "[" * 10_000,
        "",
    ],
)
def test_a_damaged_tree_is_an_error(tmp_path: Path, text: str) -> None:
    write_checkpoint(tmp_path / "x", Content({}, tree=text))
    with pytest.raises(FormatError, match="holds no state that can be read"):
        read_state(tmp_path / "x")
