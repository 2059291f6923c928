from __future__ import annotations

from pathlib import Path

import numpy as np

from epochal.store.local.columns import SeriesKey, SpillFile
from epochal.store.local.tail import TailedPart
from tests.segments.parts import HEADER, NAME, lines, metrics, write_part

LOSS = SeriesKey("loss", "step")


def test_arrays_come_back_from_the_file_that_nobody_sees(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "columns")
    whole, floats = np.arange(5), np.array([1.5, np.nan, -0.0])
    start = spill.append(whole, floats)
    numbers_read, floats_read = np.empty(5, np.int64), np.empty(3, np.float64)
    spill.read(start, numbers_read)
    spill.read(start + 40, floats_read)
    assert numbers_read.tolist() == [0, 1, 2, 3, 4]
    assert floats_read.tobytes() == floats.tobytes()
    assert spill.size == 64


def grown(folder: Path, spill: SpillFile) -> TailedPart:
    """A part that was read in three goes, with pieces of a few records each on disk."""
    records = [metrics(step, loss=step / 3, count=step) for step in range(600)]
    part = TailedPart(folder / "journal" / f"{NAME.stem}.jsonl", NAME, spill=spill)
    for end in (200, 201, 600):
        write_part(folder, lines(HEADER, *records[:end]))
        part.poll()
    return part


def test_a_large_part_answers_from_disk(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "columns", piece_bytes=2000)
    part = grown(tmp_path, spill)
    series = part.series(LOSS)
    assert series is not None
    assert series.steps.tolist() == list(range(600))
    assert series.values.tolist() == [step / 3 for step in range(600)]
    assert spill.size > 2000
    (table,) = part.tables()
    assert table.values[:, 1].tolist() == list(range(600))


def test_a_disk_without_room_leaves_columns_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spill = SpillFile(tmp_path / "file" / "columns", piece_bytes=2000)
    part = grown(tmp_path, spill)
    series = part.series(LOSS)
    assert series is not None
    assert series.values.tolist() == [step / 3 for step in range(600)]
    assert spill.size == 0
