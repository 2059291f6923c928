import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.layout import RunFolder
from epochal.journal.line import encode
from epochal.journal.reader import Batch, Follower, NewerFormatError
from epochal.records import Record
from tests.doubles.journals import append_step, open_writer


def new_folder(parent: Path) -> RunFolder:
    folder = RunFolder(parent)
    folder.journal.mkdir(parents=True)
    return folder


def records_of(found: list[Batch]) -> list[Record]:
    return [record for batch in found for record in batch.records]


@given(cuts=st.lists(st.integers(0, 1500), max_size=12), enough=st.none() | st.integers(1, 5))
def test_any_split_of_appends_over_polls_hands_out_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], enough: int | None
) -> None:
    folder = new_folder(tmp_path_factory.mktemp("follow"))
    lines = [encode({"log": "event", "t": 0.0, "n": n, "text": "ü\n" * n}) for n in range(20)]
    text = b"".join(lines)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    follower, seen = Follower(folder), list[Record]()
    path = folder.journal / "loop.0001.0000.jsonl"
    for start, end in itertools.pairwise(places):
        with path.open("ab") as file:
            file.write(text[start:end])
        seen += records_of(follower.poll(enough=enough))
    while more := follower.poll(enough=enough):
        seen += records_of(more)
    assert [record["n"] for record in seen] == list(range(20))


def test_a_poll_that_has_enough_leaves_the_rest_for_the_next(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run")
    lines = [encode({"log": "event", "t": 0.0, "n": n, "text": "x" * 400}) for n in range(5000)]
    (folder.journal / "loop.0001.0000.jsonl").write_bytes(b"".join(lines))
    follower, seen, sizes = Follower(folder), list[int](), list[int]()
    while found := records_of(follower.poll(enough=1000)):
        seen += [record["n"] for record in found]
        sizes.append(len(found))
    assert seen == list(range(5000))
    assert len(sizes) > 2
    assert min(sizes[:-1]) >= 1000


def test_new_parts_and_new_writers_are_found(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=150)
    follower = Follower(RunFolder(tmp_path))
    seen = []
    for step in range(6):
        append_step(writer, step)
        found = records_of(follower.poll())
        seen += [record["step"] for record in found if record["log"] == "metrics"]
    writer.close()
    (tmp_path / "journal" / "rank-0001.0001.0000.jsonl").write_bytes(
        encode({"log": "event", "t": 0.0})
    )
    assert seen == list(range(6))
    assert [batch.part.writer for batch in follower.poll()] == ["rank-0001"]


def test_a_nul_stops_following_until_the_file_changes(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run")
    path = folder.journal / "loop.0001.0000.jsonl"
    line = encode({"log": "event", "t": 0.0})
    path.write_bytes(line + b"\0" * len(line) + line)
    follower = Follower(folder)
    assert len(records_of(follower.poll())) == 1
    assert follower.poll() == []
    path.write_bytes(line * 3)
    os.utime(path, ns=(0, 0))
    assert len(records_of(follower.poll())) == 2


def test_damaged_lines_are_counted_over_all_parts(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run")
    for part in range(2):
        (folder.journal / f"loop.0001.000{part}.jsonl").write_bytes(b"rubbish\n")
    follower = Follower(folder)
    assert follower.poll() == []
    assert follower.damaged == 2


def test_a_part_of_a_newer_format_is_never_half_read(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run")
    (folder.journal / "loop.0001.0000.jsonl").write_bytes(
        encode({"log": "run", "t": 0.0, "v": 2}) + encode({"log": "event", "t": 0.0})
    )
    follower = Follower(folder)
    for _ in range(2):
        with pytest.raises(NewerFormatError, match="newer Epochal"):
            follower.poll()


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    follower = Follower(RunFolder(tmp_path / "later"))
    assert follower.poll() == []
    append_step(open_writer(tmp_path / "later"), 1)
    assert [record["log"] for record in records_of(follower.poll())] == ["run", "metrics"]


def test_a_part_that_became_shorter_is_followed_on(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run")
    path = folder.journal / "loop.0001.0000.jsonl"
    lines = [encode({"log": "event", "t": 0.0, "n": n}) for n in range(1000)]
    path.write_bytes(b"".join(lines))
    follower = Follower(folder)
    assert len(records_of(follower.poll())) == 1000
    with path.open("r+b") as file:
        file.truncate(sum(map(len, lines[:500])))
    assert follower.poll() == []
    with path.open("ab") as file:
        file.write(encode({"log": "event", "t": 0.0, "n": 1000}))
    assert [record["n"] for record in records_of(follower.poll())] == [1000]
