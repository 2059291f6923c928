from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from epochal.companion.live_file import LiveFile
from epochal.journal.layout import RunFolder


def live_file(folder: Path, node: str = "here", *, wall: Iterator[float] | None = None) -> LiveFile:
    times = repeat(1234.5678) if wall is None else wall
    return LiveFile(RunFolder(folder), node=node, rank=0, wall=lambda: next(times))


def test_a_shorter_text_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    live = live_file(tmp_path)
    live.see_host({"text": "x" * 10_000})
    live.write()
    live.see_host({"text": "y"})
    live.write()
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert said.pop("system") == {"text": "y", "t": 1234.568}
    assert said == {"t": 1234.568, "node": "here", "rank": 0, "gpus": []}


def test_what_is_not_known_now_stays_as_it_was_known(tmp_path: Path) -> None:
    live = live_file(tmp_path)
    live.see_gpu(1, {"power": 5, "clock": 7})
    live.see_gpu(1, {"power": None, "clock": 8})
    live.write()
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert said["gpus"] == [{"id": 1, "power": 5, "clock": 8, "t": 1234.568}]


def test_each_reading_has_its_own_time(tmp_path: Path) -> None:
    live = live_file(tmp_path, wall=iter([10.0, 11.0, 12.0]))
    live.see_gpu(0, {"clock": 7})
    live.see_host({"cpu_pct": 50.0})
    live.see_gpu(0, {"clock": None})
    live.write()
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert (said["gpus"][0]["t"], said["system"]["t"], said["t"]) == (10.0, 11.0, 12.0)


def test_it_goes_and_leaves_that_of_another_node(tmp_path: Path) -> None:
    here, there = live_file(tmp_path), live_file(tmp_path, "there")
    here.write()
    there.write()
    here.close()
    assert [path.name for path in (tmp_path / "live").iterdir()] == ["there.json"]
    there.close()
    assert not (tmp_path / "live").exists()


def test_a_run_that_was_deleted_is_not_brought_back(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        live_file(tmp_path / "gone").write()
    assert not (tmp_path / "gone").exists()
