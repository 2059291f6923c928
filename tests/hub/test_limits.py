"""What does not fit is refused with its numbers, in a folder and in a cluster alike."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from epochal.hub.inbox import Inbox
from epochal.hub.limits import FullError, Limits
from tests.hub.opened_hubs import STEM, Open, lines, open_hub, register, sealed

__all__ = ["open_hub"]
KIB = 1 << 10


def put(inbox: Inbox, run_id: str, name: str, data: bytes, *, kind: str = "blobs") -> int:
    sha256 = hashlib.sha256(data).hexdigest()
    return inbox.put_file(run_id, kind, name, data, offset=0, size=len(data), sha256=sha256)  # type: ignore[arg-type]


def test_the_quota_of_one_writer_refuses_no_other(open_hub: Open) -> None:
    hub = open_hub(Limits(most_per_writer=10 * KIB))
    inbox = hub.runs.inbox
    for run_id, writer in (("one", "alice"), ("two", "alice"), ("three", "bob")):
        register(hub, run_id, writer=writer)
    assert inbox.append("one", STEM, first=0, lines=lines(0, 150)) == 150
    with pytest.raises(FullError, match=r"4\.9 KiB more do not fit: 'alice' has .* of 10\.0 KiB"):
        inbox.append("two", STEM, first=0, lines=lines(0, 100))
    assert inbox.append("one", STEM, first=100, lines=lines(100, 150)) == 150  # it is here
    assert inbox.append("three", STEM, first=0, lines=lines(0, 150)) == 150
    with pytest.raises(FullError, match="'bob' has stored"):
        put(inbox, "three", "x.bin", b"x" * 8 * KIB)
    assert put(inbox, "three", "x.bin", b"x" * KIB) == KIB


def test_a_full_hub_says_what_it_has(open_hub: Open) -> None:
    hub = open_hub(Limits(most=210 * KIB))  # of a folder, the files of the hub itself count
    register(hub, "one")
    with pytest.raises(FullError, match=r"the hub stores .* of at most 210\.0 KiB\. Delete runs"):
        hub.runs.inbox.append("one", STEM, first=0, lines=lines(0, 5000))


def test_a_segment_takes_the_room_of_its_lines(open_hub: Open, tmp_path: Path) -> None:
    hub = open_hub(Limits(most_per_writer=100 * KIB))
    inbox, data = hub.runs.inbox, lines(0, 1500)
    register(hub, "one")
    assert inbox.append("one", STEM, first=0, lines=data) == 1500
    segment = sealed(tmp_path / "sender", data)
    assert put(inbox, "one", f"{STEM}.parquet", segment, kind="segments") == len(segment)
