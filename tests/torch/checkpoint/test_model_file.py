from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.errors import UsageError
from epochal.torch import load_checkpoint, load_checkpoint_file, save_checkpoint, snapshot_cpu
from tests.torch.checkpoint.models import Net, Tied, same, values


def test_names_and_tensors_can_be_given_as_pairs() -> None:
    model, other = Net(), Net()
    stream = io.BytesIO()
    save_checkpoint(stream, model.named_parameters(), model.named_buffers(), None)
    stream.seek(0)
    report = load_checkpoint(
        stream, list(other.named_parameters()), dict(other.named_buffers()), None
    )
    assert report.is_complete
    assert "mask" in report.loaded


def test_a_partial_load_reports_what_it_did_in_order(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {n: torch.ones(1) for n in ("z", "b", "a", "y")})
    report = load_checkpoint(tmp_path / "m", {n: torch.zeros(1) for n in ("q", "b", "a", "p")})
    assert report.loaded == ("b", "a")
    assert set(report.skipped) == {"z", "y"}
    assert report.missing == ("q", "p")
    assert str(report) == "2 loaded, 2 skipped, 2 missing"


def test_another_shape_is_an_error_that_names_both(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", Net(hidden=7))
    model = Net()
    before = values(model)
    with pytest.raises(UsageError, match=r"is \[7.* in .* and \[6.* in the model"):
        load_checkpoint(tmp_path / "m", model, hash=None)
    assert same(before, values(model))


def test_numbers_of_another_kind_are_an_error(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"a": torch.zeros(2)})
    with pytest.raises(UsageError, match=r"'a' holds torch.float32 .* torch.int8 in the model"):
        load_checkpoint(tmp_path / "m", {"a": torch.zeros(2, dtype=torch.int8)})


def test_another_precision_is_converted(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"a": torch.tensor([0.5])})
    half = torch.zeros(1, dtype=torch.float16)
    load_checkpoint(tmp_path / "m", {"a": half})
    assert half.item() == 0.5


def test_another_architecture_is_refused_unless_the_hash_is_left_out(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", Net())
    other = nn.ModuleDict({"head": Net().head})
    with pytest.raises(UsageError, match=r"another architecture.*Pass hash=None"):
        load_checkpoint_file(tmp_path / "m", other)
    report = load_checkpoint_file(tmp_path / "m", other, None, None)
    assert report.loaded == ("head.weight", "head.bias")


def test_a_hash_can_be_given_and_must_be_one(tmp_path: Path) -> None:
    tensors = {"a": torch.zeros(1)}
    save_checkpoint(tmp_path / "m", tensors, None, "ab" * 32)
    load_checkpoint(tmp_path / "m", tensors, None, "ab" * 32)
    load_checkpoint(tmp_path / "m", tensors)
    with pytest.raises(UsageError, match="structural hash is abababab"):
        load_checkpoint(tmp_path / "m", tensors, None, "cd" * 32)
    with pytest.raises(UsageError, match="hash must be 64 hex digits"):
        load_checkpoint(tmp_path / "m", tensors, None, "cd")


def test_shared_tensors_are_saved_once(tmp_path: Path) -> None:
    model = Tied()
    save_checkpoint(tmp_path / "m.safetensors", model)
    assert list(safetensors.torch.load_file(tmp_path / "m.safetensors")) == ["embed.weight"]
    other = Tied()
    assert load_checkpoint(tmp_path / "m.safetensors", other).loaded == ("embed.weight",)
    assert same(values(model), values(other))


def test_shared_tensors_fill_both_places_of_a_model_that_does_not_share(tmp_path: Path) -> None:
    model, other = Tied(), Tied(tied=False)
    save_checkpoint(tmp_path / "m.safetensors", model)
    assert load_checkpoint(tmp_path / "m.safetensors", other, hash=None).is_complete
    assert torch.equal(other.out.weight, model.embed.weight)


def test_a_shared_tensor_is_found_under_its_later_name(tmp_path: Path) -> None:
    weight = torch.randn(5, 3)
    safetensors.torch.save_file({"out.weight": weight}, tmp_path / "m.safetensors")
    model = Tied()
    assert load_checkpoint(tmp_path / "m.safetensors", model).loaded == ("embed.weight",)
    assert torch.equal(model.embed.weight, weight)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_models_are_saved_from_inside_their_wrappers(tmp_path: Path) -> None:
    model, other = Net(), Net()
    wrapped: Any = torch.compile(other)
    save_checkpoint(tmp_path / "m", nn.DataParallel(model))
    assert load_checkpoint(tmp_path / "m", wrapped).is_complete
    assert same(values(model), values(other))


def test_a_model_with_names_of_its_own_is_saved_under_them(tmp_path: Path) -> None:
    class Named(nn.Linear):
        def qualified_parameters(self) -> dict[str, torch.Tensor]:
            return {"tag/weight": self.weight, "tag/bias": self.bias}

        def qualified_buffers(self) -> dict[str, torch.Tensor]:
            return {}

    save_checkpoint(tmp_path / "m", Named(2, 3))
    assert load_checkpoint(tmp_path / "m", Named(2, 3)).loaded == ("tag/weight", "tag/bias")


def test_misuse_names_the_argument(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="buffers must be left out"):
        save_checkpoint(tmp_path / "m", Net(), {})
    with pytest.raises(UsageError, match="'weight' has no values yet"):
        save_checkpoint(tmp_path / "m", nn.Linear(1, 1, device="meta"))
    with pytest.raises(UsageError, match="sparse"):
        save_checkpoint(tmp_path / "m", {"a": torch.eye(2).to_sparse()})


def test_a_file_with_no_name_of_the_model_is_an_error_that_names_both_sides(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"enc.0.weight": torch.zeros(6, 4), "other": torch.zeros(1)})
    model = Net()
    before = values(model)
    with pytest.raises(UsageError, match=r"has 'enc.0.weight' and the model has 'encoder.0.wei"):
        load_checkpoint(tmp_path / "m", model)
    assert same(before, values(model))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {})
    with pytest.raises(UsageError, match="The file has no tensors"):
        load_checkpoint(tmp_path / "m", Net())


