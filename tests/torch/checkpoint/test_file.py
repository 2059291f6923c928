"""The formats of checkpoint files; whatever is wrong with a file, the model stays as it was."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from epochal.errors import FormatError, UsageError
from epochal.torch import load_checkpoint, save_checkpoint
from epochal.torch.structure import structural_hash
from tests.torch.checkpoint.models import Net, same, values

NAMES = ["m.safetensors", "m.safetensors.gz", "m.fdl", "m.fdl.gz", "m"]
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def saved(layout: Any, *, zipped: bool = False) -> bytes:
    stream = io.BytesIO()
    save_checkpoint(
        stream, {"a": torch.ones(2, 3), "b": torch.ones(4)}, None, "ab" * 32, layout=layout
    )
    return gzip.compress(stream.getvalue()) if zipped else stream.getvalue()


def load(data: bytes, **tensors: Tensor) -> None:
    load_checkpoint(io.BytesIO(data), tensors or {"a": torch.zeros(2)})


def table(entries: Any, data: bytes = b"\0" * 8) -> bytes:
    text = (entries if isinstance(entries, str) else json.dumps(entries)).encode()
    return len(text).to_bytes(8, "little") + text + data


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
    assert [path.name for path in tmp_path.iterdir()] == [name]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16),
        *(torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2),
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


def test_the_safetensors_library_opens_our_files_and_we_open_its(tmp_path: Path) -> None:
    model, other = Net().half(), Net().half()
    save_checkpoint(tmp_path / "ours", model)
    assert same(safetensors.torch.load_file(tmp_path / "ours"), values(model))
    with safetensors.safe_open(tmp_path / "ours", "pt") as file:
        assert file.metadata()["structural_hash"] == structural_hash(model)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "theirs")
    assert load_checkpoint(tmp_path / "theirs", other).is_complete
    assert same(values(model), values(other))


@pytest.mark.parametrize("layout", ["safetensors", "fdl"])
def test_any_file_object_will_do(layout: Any) -> None:
    model, other = Net(), Net()
    stream = io.BytesIO()
    save_checkpoint(stream, model, layout=layout)
    stream.seek(0)
    load_checkpoint(stream, other)
    assert same(values(model), values(other))


def test_a_compressed_file_object_is_recognised(tmp_path: Path) -> None:
    model, other = Net(), Net()
    with gzip.open(tmp_path / "anything", "wb") as file:
        save_checkpoint(file, model)
    with open(tmp_path / "anything", "rb") as file:
        load_checkpoint(file, other)
    assert same(values(model), values(other))


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m.fdl", {"a": torch.ones(1)})
    before = (tmp_path / "m.fdl").read_bytes()
    with pytest.raises(UsageError, match=r"'a' is torch.int8: use .safetensors"):
        save_checkpoint(tmp_path / "m.fdl", {"a": torch.ones(1, dtype=torch.int8)})
    assert (tmp_path / "m.fdl").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_equal_models_give_equal_fdl_files(tmp_path: Path) -> None:
    model = Net()
    for name in ("a.fdl.gz", "b.fdl.gz"):
        save_checkpoint(tmp_path / name, model)
    assert (tmp_path / "a.fdl.gz").read_bytes() == (tmp_path / "b.fdl.gz").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_tensors_that_share_memory_or_are_not_contiguous_are_saved_as_they_read(
    tmp_path: Path, name: str
) -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    save_checkpoint(tmp_path / name, {"t": matrix.T, "row": matrix[1], "whole": matrix})
    found = {"t": torch.zeros(3, 2), "row": torch.zeros(3), "whole": torch.zeros(2, 3)}
    load_checkpoint(tmp_path / name, found)
    assert torch.equal(found["t"], matrix.T)
    assert torch.equal(found["row"], matrix[1])
    assert torch.equal(found["whole"], matrix)


@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda name: name != "__metadata__" and name.isprintable()),
        st.lists(st.integers(0, 3), max_size=3),
        max_size=5,
    ),
    st.sampled_from(["safetensors", "fdl"]),
)
def test_any_names_and_shapes_come_back(shapes: dict[str, list[int]], layout: Any) -> None:
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    stream = io.BytesIO()
    save_checkpoint(stream, tensors, layout=layout)
    stream.seek(0)
    found = {name: torch.zeros(shape) for name, shape in shapes.items()}
    assert load_checkpoint(stream, found).is_complete
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("layout", ["safetensors", "fdl"])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("is_file", [False, True])
def test_a_file_cut_at_any_byte_changes_nothing(
    tmp_path: Path, layout: str, zipped: bool, is_file: bool
) -> None:
    complete = saved(layout, zipped=zipped)
    for end in range(0, len(complete), 7):
        a, b = torch.zeros(2, 3), torch.zeros(4)
        (tmp_path / "m").write_bytes(complete[:end])
        source: Any = tmp_path / "m" if is_file else io.BytesIO(complete[:end])
        with pytest.raises(FormatError):
            load_checkpoint(source, {"a": a, "b": b})
        assert not a.any()
        assert not b.any()


@pytest.mark.parametrize(
    "entries",
    [
        {"a": {**F32, "data_offsets": [8, 16]}},
        {"a": F32, "b": F32},
        {"a": {**F32, "data_offsets": [-8, 0]}},
        {"a": {**F32, "shape": [-2]}},
        {"a": {**F32, "shape": [2**62, 2**62]}},
        {"a": {**F32, "shape": [3]}},
        {"a": {**F32, "dtype": "F31"}},
        {"a": {"dtype": "F32"}},
        {"a": 3},
        {"other": {"dtype": "U8", "shape": [2**50], "data_offsets": [0, 2**50]}},
        {"__metadata__": {"x": 1}, "a": F32},
        [],
        "{" * 100,
        "[" * 200_000,
        {"__metadata__": {"shared": "[]"}, "a": F32},
        {"__metadata__": {"shared": "{"}, "a": F32},
    ],
)
def test_a_hostile_table_is_an_error(tmp_path: Path, entries: Any) -> None:
    a = torch.ones(2)
    with pytest.raises(FormatError):
        load(table(entries), a=a)
    (tmp_path / "m").write_bytes(table(entries))
    with pytest.raises(FormatError):
        load_checkpoint(tmp_path / "m", {"a": a})
    assert a.tolist() == [1, 1]


def test_a_table_that_claims_to_be_huge_is_not_allocated() -> None:
    with pytest.raises(FormatError, match="neither a safetensors file"):
        load((2**63 - 1).to_bytes(8, "little") + b"{}")


def fdl(
    *,
    version: int = 2,
    count: int = 1,
    name: bytes = b"a",
    name_size: int | None = None,
    shape: tuple[int, ...] = (2,),
    rank: int | None = None,
    code: int = 3,
    size: int = 8,
    data: bytes = b"\0" * 8,
) -> bytes:
    head = b"FDLC" + struct.pack("<I", version) + bytes(32) + struct.pack("<I", count)
    body = struct.pack("<I", len(name) if name_size is None else name_size) + name
    body += struct.pack("<I", len(shape) if rank is None else rank)
    return head + body + struct.pack(f"<{len(shape)}qBQ", *shape, code, size) + data


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_of_fdl_are_read(version: int) -> None:
    a = torch.ones(2)
    load(fdl(version=version), a=a)
    assert a.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (fdl(version=3), "version 3, and 1 and 2 can be read"),
        (fdl(count=2**32 - 1), "not a complete .fdl file"),
        (fdl(name_size=2**32 - 1), "not a complete .fdl file"),
        (fdl(name=b"\xff"), "not a complete .fdl file"),
        (fdl(rank=2**31), "not a complete .fdl file"),
        (fdl(shape=(-2,)), "impossible shape"),
        (fdl(code=9), "not a complete .fdl file: 9"),
        (fdl(size=2**63), "'a' of 9223372036854775808 bytes"),
        (fdl(shape=(2**40, 2**40)), "impossible shape"),
    ],
)
def test_a_hostile_fdl_file_is_an_error(data: bytes, sentence: str) -> None:
    a = torch.ones(2)
    with pytest.raises(FormatError, match=sentence):
        load(data, a=a)
    assert a.tolist() == [1, 1]


@pytest.mark.parametrize("layout", ["safetensors", "fdl"])
def test_what_follows_the_last_tensor_of_a_file_is_damage(tmp_path: Path, layout: str) -> None:
    (tmp_path / "m").write_bytes(saved(layout) + b"\0")
    with pytest.raises(FormatError):
        load_checkpoint(tmp_path / "m", {"a": torch.zeros(2, 3)})


@given(st.sampled_from([b"", b"FDLC", b"\x1f\x8b"]), st.binary(max_size=200))
def test_noise_is_never_more_than_an_error(opening: bytes, noise: bytes) -> None:
    a = torch.ones(2)
    with pytest.raises(FormatError):
        load(opening + noise, a=a)
    assert a.tolist() == [1, 1]


def test_a_file_that_is_something_else_is_an_error(tmp_path: Path) -> None:
    torch.save(Net().state_dict(), tmp_path / "m.pt")
    with pytest.raises(FormatError, match=r"torch\.load\(path, weights_only=True\)"):
        load_checkpoint(tmp_path / "m.pt", Net())
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "none", Net())
