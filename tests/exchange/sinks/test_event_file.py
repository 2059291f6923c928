import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.exchange.event_file import EventFile, framed
from epochal.exchange.imports.tfevents_file import find_frames


@contextmanager
def few_bytes(size: int) -> Iterator[None]:
    """Let files grow to a few bytes only, as a full disk would; pytest's own output too."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_record_is_framed_as_the_format_says() -> None:
    # The checksums are those that TensorBoard's own code gives.
    assert framed([b"abc"]).hex() == "0300000000000000" + "b099490e" + "616263" + "6e57f121"


@given(st.lists(st.binary(max_size=40), max_size=60))
def test_frames_are_found_again(events: list[bytes]) -> None:
    data = framed(events)
    frames = find_frames(data)
    found = [
        data[start : start + length]
        for start, length in zip(frames.starts, frames.lengths, strict=True)
    ]
    assert found == events
    assert not frames.is_damaged


def test_grouped_checksums_are_the_same_as_single_ones() -> None:
    events = [bytes([number]) * 50 for number in range(40)]
    assert framed(events) == b"".join(framed([event]) for event in events)


def test_file_is_cut_back_to_what_is_to_be_kept(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "deep" / "events")
    file.append([b"first"])
    kept = file.num_bytes
    file.append([b"second"])
    file.close()
    again = EventFile(file.path, keep_bytes=kept)
    again.append([b"third"])
    again.close()
    assert file.path.read_bytes() == framed([b"first", b"third"])


def test_full_disk_leaves_whole_records(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "events")
    file.append([b"first"])
    with few_bytes(file.num_bytes + 5), pytest.raises(OSError, match="large"):
        file.append([b"second"])
    file.close()
    assert file.path.read_bytes() == framed([b"first"])
