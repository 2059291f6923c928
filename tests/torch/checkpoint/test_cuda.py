"""What only a GPU can show of checkpoints: copies do not wait, and its generators go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from epochal import Checkpoints, TrainingState
from epochal.torch import load_checkpoint, save_checkpoint, snapshot_cpu
from tests.torch.checkpoint.models import Net, same, values
from tests.torch.checkpoint.trainings import restore

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def on_cpu(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu() for name, tensor in values(model).items()}


def test_a_model_moves_between_devices(tmp_path: Path) -> None:
    model, other = Net().cuda(), Net()
    save_checkpoint(tmp_path / "m", model)
    load_checkpoint(tmp_path / "m", other)
    assert same(on_cpu(model), values(other))
    third = Net().cuda()
    load_checkpoint(tmp_path / "m", third)
    assert same(on_cpu(model), on_cpu(third))


def test_a_snapshot_waits_for_nothing_and_is_of_its_moment(tmp_path: Path) -> None:
    model = nn.Linear(4096, 4096).cuda()
    before = on_cpu(model)
    snapshot_cpu(model)  # the first one allocates pinned memory
    torch.cuda.synchronize()
    cuda: Any = torch.cuda
    cuda._sleep(200_000_000)
    busy = cuda.Event()
    busy.record()
    snapshot = snapshot_cpu(model)
    assert not busy.query()
    with torch.no_grad():
        model.weight.zero_()
    assert snapshot._copies._tensors["weight"].is_pinned()
    snapshot.save_file(tmp_path / "m")
    other = nn.Linear(4096, 4096)
    load_checkpoint(tmp_path / "m", other)
    assert same(values(other), before)


def test_a_training_on_a_gpu_resumes(tmp_path: Path) -> None:
    def make(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).cuda()
        return model, torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 4, device="cuda")).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [float(loss) for loss in losses]

    expected = train(*make(0), 8)
    model, optimizer = make(0)
    train(model, optimizer, 3)
    state = TrainingState(model, optimizer=optimizer)
    with Checkpoints(tmp_path, state) as checkpoints:
        checkpoints.save(2)
        train(model, optimizer, 2)
    other, other_optimizer = make(1)
    restore(tmp_path, TrainingState(other, optimizer=other_optimizer))
    assert train(other, other_optimizer, 5) == expected[3:]
