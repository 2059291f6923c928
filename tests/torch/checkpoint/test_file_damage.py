"""Whatever is wrong with a file: a sentence, and the model as it was."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.model_file import load_checkpoint, save_checkpoint

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def saved(layout: Any, suffix: str = "") -> bytes:
    stream = io.BytesIO()
    save_checkpoint(
        stream, {"a": torch.ones(2, 3), "b": torch.ones(4)}, None, "ab" * 32, layout=layout
    )
    if suffix == "gz":
        import gzip

        return gzip.compress(stream.getvalue())
    if suffix == "zst":
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=True).compress(stream.getvalue())
    return stream.getvalue()


def load(data: bytes, **tensors: Tensor) -> None:
    load_checkpoint(io.BytesIO(data), tensors or {"a": torch.zeros(2)})


def table(entries: Any, data: bytes = b"\0" * 8) -> bytes:
    text = (entries if isinstance(entries, str) else json.dumps(entries)).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize("layout", ["safetensors", "fdl"])
@pytest.mark.parametrize("suffix", ["", "gz", "zst"])
def test_a_file_cut_at_any_byte_changes_nothing(layout: str, suffix: str) -> None:
    whole = saved(layout, suffix)
    # zstandard does not miss the four bytes of its own checksum; what it yields is whole then.
    for end in range(len(whole) - (4 if suffix == "zst" else 0)):
        a, b = torch.zeros(2, 3), torch.zeros(4)
        with pytest.raises(FormatError):
            load(whole[:end], a=a, b=b)
        assert not a.any()
        assert not b.any()


def test_every_flipped_bit_of_a_safetensors_file_is_noticed() -> None:
    whole = saved("safetensors")
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            a, b = torch.zeros(2, 3), torch.zeros(4)
            with pytest.raises((FormatError, UsageError)):
                load(bytes(damaged), a=a, b=b)
            assert not a.any()
            assert not b.any()


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"a": {**F32, "data_offsets": [8, 16]}}, "overlap others or leave a gap"),
        ({"a": F32, "b": F32}, "overlap"),
        ({"a": {**F32, "data_offsets": [-8, 0]}}, "impossible shape or place"),
        ({"a": {**F32, "shape": [-2]}}, "impossible shape or place"),
        ({"a": {**F32, "shape": [True, 2]}}, "impossible shape or place"),
        ({"a": {**F32, "shape": [2.0]}}, "impossible shape or place"),
        ({"a": {**F32, "shape": [1] * 100 + [2]}}, "impossible shape or place"),
        ({"a": {**F32, "shape": [2**62, 2**62]}}, "takes 8 bytes"),
        ({"a": {**F32, "shape": [3]}}, "takes 8 bytes, but its shape needs 12"),
        ({"a": {**F32, "dtype": "F31"}}, "unknown dtype 'F31'"),
        ({"a": {**F32, "dtype": ["F32"]}}, "incomplete"),
        ({"a": {"dtype": "F32"}}, "incomplete"),
        ({"a": 3}, "incomplete"),
        ({"__metadata__": {"x": 1}, "a": F32}, "metadata are not texts"),
        ([], "not a JSON object"),
        ('{"a": 1, "a": 2}', "twice"),
        ("{" * 100, "not valid JSON"),
        ("[" * 200_000, "not valid JSON"),
        ({"__metadata__": {"shared": "[]"}, "a": F32}, "shared"),
        ({"__metadata__": {"shared": "{"}, "a": F32}, "shared"),
        ({"__metadata__": {"epochal_version": "99", "sha256": ""}, "a": F32}, "version 99"),
        ({"__metadata__": {"epochal_version": "²", "sha256": ""}, "a": F32}, "impossible version"),
        ({"__metadata__": {"sha256": "00"}, "a": F32}, "checksum does not fit"),
        ({"__metadata__": {"epochal_version": "1"}, "a": F32}, "has lost its checksum"),
    ],
)
def test_a_hostile_table_is_a_sentence(entries: Any, sentence: str) -> None:
    a = torch.ones(2)
    with pytest.raises(FormatError, match=sentence):
        load(table(entries), a=a)
    assert a.tolist() == [1, 1]


def test_a_table_that_claims_to_be_huge_is_not_allocated() -> None:
    with pytest.raises(FormatError, match="its table takes 9223372036854775807 bytes"):
        load((2**63 - 1).to_bytes(8, "little") + b"{}")


def test_a_tensor_that_claims_to_be_huge_is_not_allocated() -> None:
    size = 2**50
    huge = {"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    with pytest.raises(UsageError, match="'a' is"):
        load(table(huge))
    with pytest.raises(FormatError, match="cut short"):
        load(table({"other": huge["a"]}))


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


def test_both_versions_of_fdl_are_read() -> None:
    for version in (1, 2):
        a = torch.ones(2)
        load(fdl(version=version), a=a)
        assert a.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (fdl(version=3), "version 3; 1 and 2 can be read"),
        (fdl(count=2**32 - 1), "cut short.* entry 2 of 4294967295"),
        (fdl(name_size=2**32 - 1), "a name of 4294967295 bytes"),
        (fdl(name=b"\xff"), "not UTF-8"),
        (fdl(rank=2**31), "dimensions"),
        (fdl(shape=(-2,)), "impossible shape"),
        (fdl(code=9), "unknown dtype 9"),
        (fdl(size=2**63), "takes 9223372036854775808 bytes"),
        (fdl(shape=(2**40, 2**40)), "takes 8 bytes"),
        (fdl(count=2, data=b"\0" * 8 + fdl()[44:]), "'a' twice"),
    ],
)
def test_a_hostile_fdl_file_is_a_sentence(data: bytes, sentence: str) -> None:
    a = torch.ones(2)
    with pytest.raises(FormatError, match=sentence):
        load(data, a=a)
    assert a.tolist() == [1, 1]


def test_what_follows_the_last_tensor_of_a_file_is_damage(tmp_path: Any) -> None:
    (tmp_path / "m").write_bytes(saved("safetensors") + b"\0")
    with pytest.raises(FormatError, match="goes on after its last tensor"):
        load_checkpoint(tmp_path / "m", {"a": torch.zeros(2, 3)})


@pytest.mark.parametrize("opening", [b"", b"FDLC", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
def test_noise_is_never_more_than_an_error(opening: bytes) -> None:
    @given(st.binary(max_size=200))
    def check(noise: bytes) -> None:
        a = torch.ones(2)
        with pytest.raises(FormatError):
            load(opening + noise, a=a)
        assert a.tolist() == [1, 1]

    run: Callable[[], None] = check
    run()


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
