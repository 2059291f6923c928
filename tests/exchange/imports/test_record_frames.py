from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epochal.exchange.imports.tfevents_file import find_frames
from tests.exchange.imports.event_files import frame


def contents(text: bytes) -> list[bytes]:
    frames = find_frames(text)
    pairs = zip(frames.starts, frames.lengths, strict=True)
    return [text[start : start + length] for start, length in pairs]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=12))
def test_every_record_is_found_in_order(records: list[bytes]) -> None:
    text = b"".join(map(frame, records))
    assert contents(text) == records
    assert find_frames(text).end == len(text)


def test_a_record_that_holds_records_is_one() -> None:
    inner = frame(b"inner") * 3
    assert contents(frame(inner) + frame(b"after")) == [inner, b"after"]


def test_long_records_stand_between_short_ones() -> None:
    records = [b"a", bytes(70_000), b"b" * 65_536, b"c"]
    assert contents(b"".join(map(frame, records))) == records


def test_a_cut_record_is_wanted_not_damaged() -> None:
    whole, cut = frame(b"whole"), frame(b"cut short")
    for end in range(len(cut)):
        frames = find_frames(whole + cut[:end])
        assert (len(frames.starts), frames.end, frames.is_damaged) == (1, len(whole), False)


def test_a_broken_header_is_damage_at_its_place() -> None:
    whole = frame(b"whole")
    frames = find_frames(whole + b"\x05" + bytes(7) + b"abcd" + b"x" * 20)
    assert (frames.end, frames.is_damaged) == (len(whole), True)
