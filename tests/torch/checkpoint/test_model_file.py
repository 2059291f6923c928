from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.model_file import (
    checkpoint_config,
    load_checkpoint,
    load_checkpoint_file,
    load_subgraph_checkpoint,
    save_checkpoint,
)
from epochal.torch.structure import structural_hash
from tests.torch.checkpoint.models import Net, Tied, same, values

NAMES = [
    "m.safetensors",
    "m.safetensors.gz",
    "m.safetensors.zst",
    "m.fdl",
    "m.fdl.gz",
    "m.fdl.zst",
    "m",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_saved_comes_back(tmp_path: Path, name: str) -> None:
    model, other = Net(), Net()
    save_checkpoint(tmp_path / name, model)
    report = load_checkpoint(tmp_path / name, other)
    assert same(values(model), values(other))
    assert report.is_complete
    assert report.loaded == (
        *(name for name, _ in model.named_parameters()),
        *(name for name, _ in model.named_buffers() if name != "mask"),
    )


@pytest.mark.parametrize("name", NAMES)
def test_only_the_file_itself_is_left_in_the_folder(tmp_path: Path, name: str) -> None:
    save_checkpoint(tmp_path / name, Net())
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.uint16,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
def test_dtypes_stay_what_they_are(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 0, 3]).to(dtype)
    scalar, empty = torch.tensor(1).to(dtype), torch.zeros(0, 3).to(dtype)
    save_checkpoint(tmp_path / "t.safetensors", {"a": tensor, "b": scalar, "c": empty})
    found = {"a": torch.zeros(4).to(dtype), "b": torch.zeros(()).to(dtype), "c": empty.clone()}
    load_checkpoint(tmp_path / "t.safetensors", found)
    assert found["a"].view(torch.uint8).tolist() == tensor.view(torch.uint8).tolist()
    assert found["b"] == scalar


def test_the_safetensors_package_opens_our_files(tmp_path: Path) -> None:
    model = Net().half()
    save_checkpoint(tmp_path / "m.safetensors", model)
    assert same(safetensors.torch.load_file(tmp_path / "m.safetensors"), values(model))
    with safetensors.safe_open(tmp_path / "m.safetensors", "pt") as file:
        assert file.metadata()["structural_hash"] == structural_hash(model)


def test_we_open_files_of_the_safetensors_package(tmp_path: Path) -> None:
    model, other = Net(), Net()
    safetensors.torch.save_file(model.state_dict(), tmp_path / "m.safetensors")
    assert load_checkpoint(tmp_path / "m.safetensors", other).is_complete
    assert same(values(model), values(other))


def test_any_file_object_will_do_and_others_may_follow_in_it() -> None:
    first, second, other = Net(), Net(), Net()
    stream = io.BytesIO()
    save_checkpoint(stream, first)
    save_checkpoint(stream, second, layout="fdl")
    stream.seek(0)
    load_checkpoint(stream, other)
    assert same(values(first), values(other))
    load_checkpoint(stream, other)
    assert same(values(second), values(other))


def test_a_compressed_file_object_is_recognised(tmp_path: Path) -> None:
    model, other = Net(), Net()
    with gzip.open(tmp_path / "anything", "wb") as file:
        save_checkpoint(file, model)
    with open(tmp_path / "anything", "rb") as file:
        load_checkpoint(file, other)
    assert same(values(model), values(other))


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
    assert report.skipped == ("z", "y")
    assert report.missing == ("q", "p")
    assert str(report) == "2 loaded, 2 skipped, 2 missing"


