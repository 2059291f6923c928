from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import FormatError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode
from epochal.journal.reader import NewerFormatError, PartReader, read_journal
from tests.doubles.journals import append_step, header, open_writer, records, steps

LOOP = PartName("loop", 1, 0)
lines = st.lists(
    st.builds(
        lambda name, value: encode({"log": "metrics", "t": 0.0, "m": {name: value}}),
        st.text(max_size=6),
        st.floats(),
    ),
    max_size=6,
)


def part_with(folder: Path, content: bytes) -> PartReader:
    path = folder / "loop.0001.0000.jsonl"
    path.write_bytes(content)
    return PartReader(path, LOOP)


@given(lines, st.data())
def test_all_whole_lines_before_a_cut_come_back(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join([header(LOOP), *wanted])
    cut = data.draw(st.integers(0, len(whole)))
    reader = part_with(tmp_path_factory.mktemp("cut"), whole[:cut])
    assert len(list(reader.read())) == whole[:cut].count(b"\n")
    assert reader.damaged == 0


def test_a_file_cut_at_every_byte_of_header_and_last_record_reads_cleanly(tmp_path: Path) -> None:
    first, last = header(LOOP), encode({"log": "text", "t": 1.0, "text": 'a"\\\n\x00ü😀'})
    for cut in range(len(first) + len(last)):
        reader = part_with(tmp_path, (first + last)[:cut])
        assert [p.ordinal for p, _ in reader.read()] == ([0] if cut >= len(first) else [])
        assert reader.damaged == 0


def test_every_cut_followed_by_a_new_record_gives_that_record(tmp_path: Path) -> None:
    first, last = header(LOOP), encode({"log": "event", "t": 1.0, "config": {"log": "info"}})
    for cut in range(len(last)):
        for between in (b"", b"\n"):
            after = encode({"log": "event", "t": 2.0, "name": "after"})
            reader = part_with(tmp_path, first + last[:cut] + between + after)
            times = [record["t"] for _, record in reader.read()]
            # With only its newline missing, the cut record is whole again.
            is_whole = cut == len(last) - 1 and between == b"\n"
            assert times == ([1.0, 1.0, 2.0] if is_whole else [1.0, 2.0])


def test_a_torn_write_costs_only_its_own_record(tmp_path: Path) -> None:
    after = encode({"log": "event", "t": 2.0, "name": "after"})
    reader = part_with(tmp_path, header(LOOP) + b'{"log":"event","t":1.0,"na\n' + after)
    assert [record.get("name") for _, record in reader.read()] == [None, "after"]
    assert reader.damaged == 1


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_a_damaged_line_is_skipped_and_counted_anywhere(tmp_path: Path, where: int) -> None:
    good = [encode({"log": "event", "t": 0.0, "n": n}) for n in range(3)]
    reader = part_with(tmp_path, b"".join([*good[:where], b"rub{bish\n", *good[where:]]))
    assert [(p.ordinal, r["n"]) for p, r in reader.read()] == [(0, 0), (1, 1), (2, 2)]
    assert reader.damaged == 1


@pytest.mark.parametrize(
    "tail", [b"\0" * 100, b"\0" * 100 + b"\n", b'{"log"\0\n{"log":"x","t":1}\n']
)
def test_reading_never_steps_over_a_nul(tmp_path: Path, tail: bytes) -> None:
    reader = part_with(tmp_path, header(LOOP) + tail)
    assert len(list(reader.read())) == 1
    assert list(reader.read()) == []
    assert reader.offset == len(header(LOOP))


pieces = st.sampled_from(
    [
        encode({"log": "metrics", "t": 0.0, "m": {"a": 1.5}}),
        encode({"log": "text", "t": 1.0, "text": "ü\n"}),
        b"\n",
        b"rubbish\n",
        b"[1]\n",
        b'{"log":1}\n',
        b'{"log":"event","t":1.0,"na\n',
        b'{"log":"event","t":1.{"log":"event","t":2.0}\n',
        b'{"log":"x","t":1.0}{"log":"y","t":1.0}\n',
        b"\xff\n",
        b"\0",
        b'{"log":"torn',
    ]
)


@given(st.lists(pieces, max_size=12))
def test_blocks_hold_what_is_read_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    one_by_one, at_once = (part_with(folder, header(LOOP) + b"".join(wanted)) for _ in range(2))
    records = [record for _, record in one_by_one.read()]
    assert [record for block in at_once.read_blocks() for record in block] == records
    assert at_once == one_by_one


def test_blocks_of_a_long_part_follow_each_other(tmp_path: Path) -> None:
    body = [encode({"log": "event", "t": 0.0, "n": n, "text": "x" * n}) for n in range(2000)]
    reader = part_with(tmp_path, b"".join(body))
    blocks = list(reader.read_blocks())
    assert [record["n"] for block in blocks for record in block] == list(range(2000))
    assert len(blocks) > 3
    assert list(reader.read_blocks()) == []


def test_a_record_appears_when_its_newline_does(tmp_path: Path) -> None:
    line = encode({"log": "event", "t": 0.0})
    reader = part_with(tmp_path, line[:-1])
    assert list(reader.read()) == []
    reader.path.write_bytes(line)
    assert len(list(reader.read())) == 1
    assert list(reader.read()) == []


@pytest.mark.parametrize("version", [2, 2.5, 10**30])
def test_a_newer_format_is_refused_with_a_sentence_each_time(
    tmp_path: Path, version: float
) -> None:
    body = encode({"log": "run", "t": 0.0, "v": version}) + encode({"log": "event", "t": 0.0})
    reader = part_with(tmp_path, body)
    for read in (reader.read, reader.read, reader.read_blocks, reader.read_blocks):
        with pytest.raises(NewerFormatError, match=r"newer Epochal .*pip install -U epochal"):
            list(read())


def test_a_newer_minor_version_and_unknown_kinds_are_read(tmp_path: Path) -> None:
    body = encode({"log": "run", "t": 0.0, "v": 1.9}) + encode({"log": "novel", "t": 0.0, "x": 1})
    assert [r["log"] for _, r in part_with(tmp_path, body).read()] == ["run", "novel"]


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    reader = part_with(tmp_path, header(LOOP))
    list(reader.read())
    reader.path.write_bytes(b"")
    with pytest.raises(FormatError, match=r"loop\.0001\.0000\.jsonl became shorter"):
        list(reader.read())


def test_records_longer_than_a_reading_chunk_come_back(tmp_path: Path) -> None:
    long = encode({"log": "text", "t": 0.0, "text": "x" * 9_000_000})
    reader = part_with(tmp_path, header(LOOP) + long + long)
    assert [len(r.get("text", "")) for _, r in reader.read()] == [0, 9_000_000, 9_000_000]
    reader = part_with(tmp_path, header(LOOP) + long + long)
    blocks = [len(record.get("text", "")) for block in reader.read_blocks() for record in block]
    assert blocks == [0, 9_000_000, 9_000_000]


def test_parts_are_read_in_order_and_others_left_alone(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=200)
    for step in range(10):
        append_step(writer, step)
    writer.close()
    (tmp_path / "journal" / "notes.txt").write_text("hello")
    (tmp_path / "journal" / "loop.0001.0000.jsonl.bak").write_text("hello")
    assert steps(tmp_path) == list(range(10))
    assert len(RunFolder(tmp_path).parts()) > 2


def test_an_empty_folder_holds_no_records(tmp_path: Path) -> None:
    assert list(read_journal(RunFolder(tmp_path / "absent"))) == []
    assert records(tmp_path) == []
