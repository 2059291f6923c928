from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from epochal.exchange.imports.formats.wandb import LogFile
from tests.exchange.imports.event_files import BLOCK, leveldb

RECORDS = [bytes([i % 256]) * size for i, size in enumerate([5, 0, 32_000, 900, 100_000, 7])]


def read(path: Path) -> list[bytes]:
    return [data for _, data in LogFile(path).read()]


@given(st.lists(st.integers(0, 70_000), max_size=8))
def test_records_of_any_length_come_back(sizes: list[int]) -> None:
    records = [bytes([number]) * size for number, size in enumerate(sizes)]
    with tempfile.NamedTemporaryFile() as file:
        file.write(leveldb(records))
        file.flush()
        assert read(Path(file.name)) == records


def test_a_record_cut_by_the_end_waits(tmp_path: Path) -> None:
    path, text = tmp_path / "run-1.wandb", leveldb(RECORDS)
    path.write_bytes(text[:60_000])
    log = LogFile(path)
    assert [data for _, data in log.read()] == RECORDS[:4]
    path.write_bytes(text)
    assert [data for _, data in log.read()] == RECORDS[4:]
    assert log.problems == []


def test_damage_costs_the_rest_of_its_block(tmp_path: Path) -> None:
    path, text = tmp_path / "run-1.wandb", bytearray(leveldb([b"x" * 1000] * 100))
    text[5000] ^= 1
    path.write_bytes(text)
    log = LogFile(path)
    records = [data for _, data in log.read()]
    assert set(records) == {b"x" * 1000}
    assert 60 < len(records) < 100 - BLOCK // 1007 + 6
    assert "damaged at byte" in log.problems[0]
    assert len(log.problems) == 1