def test_what_was_loaded_can_be_frozen(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", Net().encoder)
    model = Net()
    load_subgraph_checkpoint(model, "encoder", tmp_path / "m", freeze=True)
    trained = [name for name, param in model.named_parameters() if param.requires_grad]
    assert trained == ["head.weight", "head.bias"]


def test_another_shape_is_an_error_that_names_both(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", Net(hidden=7))
    model = Net()
    before = values(model)
    with pytest.raises(UsageError, match=r"'encoder.0.weight' is \[7, 4\] in .* and \[6, 4\] in"):
        load_checkpoint(tmp_path / "m", model, hash=None)
    assert same(before, values(model))


def test_numbers_of_another_kind_are_an_error(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"a": torch.zeros(2)})
    with pytest.raises(UsageError, match=r"'a' holds F32 .* torch.int8 in the model"):
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


def test_a_part_is_filled_from_a_file_of_the_whole(tmp_path: Path) -> None:
    model, other = Net(), Net()
    save_checkpoint(tmp_path / "m", model)
    before = other.head.weight.clone()
    report = load_checkpoint(tmp_path / "m", other.encoder, prefix="encoder")
    assert report.is_complete
    assert same(values(model.encoder), values(other.encoder))
    assert torch.equal(before, other.head.weight)
    with pytest.raises(UsageError, match="prefix='decoder'"):
        load_checkpoint(tmp_path / "m", other.encoder, prefix="decoder")


def test_a_part_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"'encodr' names no part of the model; did you mean 'encoder'"
    ):
        load_subgraph_checkpoint(Net(), "encodr", tmp_path / "m")


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


def test_a_configuration_lies_beside_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "model.v2.fdl.gz"
    assert checkpoint_config(path) is None
    save_checkpoint(path, Net(), config={"hidden": 6})
    assert (tmp_path / "model.v2.config.json").exists()
    assert checkpoint_config(path) == {"hidden": 6}
    with pytest.raises(UsageError, match="config needs a path"):
        save_checkpoint(io.BytesIO(), Net(), config={})


def test_a_file_can_be_protected(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", Net())
    with pytest.raises(UsageError, match="exists already: pass overwrite=True"):
        save_checkpoint(tmp_path / "m", Net(), overwrite=False)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m.fdl", {"a": torch.ones(1)})
    before = (tmp_path / "m.fdl").read_bytes()
    with pytest.raises(UsageError, match=r"'a' is torch.int8, which an .fdl file cannot hold"):
        save_checkpoint(tmp_path / "m.fdl", {"a": torch.ones(1, dtype=torch.int8)})
    assert (tmp_path / "m.fdl").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    model = Net()
    for name in ("a.gz", "b.gz"):
        save_checkpoint(tmp_path / name, model)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_tensors_that_are_not_in_one_piece_are_saved_as_they_read(tmp_path: Path) -> None:
    whole = torch.arange(6.0).reshape(2, 3)
    save_checkpoint(tmp_path / "m", {"t": whole.T, "row": whole[1]})
    found = {"t": torch.zeros(3, 2), "row": torch.zeros(3)}
    load_checkpoint(tmp_path / "m", found)
    assert torch.equal(found["t"], whole.T)
    assert torch.equal(found["row"], whole[1])


def test_misuse_names_the_argument(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"got PosixPath; the file comes first"):
        save_checkpoint(Net(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"destination must be a path .* the model comes second"):
        save_checkpoint(Net(), Net())
    with pytest.raises(TypeError, match="source must be a path"):
        load_checkpoint(3, Net())
    with pytest.raises(TypeError, match="path must be a path"):
        load_checkpoint_file(io.BytesIO(), Net())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="buffers must be left out"):
        save_checkpoint(tmp_path / "m", Net(), {})
    with pytest.raises(TypeError, match="named must hold pairs"):
        save_checkpoint(tmp_path / "m", [torch.ones(1)])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="'weight' has no values yet"):
        save_checkpoint(tmp_path / "m", nn.Linear(1, 1, device="meta"))
    with pytest.raises(UsageError, match="sparse"):
        save_checkpoint(tmp_path / "m", {"a": torch.eye(2).to_sparse()})


def test_a_file_that_is_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"RIFF not a checkpoint at all, but a sound")
    with pytest.raises(FormatError, match="not a whole safetensors file"):
        load_checkpoint(tmp_path / "m", Net())
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "none", Net())


def test_a_file_with_no_name_of_the_model_is_an_error_that_names_both_sides(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"enc.0.weight": torch.zeros(6, 4), "other": torch.zeros(1)})
    model = Net()
    before = values(model)
    with pytest.raises(UsageError, match=r"has 'enc.0.weight' where the model has 'encoder.0.wei"):
        load_checkpoint(tmp_path / "m", model)
    assert same(before, values(model))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {})
    with pytest.raises(UsageError, match="holds no tensors"):
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


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_save_is_called_what_it_is(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "m.pt"
    torch.save(Net().state_dict(), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(FormatError, match=r"m\.pt is a file of torch\.save.*weights_only=True"):
        load_checkpoint(path, Net())
