from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch import nn

from epochal.torch.checkpoint.file import checkpoint_info, checkpoint_keys, checkpoint_version
from epochal.torch.checkpoint.migrate import migrate_checkpoint
from epochal.torch.checkpoint.model_file import load_checkpoint, save_checkpoint
from epochal.torch.structure import structural_hash
from tests.torch.checkpoint.models import Net, Tied
from tests.torch.checkpoint.test_file_damage import fdl


def test_the_header_says_what_a_checkpoint_is(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m.safetensors.zst", Tied())
    info = checkpoint_info(tmp_path / "m.safetensors.zst")
    assert (info.layout, info.version) == ("safetensors", 1)
    assert info.hash == structural_hash(Tied())
    assert [(e.name, e.dtype, e.shape) for e in info.entries] == [
        ("embed.weight", torch.float32, (5, 3))
    ]
    assert info.shared == {"out.weight": "embed.weight"}


@pytest.mark.parametrize("version", [1, 2])
def test_the_version_of_an_fdl_file_can_be_peeked_at(version: int) -> None:
    assert checkpoint_version(io.BytesIO(fdl(version=version))) == version


def test_keys_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m.fdl", nn.Linear(2, 3))
    assert checkpoint_keys(tmp_path / "m.fdl") == ("weight", "bias")


def test_a_checkpoint_moves_to_new_names(tmp_path: Path) -> None:
    old = {
        "linear_1/weight": torch.randn(3, 2),
        "linear_1/bias": torch.randn(3),
        "gone": torch.ones(9),
    }
    save_checkpoint(tmp_path / "old.fdl", old)
    new = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    report = migrate_checkpoint(tmp_path / "old.fdl", tmp_path / "new.safetensors", new)
    assert report.unchanged == ()
    assert report.remapped == (("linear_1/weight", "0.weight"), ("linear_1/bias", "0.bias"))
    assert report.dropped == ("gone",)
    assert report.missing == ("1.weight", "1.bias")
    assert not report.is_complete
    assert load_checkpoint(tmp_path / "new.safetensors", new).missing == ("1.weight", "1.bias")
    assert torch.equal(new.state_dict()["0.weight"], old["linear_1/weight"])


def test_names_that_still_fit_stay_and_a_file_can_be_replaced(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m.safetensors", Net())
    report = migrate_checkpoint(tmp_path / "m.safetensors", tmp_path / "m.safetensors", Net())
    assert report.is_complete
    assert len(report.unchanged) == 9
    assert load_checkpoint(tmp_path / "m.safetensors", Net()).is_complete
