from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.torch import freeze, is_frozen, unfreeze
from epochal.torch.checkpoint.file import checkpoint_info, checkpoint_keys
from epochal.torch.checkpoint.migrate import migrate_checkpoint
from epochal.torch.checkpoint.model_file import (
    load_checkpoint,
    load_checkpoint_file,
    load_subgraph_checkpoint,
    save_checkpoint,
)
from epochal.torch.checkpoint.state import load_state, save_state
from epochal.torch.checkpoint.training_state import TrainingState
from tests.torch.checkpoint.models import same, values


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


def weight(model: Graph, tag: str) -> torch.Tensor:
    return model.qualified_parameters()[f"{tag}/weight"]


def low_level(model: Graph) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def test_a_file_of_the_low_level_call_fills_a_graph(tmp_path: Path) -> None:
    first, second = graph(), graph()
    save_checkpoint(tmp_path / "m", low_level(first), hash=first.structural_hash())
    report = second.load_checkpoint(tmp_path / "m")
    assert report.is_complete
    assert "encoder/weight" in report.loaded
    assert same(values(first), values(second))


def test_a_graphs_file_fills_what_the_low_level_call_names(tmp_path: Path) -> None:
    first, second = graph(), graph()
    first.save_checkpoint(tmp_path / "m.fdl")
    report = load_checkpoint_file(
        tmp_path / "m.fdl", second.named_parameters(), second.named_buffers()
    )
    assert report.is_complete
    assert "nodes.encoder.weight" in report.loaded
    assert same(values(first), values(second))


def test_a_part_of_a_graph_is_filled_whichever_spelling_its_file_has(tmp_path: Path) -> None:
    body, model = graph(), graph()
    encoder = {n: p for n, p in body.named_parameters() if "encoder" in n}
    save_checkpoint(tmp_path / "encoder", encoder)
    report = model.load_checkpoint(tmp_path / "encoder", hash=None)
    assert report.loaded == ("encoder/weight", "encoder/bias")
    assert torch.equal(weight(model, "encoder"), weight(body, "encoder"))


def test_a_prefix_is_found_in_both_spellings(tmp_path: Path) -> None:
    model, part = graph(), nn.Linear(4, 8)
    save_checkpoint(tmp_path / "named", model.named_parameters())
    model.save_checkpoint(tmp_path / "tagged")
    for name, prefix in [("named", "encoder"), ("tagged", "nodes.encoder")]:
        part.reset_parameters()
        load_checkpoint(tmp_path / name, part, prefix=prefix)
        assert torch.equal(part.weight, weight(model, "encoder"))


def test_a_tag_that_names_a_method_matches_as_well(tmp_path: Path) -> None:
    first = FlowBuilder.start(nn.Linear(2, 2)).tag("forward").build()
    second = FlowBuilder.start(nn.Linear(2, 2)).tag("forward").build()
    save_checkpoint(tmp_path / "m", first.named_parameters())
    assert second.load_checkpoint(tmp_path / "m").is_complete
    assert same(values(first), values(second))


def test_graphs_inside_graphs_match_in_both_spellings(tmp_path: Path) -> None:
    def nested() -> Graph:
        return FlowBuilder.start(graph()).tag("body").through(nn.Linear(2, 1)).tag("end").build()

    first, second = nested(), nested()
    save_checkpoint(tmp_path / "m", low_level(first))
    assert second.load_checkpoint(tmp_path / "m").is_complete
    assert same(values(first), values(second))


def test_a_name_of_a_load_report_can_be_frozen(tmp_path: Path) -> None:
    model = graph()
    model.save_checkpoint(tmp_path / "m")
    report = model.load_checkpoint(tmp_path / "m")
    params = [name for name in report.loaded if name in model.qualified_parameters()]
    for name in params:
        freeze(model, name)
    assert len(params) == 6
    assert is_frozen(model)
    assert unfreeze(model, "encoder") == ("nodes.encoder.weight", "nodes.encoder.bias")


def test_a_checkpoint_moves_between_spellings_by_name_not_by_order(tmp_path: Path) -> None:
    def twins(*tags: str) -> Graph:
        flow = FlowBuilder.start(nn.Linear(2, 2)).tag(tags[0])
        return flow.through(nn.Linear(2, 2)).tag(tags[1]).build()

    old, new = twins("b", "a"), twins("a", "b")
    save_checkpoint(tmp_path / "old", old.named_parameters())
    report = migrate_checkpoint(tmp_path / "old", tmp_path / "new", new)
    assert ("nodes.b.weight", "b/weight") in report.remapped
    new.load_checkpoint(tmp_path / "new")
    assert torch.equal(weight(new, "a"), weight(old, "a"))
