"""What a hub keeps in a folder, when its disk fails, is full, or changes under it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import resource
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.hub.documents import FolderDocuments
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.inbox import ConflictError, UnknownRunError
from epochal.hub.ledger import Ledger
from epochal.hub.limits import Budget, FullError, Limits
from epochal.journal.layout import json_bytes
from epochal.shipping.protocol import merged_labels
from tests.doubles.journals import failing_sync

STEM = "loop.0001.0000"
IDENTITY = {"id": "one", "name": "a", "project": "p"}


def line(ordinal: int) -> bytes:
    return b'{"log":"metrics","t":1,"step":%d}\n' % ordinal


def lines(first: int, last: int) -> bytes:
    return b"".join(line(ordinal) for ordinal in range(first, last))


sends = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.sampled_from(["", "torn", "restart"])),
    max_size=30,
)


@given(sends)
def test_lines_are_stored_once_and_in_order(sent: list[tuple[int, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inbox = FolderInbox(Path(folder))
        inbox.register("one", IDENTITY)
        part = Path(folder) / "p" / "a" / "journal" / f"{STEM}.jsonl"
        have = 0
        for first, count, what in sent:
            if what == "torn" and have:  # killed within a write that was never acknowledged
                with open(part, "ab") as file:
                    file.write(line(have)[:7])
            if what:
                inbox = FolderInbox(Path(folder))
            answer = inbox.append("one", STEM, first=first, lines=lines(first, first + count))
            have = answer
            assert part.read_bytes() == lines(0, have) if have else not part.exists()
        assert inbox.state("one").parts.get(STEM) is None or have == (
            inbox.state("one").parts[STEM].lines
        )


@pytest.fixture
def inbox(tmp_path: Path) -> FolderInbox:
    inbox = FolderInbox(tmp_path)
    inbox.register("one", IDENTITY)
    return inbox


def test_lines_that_fit_only_in_part_are_not_acknowledged(
    inbox: FolderInbox, tmp_path: Path
) -> None:
    part = tmp_path / "p" / "a" / "journal" / f"{STEM}.jsonl"
    inbox.append("one", STEM, first=0, lines=lines(0, 3))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The system takes the first bytes of a write that crosses this limit, and says how many.
    resource.setrlimit(resource.RLIMIT_FSIZE, (part.stat().st_size + 10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            inbox.append("one", STEM, first=3, lines=lines(3, 9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert part.read_bytes() == lines(0, 3)
    assert inbox.append("one", STEM, first=3, lines=lines(3, 9)) == 9


def test_a_file_appears_when_it_is_whole(inbox: FolderInbox, tmp_path: Path) -> None:
    import hashlib

    data = bytes(range(200))
    sha256 = hashlib.sha256(data).hexdigest()
    folder = tmp_path / "p" / "a" / "blobs"
    sent = {"size": 200, "sha256": sha256}
    assert inbox.put_file("one", "blobs", "x.bin", data[:90], offset=0, **sent) == 90  # type: ignore[arg-type]
    assert not (folder / "x.bin").exists()
    # Out of order, and again: the answer says where to go on.
    assert inbox.put_file("one", "blobs", "x.bin", data[:50], offset=0, **sent) == 90  # type: ignore[arg-type]
    assert inbox.put_file("one", "blobs", "x.bin", data[90:], offset=90, **sent) == 200  # type: ignore[arg-type]
    assert (folder / "x.bin").read_bytes() == data
    with pytest.raises(ConflictError):
        inbox.put_file("one", "blobs", "x.bin", b"x", offset=0, size=1, sha256=sha256)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path)
    yield ledger
    ledger.close()


def test_a_full_budget_refuses_and_keeps_what_is_there(tmp_path: Path, ledger: Ledger) -> None:
    ledger.claim("one", "p", "alice")
    identity = len(json_bytes(IDENTITY))
    budget = Budget(tmp_path, ledger, Limits(most_per_writer=300 + identity))
    inbox = FolderInbox(tmp_path, charge=budget.charge)
    inbox.register("one", IDENTITY)
    assert inbox.append("one", STEM, first=0, lines=lines(0, 5)) == 5
    with pytest.raises(FullError, match="'alice' has stored"):
        inbox.append("one", STEM, first=5, lines=lines(5, 20))
    assert inbox.append("one", STEM, first=4, lines=lines(4, 6)) == 6


def test_the_last_of_the_disk_is_kept(tmp_path: Path, ledger: Ledger) -> None:
    budget = Budget(tmp_path, ledger, Limits(), reserve=1000, free=lambda _: 1100)
    budget.charge("one", 100)
    with pytest.raises(FullError, match="disk of the hub is full"):
        budget.charge("one", 101)


def test_a_whole_budget_is_measured(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5_000_000)
    budget = Budget(tmp_path, ledger, Limits(most=5_100_000))
    with pytest.raises(FullError, match="the hub stores"):
        budget.charge("one", 200_000)


@pytest.mark.parametrize(
    ("ours", "theirs", "base", "merged"),
    [
        ({"name": "a"}, {}, {}, {"name": "a"}),
        ({"name": "a"}, {"name": "b"}, {"name": "a"}, {"name": "b"}),
        ({"name": "b"}, {"name": "a"}, {"name": "a"}, {"name": "b"}),
        ({}, {"notes": "n"}, {"notes": "n"}, {}),
        (
            {"tags": ["x", "y"]},
            {"tags": ["x", "z"]},
            {"tags": ["x", "w"]},
            {"tags": ["x", "y", "z"]},
        ),
        ({"tags": ["x"]}, {"tags": []}, {"tags": ["x"]}, {"tags": []}),
    ],
)
def test_labels_merge_by_field(
    ours: dict[str, object],
    theirs: dict[str, object],
    base: dict[str, object],
    merged: dict[str, object],
) -> None:
    assert merged_labels(ours=ours, theirs=theirs, base=base) == merged


def test_lines_are_stored_while_another_run_is_registered(inbox: FolderInbox) -> None:
    have: list[int] = []
    with inbox._lock:  # held while folders of a new run are synced
        assert inbox.known_project("one") == "p"
        storing = threading.Thread(
            target=lambda: have.append(inbox.append("one", STEM, first=0, lines=lines(0, 3))),
            daemon=True,
        )
        storing.start()
        storing.join(60.0)
        assert have == [3]


def test_lines_of_a_deleted_run_never_reach_the_run_that_has_its_folder_now(
    inbox: FolderInbox, tmp_path: Path
) -> None:
    inbox.append("one", STEM, first=0, lines=lines(0, 3))
    shutil.move(tmp_path / "p" / "a", tmp_path / "elsewhere")
    inbox.register("two", {**IDENTITY, "id": "two"})
    assert inbox.folder_of("two") == tmp_path / "p" / "a"
    inbox.append("two", STEM, first=0, lines=lines(0, 2))
    with pytest.raises(UnknownRunError):
        inbox.append("one", STEM, first=2, lines=lines(2, 5))
    assert inbox.project_of("one") is None
    part = tmp_path / "p" / "a" / "journal" / f"{STEM}.jsonl"
    assert part.read_bytes() == lines(0, 2)
    inbox.register("one", IDENTITY)
    assert inbox.folder_of("one") not in (None, inbox.folder_of("two"))


def test_tokens_are_known_while_a_change_waits_for_the_disk(tmp_path: Path) -> None:
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        token = ledger.add_token("load", "write")
        found: list[str] = []

        def look() -> None:
            principal = ledger.principal(token)
            found.append("" if principal is None else principal.name)

        documents = ledger.documents
        assert isinstance(documents, FolderDocuments)
        ledger._tokens._read_s = 0.0
        with ledger._lock, documents._lock:
            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            looking.join(60)
            assert found == ["load"]


def test_what_was_changed_is_read_at_once(tmp_path: Path) -> None:
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        for number in range(20):
            ledger.claim(f"run{number}", "p", f"writer{number}")
            assert ledger.writer_of(f"run{number}") == f"writer{number}"


def test_lines_that_the_disk_failed_to_store_are_not_there_at_the_next_request(
    inbox: FolderInbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "p" / "a" / "journal" / f"{STEM}.jsonl"
    inbox.append("one", STEM, first=0, lines=lines(0, 3))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("epochal.hub.folder_inbox._sync_data", fail)
    monkeypatch.setattr(os, "truncate", fail)
    with pytest.raises(OSError, match="Input/output error"):
        inbox.append("one", STEM, first=3, lines=lines(3, 9))
    assert part.read_bytes() == lines(0, 9)
    for request in (
        lambda: inbox.append("one", STEM, first=9, lines=b""),
        lambda: inbox.state("one"),
    ):
        with pytest.raises(OSError, match="Input/output error"):
            request()
    monkeypatch.undo()
    assert inbox.state("one").parts[STEM].lines == 3
    assert inbox.append("one", STEM, first=3, lines=lines(3, 9)) == 9


def test_a_file_that_the_disk_failed_to_store_is_sent_again(
    inbox: FolderInbox, tmp_path: Path
) -> None:
    text = b"GIF89a"
    digest, name = hashlib.sha256(text).hexdigest(), "a.gif"

    def put() -> int:
        return inbox.put_file("one", "blobs", name, text, offset=0, size=len(text), sha256=digest)

    with failing_sync(), pytest.raises(OSError, match="Input/output error"):
        put()
    assert list((tmp_path / "p" / "a" / "blobs").iterdir()) == []
    assert put() == len(text)


def test_a_run_whose_folder_the_disk_failed_to_store_is_not_there(tmp_path: Path) -> None:
    inbox = FolderInbox(tmp_path)
    with failing_sync(tmp_path / "p"), pytest.raises(OSError, match="Input/output error"):
        inbox.register("one", IDENTITY)
    with pytest.raises(UnknownRunError):
        inbox.state("one")
    inbox.register("one", IDENTITY)
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["a"]


def test_a_hub_syncs_once_what_another_has_left(inbox: FolderInbox, tmp_path: Path) -> None:
    inbox.append("one", STEM, first=0, lines=lines(0, 3))
    part = tmp_path / "p" / "a" / "journal" / f"{STEM}.jsonl"
    later = FolderInbox(tmp_path)
    with failing_sync(times=0) as synced:
        later.state("one")
        later.state("one")
    assert synced.count(part) == 1