def test_the_same_text_comes_before_another_spelling(tmp_path: Path) -> None:
    held = {
        "nodes.weight": torch.full((1, 1), 1.0),
        "weight": torch.full((1, 1), 2.0),
        "bias": torch.zeros(1),
    }
    save_checkpoint(tmp_path / "m.fdl", held)
    model = nn.Linear(1, 1)
    load_checkpoint(tmp_path / "m.fdl", model)
    assert model.weight.item() == 2.0


@pytest.mark.parametrize("name", ["m.safetensors", "m.fdl.gz"])
def test_a_snapshot_is_the_model_of_its_moment(tmp_path: Path, name: str) -> None:
    model, other = Tied(), Tied()
    before = values(model)
    snapshot = snapshot_cpu(model)
    with torch.no_grad():
        model.embed.weight.add_(1)
    snapshot.save_file(tmp_path / name)
    load_checkpoint_file(tmp_path / name, other)
    assert same(values(other), before)
    assert list(snapshot.tensors()) == ["embed.weight"]
    assert not snapshot.tensors()["embed.weight"].requires_grad


def graph(inner: int = 8) -> Graph:
    return (
        FlowBuilder.start(nn.Linear(4, inner))
        .tag("encoder")
        .through(nn.BatchNorm1d(inner))
        .through(nn.Linear(inner, 2))
        .tag("head")
        .build()
    )


def nested() -> Graph:
    return FlowBuilder.start(graph()).tag("body").through(nn.Linear(2, 1)).tag("end").build()


@pytest.mark.parametrize("make", [graph, nested])
def test_a_graphs_names_match_in_both_spellings(tmp_path: Path, make: Any) -> None:
    first, second, third = make(), make(), make()
    named = {**dict(first.named_parameters()), **dict(first.named_buffers())}
    save_checkpoint(tmp_path / "named", named, hash=first.structural_hash())
    assert second.load_checkpoint(tmp_path / "named").is_complete
    assert same(values(first), values(second))
    first.save_checkpoint(tmp_path / "tagged.fdl")
    report = load_checkpoint(
        tmp_path / "tagged.fdl", third.named_parameters(), third.named_buffers()
    )
    assert report.is_complete
    assert same(values(first), values(third))


def test_a_part_of_a_graph_is_filled_whichever_spelling_its_file_has(tmp_path: Path) -> None:
    body, model = graph(), graph()
    encoder = {n: p for n, p in body.named_parameters() if "encoder" in n}
    save_checkpoint(tmp_path / "encoder", encoder)
    report = model.load_checkpoint(tmp_path / "encoder", hash=None)
    assert report.loaded == ("encoder/weight", "encoder/bias")
    weights = [g.qualified_parameters()["encoder/weight"] for g in (model, body)]
    assert torch.equal(*weights)
