from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from epochal.errors import FormatError, UsageError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.process import process_identity
from epochal.journal.reader import NewerFormatError, PartReader
from epochal.journal.segments.parts import sealable_parts
from epochal.journal.segments.read import Segment
from epochal.journal.segments.seal import seal_part
from epochal.records import FORMAT_VERSION
from tests.doubles.journals import failing_sync
from tests.journal.segments.parts import (
    FINISH,
    HEADER,
    NAME,
    column_byte,
    copied,
    finished_part,
    flip,
    journal_texts,
    lines,
    metrics,
    read_run,
    texts,
    write_part,
)


def test_the_journal_part_goes_when_its_segment_stands(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    segment = seal_part(folder, NAME)
    assert (folder.parts(), folder.sealed_parts()) == ([], [NAME])
    assert segment.num_records == 3


def test_a_copy_elsewhere_leaves_the_run_folder_alone(tmp_path: Path) -> None:
    folder = finished_part(tmp_path / "run", metrics(0, loss=1.5))
    report = seal_part(folder, NAME, into=tmp_path / "cache")
    assert report.path == tmp_path / "cache" / "loop.0001.0000.parquet"
    assert (folder.parts(), folder.sealed_parts()) == ([NAME], [])


def test_only_the_segment_is_left_in_its_folder(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    seal_part(folder, NAME)
    assert os.listdir(folder.segments) == ["loop.0001.0000.parquet"]


@pytest.mark.parametrize(
    "text",
    [
        lines(HEADER) + b'{"log":"metr\n' + lines(metrics(1, a=1)),
        lines(HEADER) + b'{"log":"metrics","t":1,"st' + lines(metrics(1, a=1)),
        lines(HEADER, metrics(1, a=1)) + b'{"log":"metrics","t"',
        lines(HEADER, metrics(1, a=1)) + b"\0" * 100 + b"\n" + lines(metrics(2, a=1)),
        lines(HEADER) + b"\n\n" + lines(metrics(1, a=1)),
        b"\xff\xfe\n[1]\nnull\n",
        b"",
    ],
    ids=["damaged", "torn and joined", "torn end", "NUL", "empty lines", "rubbish", "nothing"],
)
def test_damage_is_counted_as_readers_count_it(tmp_path: Path, text: bytes) -> None:
    folder = write_part(tmp_path, text)
    reader = PartReader(folder.part_path(NAME), NAME)
    whole = list(reader.read())
    with copied(folder, tmp_path / "cache") as segment:
        assert texts(segment.records()) == journal_texts(folder)
        assert segment.num_damaged == reader.damaged
        assert segment.num_records == len(whole)


def test_no_byte_of_a_damaged_part_is_lost(tmp_path: Path) -> None:
    torn, end = b'{"log":"metr', b'{"log":"metrics","t"'
    text = lines(HEADER) + torn + b"\n" + lines(FINISH) + end
    folder = write_part(tmp_path, text)
    copied(folder, tmp_path / "cache").close()
    assert os.listdir(folder.journal) == ["loop.0001.0000.jsonl"]
    seal_part(folder, NAME)
    kept = folder.journal / "loop.0001.0000.jsonl.damaged"
    assert os.listdir(folder.journal) == [kept.name]
    assert kept.read_bytes() == torn + b"\n" + end + b"\n"


def test_a_newer_format_is_not_sealed(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines({**HEADER, "v": FORMAT_VERSION + 1}, FINISH))
    with pytest.raises(NewerFormatError):
        seal_part(folder, NAME)
    assert folder.parts() == [NAME]


def test_a_part_that_may_still_be_written_is_refused(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines({**HEADER, **process_identity()}))
    with pytest.raises(UsageError, match="may still be written"):
        seal_part(folder, NAME)


def test_the_part_of_a_dead_process_can_be_sealed(tmp_path: Path) -> None:
    gone = {**process_identity(), "pid_start": -1.0}
    folder = write_part(tmp_path, lines({**HEADER, **gone}))
    assert sealable_parts(folder) == [NAME]


def test_the_part_of_another_machine_is_left_alone(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines({**HEADER, **process_identity(), "host": "elsewhere"}))
    assert sealable_parts(folder) == []


def test_a_rotated_part_of_a_living_run_can_be_sealed_when_it_has_settled(tmp_path: Path) -> None:
    text = lines({**HEADER, **process_identity()})
    folder = write_part(tmp_path, text)
    write_part(tmp_path, text, name=PartName("loop", 1, 1))
    assert sealable_parts(folder) == []
    _age(folder, NAME)
    assert sealable_parts(folder) == [NAME]


def test_companions_elsewhere_end_with_their_run(tmp_path: Path) -> None:
    name = PartName("telemetry-node", 1, 0)
    folder = finished_part(tmp_path)
    write_part(tmp_path, lines(HEADER), name=name)
    assert sealable_parts(folder) == [NAME]
    _age(folder, name)
    assert sealable_parts(folder) == [NAME, name]
    seal_part(folder, NAME)
    assert sealable_parts(folder) == [name]


def test_sealing_again_after_a_crash_only_removes_the_journal(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    text = folder.part_path(NAME).read_bytes()
    segment = seal_part(folder, NAME).path
    before = segment.stat().st_ino
    folder.part_path(NAME).write_bytes(text)
    seal_part(folder, NAME)
    assert segment.stat().st_ino == before
    assert folder.parts() == []


def test_a_damaged_segment_is_written_anew_from_the_journal(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    folder.segments.mkdir()
    (folder.segments / "loop.0001.0000.parquet").write_bytes(b"PAR1 half")
    assert len(read_run(folder)) == 3
    seal_part(folder, NAME)
    assert len(read_run(folder)) == 3


def test_a_segment_of_other_records_is_never_replaced(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    seal_part(folder, NAME)
    finished_part(tmp_path, metrics(0, loss=2.5))
    with pytest.raises(UsageError, match="different records"):
        seal_part(folder, NAME)
    assert folder.parts() == [NAME]


def test_a_copy_is_renewed_when_the_part_has_grown(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines(HEADER, metrics(0, loss=1.5)))
    copied(folder, tmp_path / "cache")
    write_part(tmp_path, lines(HEADER, metrics(0, loss=1.5), metrics(1, loss=1.25)))
    assert copied(folder, tmp_path / "cache").num_records == 3


@pytest.mark.parametrize("cut", [0, 3, 40, -1, -9, -200])
def test_a_cut_segment_says_which_file_it_is(tmp_path: Path, cut: int) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    path = seal_part(folder, NAME).path
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError, match=r"loop\.0001\.0000\.parquet"):
        Segment(path)


def test_a_segment_with_a_damaged_page_never_replaces_its_journal_part(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, *(metrics(step, loss=step / 3) for step in range(100)))
    journal = folder.part_path(NAME).read_bytes()
    target = seal_part(folder, NAME).path
    flip(target, column_byte(target, "m.loss"))
    folder.part_path(NAME).write_bytes(journal)
    seal_part(folder, NAME).verify()
    assert (folder.parts(), folder.sealed_parts()) == ([], [NAME])


def test_a_flipped_bit_in_a_column_is_noticed(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, *(metrics(step, loss=step / 3) for step in range(500)))
    path = seal_part(folder, NAME).path
    text = bytearray(path.read_bytes())
    loss = next(_chunks(path, "m.loss"))
    text[loss.data_page_offset + loss.total_compressed_size // 2] ^= 1
    path.write_bytes(text)
    with Segment(path) as segment, pytest.raises(FormatError, match="is damaged"):
        list(segment.records())


@pytest.mark.parametrize("field", [b'"columns"', b'"groups"', b'"names"', b'"summaries"'])
def test_a_flipped_bit_in_the_metadata_is_noticed(tmp_path: Path, field: bytes) -> None:
    folder = finished_part(tmp_path, *(metrics(step, loss=step / 3) for step in range(500)))
    path = seal_part(folder, NAME).path
    text = bytearray(path.read_bytes())
    text[text.index(field) + len(field) + 3] ^= 1
    path.write_bytes(text)
    with pytest.raises(FormatError, match="damaged"):
        Segment(path)


def test_unfinished_files_are_no_segments(tmp_path: Path) -> None:
    folder = finished_part(tmp_path)
    folder.segments.mkdir()
    (folder.segments / ".loop.0001.0000.parquet.7.tmp").write_bytes(b"PAR1")
    assert folder.sealed_parts() == []


def test_what_a_killed_attempt_left_is_removed_an_hour_later(tmp_path: Path) -> None:
    folder = finished_part(tmp_path)
    folder.segments.mkdir()
    left = folder.segments / ".loop.0001.0000.parquet.7.tmp"
    left.write_bytes(b"PAR1")
    os.utime(left, (1.0, 1.0))
    seal_part(folder, NAME)
    assert os.listdir(folder.segments) == ["loop.0001.0000.parquet"]


def _chunks(path: Path, column: str) -> Iterator[Any]:
    metadata = pq.read_metadata(path)
    for place in range(metadata.num_columns):
        chunk = metadata.row_group(0).column(place)
        if chunk.path_in_schema == column:
            yield chunk


def _age(folder: RunFolder, name: PartName) -> None:
    long_ago = time.time() - 1000
    os.utime(folder.part_path(name), (long_ago, long_ago))


def test_a_segment_that_is_there_already_is_synced_before_its_part_is_deleted(
    tmp_path: Path,
) -> None:
    folder = finished_part(tmp_path, metrics(0, loss=1.5))
    text = folder.part_path(NAME).read_bytes()
    seal_part(folder, NAME)
    folder.part_path(NAME).write_bytes(text)  # as if it had been killed before it deleted this
    sealed = folder.sealed_path(NAME)
    with failing_sync(times=0) as synced:
        seal_part(folder, NAME)
    assert set(synced) >= {sealed, sealed.parent, folder.path}
