from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.errors import FormatError
from epochal.journal.array import ArrayFile, with_iso_time
from tests.doubles.journals import descriptor_of

RECORDS = [{"log": "step", "step": n, "text": 'a "b" ]}\n,'} for n in range(3)]


def written(path: Path, records: list[dict[str, object]]) -> bytes:
    file = ArrayFile(path)
    for record in records:
        file.append(record)
    file.close()
    return path.read_bytes()


def test_cut_at_every_byte_it_keeps_every_whole_record_and_goes_on(tmp_path: Path) -> None:
    text = written(tmp_path / "whole.json", RECORDS)
    ends = [text.index(part) + len(part) for part in (b']}\\n,"}',)]
    assert ends
    for cut in range(1, len(text) + 1):
        path = tmp_path / "cut.json"
        path.write_bytes(text[:cut])
        written(path, [{"log": "late"}])
        found = json.loads(path.read_text())
        assert found[-1] == {"log": "late"}
        assert found[:-1] == RECORDS[: len(found) - 1]


def test_no_whole_record_is_dropped_by_a_repair(tmp_path: Path) -> None:
    text = written(tmp_path / "a.json", RECORDS)
    path = tmp_path / "b.json"
    path.write_bytes(text[:-1])
    written(path, [])
    assert json.loads(path.read_text()) == RECORDS


@pytest.mark.parametrize("text", ["[]", " [ ] \n", '[{"a": 1}]', '[\n  {"a": 1},\n  2\n]\n', ""])
def test_any_array_of_another_program_is_gone_on_with(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    before = json.loads(text) if text else []
    written(path, [{"log": "x"}])
    assert json.loads(path.read_text()) == [*before, {"log": "x"}]


@pytest.mark.parametrize("text", ["{}", "hello", '"["'])
def test_what_is_not_an_array_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(FormatError):
        ArrayFile(path)
    assert path.read_text() == text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(), max_size=5))
def test_any_text_comes_back(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "texts.json"
    path.unlink(missing_ok=True)
    written(path, [{"log": "message", "text": text} for text in texts])
    assert [one["text"] for one in json.loads(path.read_text())] == texts


def test_iso_time_takes_the_place_of_t() -> None:
    assert list(with_iso_time({"log": "step", "t": 1.5, "step": 3})) == ["log", "time", "step"]


def test_a_reader_that_asks_for_more_after_the_end_has_a_whole_array(tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    file = ArrayFile(path)
    for count, size in enumerate([1, 100, 1900, 2000, 100, 1]):
        before = path.read_bytes()
        file.append({"log": "message", "text": "x" * size})
        # Python reads to the end it knows, and then once more to see that there is no more.
        more = path.read_bytes()[len(before) :]
        assert len(json.loads(before + more)) == count
        assert len(json.loads(path.read_bytes())) == count + 1
    file.close()
    assert path.read_bytes().endswith(b"}\n]")


def test_a_record_longer_than_the_blanks_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    file = ArrayFile(path)
    for size in (5000, 10, 100_000, 10):
        file.append({"log": "message", "text": "x" * size})
        json.loads(path.read_text())
    file.close()
    assert [len(one["text"]) for one in json.loads(path.read_text())] == [5000, 10, 100_000, 10]


def test_a_descriptor_that_became_somebody_elses_gets_nothing(tmp_path: Path) -> None:
    file = ArrayFile(tmp_path / "log.json")
    file.append({"a": 1})
    descriptor = descriptor_of(file.path)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    os.dup2(other, descriptor)
    file.append({"a": 2})
    os.dup2(other, descriptor_of(file.path))
    file.close()
    assert os.fstat(other).st_size == 0
    assert json.loads(file.path.read_text()) == [{"a": 1}, {"a": 2}]
    os.close(other)
    os.close(descriptor)
