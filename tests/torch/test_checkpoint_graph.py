from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from epochal.torch import FlowBuilder, Graph
from epochal.torch.checkpoint import load_checkpoint, load_subgraph_checkpoint, save_checkpoint
from epochal.torch.checkpoint_peek import checkpoint_info, checkpoint_keys
from epochal.torch.state import load_state, save_state
from epochal.torch.training_state import TrainingState
from tests.torch.models import same, values


def graph(inner: int = 8) -> Graph:
    return (
        FlowBuilder.start(nn.Linear(4, inner))
        .tag("encoder")
        .through(nn.BatchNorm1d(inner))
        .through(nn.Linear(inner, 2))
        .tag("head")
        .build()
    )


@pytest.mark.parametrize("name", ["m.safetensors", "m.fdl.gz"])
def test_a_graph_is_saved_by_its_tags_and_checked_by_its_own_hash(
    tmp_path: Path, name: str
) -> None:
    first, second = graph(), graph()
    save_checkpoint(tmp_path / name, first)
    assert {"encoder/weight", "head/bias"} <= set(checkpoint_keys(tmp_path / name))
    assert checkpoint_info(tmp_path / name).hash == first.structural_hash()
    assert load_checkpoint(tmp_path / name, second).is_complete
    assert same(values(first), values(second))


def test_a_tag_names_the_part_to_fill(tmp_path: Path) -> None:
    part, model = nn.Linear(4, 8), graph()
    save_checkpoint(tmp_path / "encoder", part)
    load_subgraph_checkpoint(model, "encoder", tmp_path / "encoder", freeze=True)
    assert torch.equal(model.qualified_parameters()["encoder/weight"], part.weight)
    assert not model.qualified_parameters()["encoder/weight"].requires_grad


def test_trends_go_on_after_a_resume(tmp_path: Path) -> None:
    first, second = graph(), graph()
    for loss in (3.0, 2.0, 1.0):
        first.record_scalar("loss", loss)
        first.flush()
    save_state(tmp_path, TrainingState(first), step=2)
    assert load_state(tmp_path, TrainingState(second)).left == ()
    assert list(second.trend("loss").values()) == [3.0, 2.0, 1.0]
