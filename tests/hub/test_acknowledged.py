"""What a hub acknowledges is what a reader of its folder finds."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from epochal.errors import FormatError
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.inbox import ConflictError
from epochal.journal.layout import RunFolder
from epochal.journal.segments.seal import seal_part
from epochal.shipping.protocol import FileKind
from epochal.store.local.catalog import folder_store
from tests.hub.test_inbox import IDENTITY, STEM, lines

SEGMENT = f"{STEM}.parquet"


@pytest.fixture
def inbox(tmp_path: Path) -> FolderInbox:
    inbox = FolderInbox(tmp_path / "hub")
    inbox.register("one", IDENTITY)
    return inbox


def segment(folder: Path, num_records: int) -> bytes:
    """A part with so many records, sealed by its sender."""
    sender = RunFolder(folder / f"sender-{num_records}")
    sender.journal.mkdir(parents=True)
    (sender.journal / f"{STEM}.jsonl").write_bytes(lines(0, num_records))
    (name,) = sender.parts()
    return seal_part(sender, name, into=sender.segments).path.read_bytes()


def put(inbox: FolderInbox, kind: FileKind, name: str, data: bytes) -> int:
    """Send a file in two pieces; what is acknowledged at the end."""
    sha256, half, have = hashlib.sha256(data).hexdigest(), len(data) // 2, 0
    for start, end in ((0, half), (half, len(data))):
        have = inbox.put_file(
            "one", kind, name, data[start:end], offset=start, size=len(data), sha256=sha256
        )
    return have


def num_found(root: Path) -> int:
    """How many records a fresh reader finds."""
    with folder_store(root) as store:
        (view,) = store.runs()
        return sum(1 for _, record in view.records() if record["log"] == "metrics")


@pytest.mark.parametrize("kind", ["segments", "blobs"])
def test_a_file_that_arrived_whole_is_completed_by_the_next_hub(
    inbox: FolderInbox, tmp_path: Path, kind: FileKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data = (SEGMENT, segment(tmp_path, 500)) if kind == "segments" else ("x.bin", b"data")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", _fail)
        with pytest.raises(OSError, match="no space"):
            put(inbox, kind, name, data)
    sha256 = hashlib.sha256(data).hexdigest()
    restarted = FolderInbox(tmp_path / "hub")
    have = restarted.put_file("one", kind, name, b"", offset=0, size=len(data), sha256=sha256)
    assert have == len(data)
    assert (tmp_path / "hub" / "p" / "a" / kind / name).read_bytes() == data
    if kind == "segments":
        assert num_found(tmp_path / "hub") == 500


def _fail(*_: object) -> None:
    raise OSError(28, "no space left")


def test_a_file_that_was_damaged_on_the_hub_is_sent_from_its_start(
    inbox: FolderInbox, tmp_path: Path
) -> None:
    data = bytes(range(200))
    sha256 = hashlib.sha256(data).hexdigest()
    assert inbox.put_file("one", "blobs", "x", data[:90], offset=0, size=200, sha256=sha256) == 90
    (partial,) = (tmp_path / "hub" / "p" / "a" / "blobs").iterdir()
    partial.write_bytes(bytes(200))  # the file system kept its length, and lost its contents
    assert inbox.put_file("one", "blobs", "x", b"", offset=0, size=200, sha256=sha256) == 0
    assert put(inbox, "blobs", "x", data) == 200


def test_a_blob_with_other_contents_of_the_same_size_is_refused(inbox: FolderInbox) -> None:
    assert put(inbox, "blobs", "x", b"data") == 4
    assert put(inbox, "blobs", "x", b"data") == 4
    with pytest.raises(ConflictError, match="other contents"):
        put(inbox, "blobs", "x", b"atad")


def test_lines_for_a_sealed_part_are_answered_with_what_it_holds(
    inbox: FolderInbox, tmp_path: Path
) -> None:
    put(inbox, "segments", SEGMENT, segment(tmp_path, 500))
    assert inbox.append("one", STEM, first=0, lines=lines(0, 1000)) == 500
    assert inbox.append("one", STEM, first=500, lines=lines(500, 1000)) == 500
    assert inbox.state("one").segments[SEGMENT].lines == 500


def test_a_segment_never_replaces_more_records(inbox: FolderInbox, tmp_path: Path) -> None:
    short, long = segment(tmp_path, 500), segment(tmp_path, 1000)
    inbox.append("one", STEM, first=0, lines=lines(0, 700))
    with pytest.raises(ConflictError, match="has 500 records, and the hub has 700"):
        put(inbox, "segments", SEGMENT, short)
    assert num_found(tmp_path / "hub") == 700
    put(inbox, "segments", SEGMENT, long)
    assert num_found(tmp_path / "hub") == 1000
    with pytest.raises(ConflictError, match="has 500 records, and the hub has 1,000"):
        put(inbox, "segments", SEGMENT, short)
    assert num_found(tmp_path / "hub") == 1000


def test_a_longer_segment_replaces_a_shorter_one(inbox: FolderInbox, tmp_path: Path) -> None:
    put(inbox, "segments", SEGMENT, segment(tmp_path, 500))
    put(inbox, "segments", SEGMENT, segment(tmp_path, 1000))
    assert num_found(tmp_path / "hub") == 1000


def test_a_segment_that_cannot_be_read_is_refused(inbox: FolderInbox) -> None:
    with pytest.raises(FormatError):
        put(inbox, "segments", SEGMENT, b"not a Parquet file")
    assert not inbox.state("one").segments
