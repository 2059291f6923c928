from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from epochal.exchange.event_file import masked_of_bytes, of_rows


def by_the_bit(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def of_bytes(data: bytes) -> int:
    rows = np.frombuffer(data, dtype=np.uint8).reshape(1, len(data))
    return int(of_rows(rows)[0])


def test_the_value_that_the_standard_gives() -> None:
    assert of_bytes(b"123456789") == 0xE3069283


def test_the_stored_form_of_nothing() -> None:
    assert masked_of_bytes(b"") == 0xA282EAD8


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_one_text_is_what_the_definition_says(data: bytes) -> None:
    assert of_bytes(data) == by_the_bit(data)


def test_texts_longer_than_a_block_are_joined_rightly() -> None:
    data = bytes(i * 7 % 256 for i in range(2500))
    for size in (1023, 1024, 1025, 1027, 2048, 2500):
        assert of_bytes(data[:size]) == by_the_bit(data[:size])


@settings(deadline=None)
@given(st.integers(0, 1100), st.integers(0, 255))
def test_rows_are_what_single_texts_are(width: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 256, (3, width), dtype=np.uint8)
    assert of_rows(rows).tolist() == [by_the_bit(row.tobytes()) for row in rows]
