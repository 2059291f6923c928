"""``manage verify`` and ``manage repair`` read everything, and say what is true of each file."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import epochal
from epochal import Checkpoints, TrainingState
from epochal.cli.main import main
from epochal.journal.blobs import encode_pending
from epochal.journal.layout import RunFolder
from epochal.journal.segments.seal import seal_part
from tests.journal.segments.parts import column_byte, flip
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(root: Path, name: str = "x", *, steps: int = 1000) -> RunFolder:
    """A finished run with numbers, a picture and a file."""
    draw = random.Random(0)
    run = epochal.init("p", name, dir=root, companion=False, console=False)
    for step in range(steps):
        run.log({"acc": draw.random(), "loss": 1 / (step + 1)}, step=step)
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), np.uint8)
    run.log({"picture": epochal.Image(pixels)}, step=1)
    run.log({"rows": epochal.Table(columns=["a"], data=[[n] for n in range(50)])}, step=1)
    run.finish()
    folder = RunFolder(run.dir)
    encode_pending(folder)
    return folder


def sealed(root: Path) -> tuple[RunFolder, Path]:
    folder = record(root)
    return folder, seal_part(folder, folder.parts()[0]).path


def manage(command: str, root: Path, *arguments: str) -> int:
    return main(["--dir", str(root), "manage", command, *arguments])


def faults(root: Path, capsys: Capture) -> list[dict[str, object]]:
    """What ``verify`` finds in the only run, and its exit code says the same."""
    capsys.readouterr()
    code = manage("verify", root, "x", "--json")
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["faults"]
    assert code == bool(found)
    return found


def test_a_whole_run_is_read_and_counted(tmp_path: Path, capsys: Capture) -> None:
    sealed(tmp_path)
    assert manage("verify", tmp_path, "x") == 0
    said = capsys.readouterr().out
    assert said == "Nothing is damaged: 1,004 records in 1 part, 2 files.\n"


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_one_flipped_bit_in_a_segment_is_found(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    _, segment = sealed(tmp_path)
    flip(segment, column_byte(segment, "m.acc"))
    before = segment.read_bytes()
    assert manage(command, tmp_path, "x") == 1
    said = capsys.readouterr().out
    assert "segments/loop.0001.0000.parquet: the column m.acc is damaged (1,000 records)." in said
    assert "Nothing is damaged" not in said
    assert segment.read_bytes() == before  # the other columns can still be read


def test_every_bit_that_changes_a_record_is_found(tmp_path: Path, capsys: Capture) -> None:
    folder, segment = sealed(tmp_path)
    whole, draw = segment.read_bytes(), random.Random(1)
    expected = list(epochal.load(folder.path).view.records())
    for place in draw.sample(range(len(whole)), 60):
        flip(segment, place)
        if not faults(tmp_path, capsys):
            assert list(epochal.load(folder.path).view.records()) == expected, place
        segment.write_bytes(whole)


def test_a_segment_is_made_again_from_its_journal_part(tmp_path: Path, capsys: Capture) -> None:
    folder = record(tmp_path)
    (name,) = folder.parts()
    journal = folder.part_path(name).read_bytes()
    segment = seal_part(folder, name).path
    whole = segment.read_bytes()
    flip(segment, column_byte(segment, "m.acc"))
    folder.part_path(name).write_bytes(journal)
    (fault,) = faults(tmp_path, capsys)
    assert fault["copy"] == "journal/loop.0001.0000.jsonl, which this file was made of"
    assert manage("repair", tmp_path, "x") == 0
    said = capsys.readouterr().out
    assert "made again from its journal part.\nWhat was damaged is repaired.\n" in said
    assert segment.read_bytes() == whole
    assert faults(tmp_path, capsys) == []


@pytest.mark.parametrize("suffix", [".png", ".json"])
def test_a_changed_or_missing_file_is_found(suffix: str, tmp_path: Path, capsys: Capture) -> None:
    folder = record(tmp_path, steps=1)
    (blob,) = (path for path in folder.blobs.iterdir() if path.suffix == suffix)
    flip(blob, blob.stat().st_size // 2)
    (fault,) = faults(tmp_path, capsys)
    assert fault["file"] == f"blobs/{blob.name}"
    assert fault["problem"] == "its content has changed since it was written"
    blob.unlink()
    (fault,) = faults(tmp_path, capsys)
    assert fault["problem"] == "it is missing, and a record names it"


def test_a_checkpoint_that_was_cut_is_found(tmp_path: Path, capsys: Capture) -> None:
    run = epochal.init("p", "x", dir=tmp_path, companion=False, console=False)
    torch.manual_seed(0)
    for folder in (None, tmp_path / "elsewhere"):
        with Checkpoints(run, TrainingState(nn.Linear(4, 4)), folder=folder) as checkpoints:
            path = checkpoints.save(1)
            os.truncate(path / "model.safetensors", 10)
            checkpoints.save(2)
    run.finish()
    found = faults(tmp_path, capsys)
    places = ["checkpoints/step-1", str(tmp_path / "elsewhere/step-1")]
    assert [fault["file"] for fault in found] == places
    assert str(found[0]["problem"]).startswith("model.safetensors has 10 bytes instead of")
    assert found[0]["copy"] == "step-2 is whole, and restore(fallback=True) finds it"
    (run.dir / "checkpoints/latest").write_text("step-99")
    pointer = faults(tmp_path, capsys)[1]
    assert pointer["file"] == "checkpoints/latest"
    assert pointer["problem"] == "names step-99, which is not there"


def test_a_damaged_line_is_found_sealed_or_not(tmp_path: Path, capsys: Capture) -> None:
    folder = record(tmp_path)
    (name,) = folder.parts()
    text = folder.part_path(name).read_bytes()
    folder.part_path(name).write_bytes(text.replace(b'{"log":"metrics"', b'{"lo":"metrics"', 1))
    (fault,) = faults(tmp_path, capsys)
    assert (fault["file"], fault["records"]) == ("journal/loop.0001.0000.jsonl", 1)
    seal_part(folder, name)
    (fault,) = faults(tmp_path, capsys)
    assert (fault["file"], fault["records"]) == ("segments/loop.0001.0000.parquet", 1)


def test_a_line_on_its_way_is_no_damage(tmp_path: Path, capsys: Capture) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    with journal.path().open("ab") as file:
        file.write(b'{"log":')
    assert faults(tmp_path, capsys) == []
    with journal.path().open("ab") as file:
        file.write(b"\0\0\n")
    (fault,) = faults(tmp_path, capsys)
    assert fault["problem"] == "10 bytes at its end are not a whole record"


def test_one_run_never_stops_the_others(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b", "x"):
        record(tmp_path, name, steps=1)
    os.mkfifo(tmp_path / "p/a/journal/loop.0002.0000.jsonl")
    (tmp_path / "p/b/run.json").write_text("[")
    assert main(["--dir", str(tmp_path), "rm", "-y", "x"]) == 0
    capsys.readouterr()
    assert manage("verify", tmp_path, "--all") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("p/a: journal/loop.0002.0000.jsonl: ")
    assert said[1].startswith("p/b: run.json: cannot be read: ")
    assert said[2:] == [
        "1 run in the trash: not read.",
        "2 of 2 runs are incomplete or damaged.",
        "'epochal manage repair --all' repairs what it can.",
    ]


def test_verify_takes_a_run_or_all_and_the_newest_run_by_default(
    tmp_path: Path, capsys: Capture
) -> None:
    assert manage("repair", tmp_path) == 2
    assert "repair takes either a run or --all" in capsys.readouterr().err
    assert manage("verify", tmp_path) == 2
    assert "there is no run 'latest'" in capsys.readouterr().err
    assert manage("verify", tmp_path, "--all") == 0
    assert "There is no run of Epochal in" in capsys.readouterr().out


def test_a_fault_in_reading_one_run_is_told(tmp_path: Path, capsys: Capture) -> None:
    record(tmp_path, "a", steps=1)
    _, segment = sealed(tmp_path)
    (tmp_path / "p/a/checkpoints").symlink_to("checkpoints")  # nothing can be listed there
    flip(segment, column_byte(segment, "m.acc"))
    assert manage("verify", tmp_path, "--all") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("p/a: the run cannot be read: ")
    assert said[1].startswith("p/x: segments/loop.0001.0000.parquet: the column m.acc")
