"""Samples that cannot be recorded: one message each, and everything else is recorded."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from epochal.journal.blobs import encode_pending
from epochal.journal.layout import RunFolder
from epochal.run.run import Run
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, steps

GREY = np.zeros((4, 4), np.uint8)


@pytest.fixture
def run(start_run: StartRun) -> Run:
    return start_run(companion=False)


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def bad(tmp_path: Path) -> dict[str, Any]:
    """Values of which nothing can be recorded, by what is wrong with them."""
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "huge.mp4", "wb") as file:
        file.truncate(10**10)
    return {
        "no picture": epochal.Image(b"text"),
        "boxes": epochal.Image(GREY, boxes=[{"label": "cat"}]),
        "class": epochal.Image(GREY, masks=np.full((2, 2), 300)),
        "wide": epochal.Video(np.zeros((1, 1, 20_000, 3), np.uint8)),
        "columns": [{str(100 * row + key): 1 for key in range(100)} for row in range(20)],
        "mixed": [epochal.Image(GREY), 1.0],
        "markdown": epochal.Markdown(None),  # type: ignore[arg-type]
        "missing": epochal.Image(tmp_path / "missing.png"),
        "folder": epochal.Image(tmp_path),
        "pipe": epochal.Image(tmp_path / "pipe"),
        "device": epochal.Audio("/dev/zero"),
        "huge": epochal.Video(tmp_path / "huge.mp4"),
        "damaged": epochal.Image(b"\x89PNG\r\n\x1a\n", boxes=[{"box": [0, 0, 9, 9]}]),
        "empty": epochal.Image(np.zeros((0, 4))),
        "shape": epochal.Image(np.zeros((1, 2, 3, 4, 5))),
        "texts": epochal.Image(np.array([["a", "b"]])),
        "box": epochal.Image(GREY, boxes=[{"box": [0, 1]}]),
        "mask": epochal.Image(GREY, masks={"m": np.zeros((2, 2, 2))}),
        "silence": epochal.Audio([], 8000),
        "rate": epochal.Audio([0.5], 0),
        "frames": epochal.Video(np.zeros((0, 4, 4, 3), np.uint8)),
        "fps": epochal.Video(np.zeros((2, 4, 4, 3), np.uint8), fps=float("nan")),
        "ragged": epochal.Table([[1, 2], [3]], columns=["a", "b"]),
        "chart": epochal.Table([{"a": 1}], chart={"kind": "pie"}),
        "html": epochal.Html(3),  # type: ignore[arg-type]
    }


def test_each_bad_value_is_one_message_and_costs_nothing_else(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = bad(tmp_path)
    for step in range(2):
        run.log({**values, "loss": 1.0, "good": epochal.Image(GREY)}, step=step)
    run.finish()
    events = [event for event in of_kind(run.dir, "event") if event["name"] == "value-dropped"]
    assert [event["name_of"] for event in events] == list(values)
    assert len(capsys.readouterr().err.splitlines()) == len(values)
    assert [record["name"] for record in of_kind(run.dir, "blob")] == ["good", "good"]
    assert steps(run.dir) == [0, 1]


@pytest.mark.slow
def test_bad_cells_and_long_tables_keep_the_rest(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    cells: dict[str, Any] = {"good": 1, "picture": epochal.Image(b"text"), "odd": Unprintable()}
    itself: list[Any] = []
    itself.append(itself)
    for step, length in enumerate([1_000_000, 100_001]):
        run.log(
            {"cells": [{**cells, "itself": itself}], "long": epochal.Table({"a": range(length)})},
            step,
        )
    small, cut, *_ = epochal.load(run.dir).samples()
    assert small.data == [{"good": 1, "picture": None, "odd": "<Unprintable>", "itself": None}]
    assert (len(cut.data), cut.data[-1]) == (100_000, {"a": 99_999})
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert "is cut after 100,000 rows" in said[2]


@pytest.mark.parametrize(
    "name", ["a/b", "../../up", "/etc/passwd", "ünï 🎉", "x" * 300, "nul\0", "new\nline", "CON"]
)
def test_any_name_is_recorded_and_saved_inside_the_folder(
    run: Run, tmp_path: Path, name: str
) -> None:
    from epochal.exports.files import save_files

    run.log({name: epochal.Image(GREY)}, step=1)
    run.log_file(__file__, name, step=1)
    data = epochal.load(run.dir)
    assert [data.samples()[0].name, data.files()[0].name] == [name, name]
    saved = list(save_files(data.view, tmp_path / "saved"))
    assert all(isinstance(path, Path) for path in saved)
    inside = [path for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert len(inside) == 2


def test_the_same_picture_a_thousand_times_is_stored_once(run: Run) -> None:
    for step in range(1000):
        run.log({"same": epochal.Image(GREY)}, step=step)
    assert len(list((run.dir / "blobs").iterdir())) == 1
    assert encode_pending(RunFolder(run.dir))
    assert len(epochal.load(run.dir).samples()) == 1000


def test_the_budget_warns_then_skips_and_counts(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(companion=False, samples_gb=0.0001)  # 100 kB, of which a picture takes 12 kB
    for step in range(20):
        noise = np.random.default_rng(step).integers(0, 256, (64, 64, 3), np.uint8)
        run.log({"noise": epochal.Image(noise), "loss": 1.0}, step=step)
    run.finish()
    kept = len(of_kind(run.dir, "blob"))
    assert 6 <= kept <= 8
    assert steps(run.dir) == list(range(20))
    said = capsys.readouterr().err.splitlines()
    assert ["approach" in line for line in said] == [True, False]
    counts = [event for event in of_kind(run.dir, "event") if event["name"] == "value-counts"]
    assert counts[0]["dropped"] == {"(samples)": 20 - kept}


def test_threads_and_children_may_log_samples(start_run: StartRun) -> None:
    run = start_run(companion=False)

    def log(name: str) -> None:
        for step in range(20):
            run.log({name: epochal.Image(np.full((8, 8), step, np.uint8))}, step=step)
            run.log_file(__file__, name, step=step)

    threads = [threading.Thread(target=log, args=(f"thread{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        log("child")
        os._exit(0)
    for thread in threads:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
    run.finish()
    data = epochal.load(run.dir)
    names = {*(f"thread{n}" for n in range(4)), "child"}
    assert {sample.name for sample in data.samples()} == names
    assert len(data.samples()) == len(data.files()) == 5 * 20
    assert all(sample.read().startswith(b"\x89PNG") for sample in data.samples())
    assert {file.read() for file in data.files()} == {Path(__file__).read_bytes()}
    assert not list((run.dir / "blobs").glob(".*"))


def test_repair_encodes_what_is_left_and_names_what_is_damaged(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.log({"picture": epochal.Image(GREY)}, step=1)
    run.finish()
    blobs = run.dir / "blobs"
    (blobs / ".abc.png.1-2.tmp").write_bytes(b"half")
    repair = ["--dir", str(tmp_path / "runs"), "manage", "repair", "run"]
    assert main(repair) == 0
    said = capsys.readouterr().out
    assert "Encoded 1 picture.\nRemoved 1 temporary file.\n" in said
    assert [path.suffix for path in blobs.iterdir()] == [".png"]
    (blobs / "abc.png.raw").write_bytes(b"no pixels")
    assert main(repair) == 1
    assert "blobs/abc.png.raw: it cannot be encoded." in capsys.readouterr().out
