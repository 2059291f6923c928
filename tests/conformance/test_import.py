"""What every format of another tracker keeps to, whole, growing, cut or damaged."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.base.guard import Guard
from epochal.errors import FormatError, UsageError
from epochal.exchange.imports.foreign import Source
from epochal.exchange.imports.registry import all_importers, open_foreign, own_formats
from epochal.journal.line import encode
from epochal.records import Record
from tests.exchange.imports.samples import SAMPLES, new_records, opened

by_format = pytest.mark.parametrize("name", own_formats())
damage = settings(suppress_health_check=[HealthCheck.too_slow])


def everything(source: Source) -> list[Record]:
    """Every record of every run."""
    return [record for run in source.runs() for record in new_records(run)]


def counted(records: list[Record]) -> Counter[str]:
    """How often there is each record; points one by one, as a reading may cut their record."""
    return Counter(
        repr({**record, "m": dict([point])})
        for record in records
        for point in record.get("m", {"": 0}).items()
    )


@by_format
def test_a_source_is_known_by_what_it_holds(name: str, tmp_path: Path) -> None:
    path = SAMPLES[name](tmp_path).source
    found = {one.name for one in all_importers(Guard()) if one.find(path) is not None}
    assert found == {name}
    assert opened(path).label
    assert everything(opened(path))


@by_format
def test_runs_have_keys_and_ids_of_their_own_that_stay(name: str, tmp_path: Path) -> None:
    path = SAMPLES[name](tmp_path).source
    first, second = ([(r.key, r.identity.id) for r in opened(path).runs()] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)
    assert all(run.identity.name and run.identity.project for run in opened(path).runs())


@by_format
def test_every_record_can_stand_in_a_journal(name: str, tmp_path: Path) -> None:
    for record in everything(opened(SAMPLES[name](tmp_path).source)):
        assert isinstance(record["log"], str)
        assert math.isfinite(record["t"])
        assert encode(record).endswith(b"\n")


@by_format
def test_what_was_read_is_not_read_again(name: str, tmp_path: Path) -> None:
    source = opened(SAMPLES[name](tmp_path).source)
    assert everything(source)
    assert [list(run.read_new()) for run in source.runs()] == [[] for _ in source.runs()]


@by_format
def test_a_run_that_is_rewound_is_read_again(name: str, tmp_path: Path) -> None:
    source = opened(SAMPLES[name](tmp_path).source)
    first = everything(source)
    for run in source.runs():
        run.rewind()
    assert counted(everything(source)) == counted(first)


@by_format
def test_a_run_tells_where_it_lies_and_how_much_there_is(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name](tmp_path)
    for run in opened(sample.source).runs():
        assert run.path.exists()
        assert sum(size for _, size, _ in run.signature()) > 0
        assert max(changed for _, _, changed in run.signature()) > 1e18


@by_format
def test_a_file_replaced_by_a_shorter_one_is_read_anew(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name](tmp_path)
    if not sample.is_appended:
        pytest.skip("not a file that is appended to")
    text = sample.file.read_bytes()
    source = opened(sample.source)
    everything(source)
    before = [sum(size for _, size, _ in run.signature()) for run in source.runs()]
    sample.file.write_bytes(text[: len(text) * 2 // 3])
    after = [sum(size for _, size, _ in run.signature()) for run in source.runs()]
    assert after < before
    for run in source.runs():
        run.rewind()
    assert counted(without_file_times(everything(source))) == counted(
        without_file_times(everything(opened(sample.source)))
    )


@by_format
def test_every_blob_that_is_named_can_be_had(name: str, tmp_path: Path) -> None:
    for run in opened(SAMPLES[name](tmp_path).source).runs():
        for batch in run.read_new():
            named = [record for record in batch.records if record["log"] == "blob"]
            sizes = [len(run.blob(record["file"])) for record in named]
            assert sizes == [record["bytes"] for record in named]
        with pytest.raises(KeyError):
            run.blob("../../etc/passwd")


@by_format
def test_a_file_that_grows_gives_what_the_whole_one_does(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name](tmp_path)
    if not sample.is_appended:
        pytest.skip("not a file that is appended to")
    whole, text = everything(opened(sample.source)), sample.file.read_bytes()
    start = text.index(b"\n") + 1 if text[:1] in b"[{s" else len(text) // 10
    sample.file.write_bytes(text[:start])
    source = opened(sample.source)
    runs = source.runs()
    found: list[Record] = []
    for end in range(start, len(text) + 1, max(1, len(text) // 23)):
        sample.file.write_bytes(text[:end])
        found += (record for run in runs for record in new_records(run))
    sample.file.write_bytes(text)
    for run in runs:
        found += new_records(run)
        assert run.problems == [], run.problems
    assert counted(without_file_times(found)) == counted(without_file_times(whole))


def without_file_times(records: list[Record]) -> list[Record]:
    return [{**record, "t": 0} if record["t"] > 1.76e9 else record for record in records]


@by_format
@damage
@given(data=st.data())
def test_a_cut_file_gives_the_points_before_the_cut(name: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        sample = SAMPLES[name](Path(folder))
        text = sample.file.read_bytes()
        whole = counted(without_file_times(everything(opened(sample.source))))
        sample.file.write_bytes(text[: data.draw(st.integers(0, len(text) - 1))])
        check_damaged(sample.source, sample.file, whole if sample.is_appended else None)


@by_format
@damage
@given(data=st.data())
def test_a_flipped_byte_gives_an_error_or_the_rest(name: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        sample = SAMPLES[name](Path(folder))
        text = bytearray(sample.file.read_bytes())
        whole = counted(without_file_times(everything(opened(sample.source))))
        text[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
        sample.file.write_bytes(text)
        check_damaged(sample.source, sample.file, whole if sample.has_checksums else None)


def check_damaged(source: Path, file: Path, whole: Counter[str] | None) -> None:
    """Whatever is wrong is said with the name of the file, and nothing is made up."""
    found: list[Record] = []
    problems: list[str] = []
    try:
        opened_source = open_foreign(source)
        if opened_source is not None:
            found = everything(opened_source)
            problems = [p for run in opened_source.runs() for p in run.problems]
    except FormatError as error:
        problems = [str(error)]
    assert all(file.name in problem for problem in problems)
    if whole is not None:
        assert counted(without_file_times(found)) <= whole


@by_format
@damage
@given(text=st.binary(max_size=200), start=st.integers(0, 64))
def test_rubbish_behind_a_good_start_is_no_crash(name: str, text: bytes, start: int) -> None:
    with TemporaryDirectory() as folder:
        sample = SAMPLES[name](Path(folder))
        sample.file.write_bytes(sample.file.read_bytes()[:start] + text)
        check_damaged(sample.source, sample.file, None)


def test_a_folder_of_nothing_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert open_foreign(tmp_path) is None
    assert open_foreign(tmp_path / "notes.txt") is None


def test_a_path_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file or folder"):
        open_foreign(tmp_path / "absent")
