from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.exchange.imports.protobuf import WireError, fields, signed, varint
from tests.exchange.imports.event_files import field
from tests.exchange.imports.event_files import varint as encoded


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_comes_back(number: int) -> None:
    data = encoded(number)
    found, end = varint(data, 0, len(data))
    assert (signed(found), end) == (number, len(data))


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_an_error_with_a_place(data: bytes) -> None:
    places: list[int] = []
    try:
        places += (f.end for f in fields(data))
    except WireError as error:
        places.append(error.offset)
    assert all(0 <= place <= len(data) for place in places)


def test_fields_say_where_their_bytes_lie() -> None:
    data = b"\x08\x05" + field(2, b"abc") + b"\x1d\x00\x00\x80\x3f"
    first, second, third = fields(data)
    assert (first.tag, first.number) == (1, 5)
    assert data[second.start : second.end] == b"abc"
    assert (third.tag, third.end - third.start) == (3, 4)


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x08", b"\x08" + b"\xff" * 11, b"\x0b", b"\x00"])
def test_what_is_cut_or_impossible_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        list(fields(data))
