from __future__ import annotations

from pathlib import Path

import pytest
import torch

from epochal.torch.checkpoint.file import checkpoint_info
from epochal.torch.checkpoint.model_file import load_checkpoint_file, save_checkpoint
from epochal.torch.checkpoint.snapshot import snapshot_cpu
from epochal.torch.structure import structural_hash
from tests.torch.checkpoint.models import Net, Tied, same, values


@pytest.mark.parametrize("name", ["m.safetensors", "m.fdl.gz"])
def test_a_snapshot_is_the_model_of_its_moment(tmp_path: Path, name: str) -> None:
    model, other = Net(), Net()
    before = values(model)
    snapshot = snapshot_cpu(model)
    with torch.no_grad():
        for param in model.parameters():
            param.add_(1)
    snapshot.save_file(tmp_path / name)
    load_checkpoint_file(tmp_path / name, other)
    assert same(values(other), before)


def test_a_snapshot_keeps_the_hash_and_writes_the_same_file(tmp_path: Path) -> None:
    model = Tied()
    snapshot_cpu(model).save_file(tmp_path / "a")
    save_checkpoint(tmp_path / "b", model)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert checkpoint_info(tmp_path / "a").hash == structural_hash(model)


def test_copies_carry_no_gradient_and_shared_tensors_once() -> None:
    copies = snapshot_cpu(Tied()).tensors()
    assert list(copies) == ["embed.weight"]
    assert not copies["embed.weight"].requires_grad
