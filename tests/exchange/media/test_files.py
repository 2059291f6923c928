"""Files that a program keeps with its run, and samples and files as programs read them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as pillow  # noqa: N813

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.exports.files import safe_path
from epochal.journal.blobs import Pixels, encode_pending, store_pixels
from epochal.journal.layout import RunFolder
from epochal.run.run import Run
from tests.conftest import StartRun
from tests.doubles.journals import failing_sync, of_kind


@pytest.fixture
def run(start_run: StartRun) -> Run:
    return start_run(companion=False)


def dropped(run: Run) -> list[str]:
    events = of_kind(run.dir, "event")
    return [event["reason"] for event in events if event["name"] == "value-dropped"]


def test_a_file_is_kept_as_it_was_when_it_was_logged(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "config.yaml"
    for step, text in enumerate(["lr: 1", "lr: 2", "lr: 1"]):
        source.write_text(text)
        run.log_file(source, step=step)
    source.unlink()
    assert [(file.name, file.step, file.bytes) for file in run.files()] == [
        ("config.yaml", 0, 5),
        ("config.yaml", 1, 5),
        ("config.yaml", 2, 5),
    ]
    assert [file.path.read_text() for file in run.files()] == ["lr: 1", "lr: 2", "lr: 1"]
    assert len(list((run.dir / "blobs").iterdir())) == 2
    read = epochal.load(run.dir).files("config.yaml")
    assert [file.read() for file in read] == [b"lr: 1", b"lr: 2", b"lr: 1"]


def test_a_folder_is_kept_file_by_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "pixels.raw").write_bytes(b"own format")
    (tmp_path / "out" / "report.html").write_text("<p>")
    (tmp_path / "out" / "gone").symlink_to("nowhere")
    os.link(tmp_path / "out" / "report.html", tmp_path / "linked.html")
    (tmp_path / "out" / "link.html").symlink_to(tmp_path / "linked.html")
    run.log_file(tmp_path / "out", "evaluation/1")
    files = {file.name: file for file in run.files()}
    assert sorted(files) == [
        "evaluation/1/deep/pixels.raw",
        "evaluation/1/link.html",
        "evaluation/1/report.html",
    ]
    # A raw file is one that waits to be encoded.
    assert files["evaluation/1/deep/pixels.raw"].path.suffix == ".bin"
    assert files["evaluation/1/report.html"].media_type == "text/html"
    (reason,) = dropped(run)
    assert reason.endswith("gone cannot be kept: No such file or directory.")


def test_what_cannot_be_kept_is_one_sentence_each(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "many").mkdir()
    for number in range(1001):
        (tmp_path / "many" / str(number)).touch()
    (tmp_path / "empty").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        given: list[Any] = ["missing.pt", "pipe", "socket", "/dev/zero", "many", "empty", None, 3]
        for path in (*given, *given):
            run.log_file(path)
    run.log({"loss": 1.0})
    assert of_kind(run.dir, "file") == []
    assert dropped(run) == [
        "'missing.pt': missing.pt cannot be kept: No such file or directory.",
        "'pipe': pipe cannot be kept: it is not a regular file.",
        "'socket': socket cannot be kept: No such device or address.",
        "'/dev/zero': /dev/zero cannot be kept: it is not a regular file.",
        "the folder 'many' has more than 1,000 files. Pack it into one file with"
        " shutil.make_archive and log that.",
        "the folder 'empty' has no files that can be read.",
        "log_file takes a path, not a NoneType.",
        "log_file takes a path, not a int.",
    ]
    assert len(capsys.readouterr().err.splitlines()) == len(given)


def test_a_file_beyond_the_budget_is_skipped_and_smaller_ones_are_kept(
    start_run: StartRun, tmp_path: Path
) -> None:
    run = start_run(companion=False, samples_gb=0.001)
    large, small = tmp_path / "large", tmp_path / "small"
    with large.open("wb") as file:
        file.truncate(10**10)
    small.write_bytes(b"x")
    for path in (large, large, small):
        run.log_file(path)
    run.finish()
    assert [record["name"] for record in of_kind(run.dir, "file")] == ["small"]
    assert "would exceed the limit of 976.6 KiB (the setting samples_gb)" in dropped(run)[0]
    (counts,) = (e for e in of_kind(run.dir, "event") if e["name"] == "value-counts")
    assert counts["dropped"] == {"(samples)": 2}


def test_samples_are_read_with_their_values(run: Run, tmp_path: Path) -> None:
    pictures = [epochal.Image(np.full((4, 4), shade), caption=f"{shade}") for shade in (0.0, 1.0)]
    rows = [{"prompt": "2 + 2", "picture": pillow.new("RGB", (3, 3)), "reward": 1.0}]
    run.log({"digits": pictures, "answers": rows, "text": "Once"}, step=7)
    samples = epochal.load(run.dir).samples()
    assert [(one.name, one.step, one.index, one.caption) for one in samples] == [
        ("digits", 7, 0, "0.0"),
        ("digits", 7, 1, "1.0"),
        ("answers", 7, None, None),
        ("text", 7, None, None),
    ]
    first, second, table, text = samples
    assert first.data.startswith(b"\x89PNG")
    with pillow.open(second.save(tmp_path / "new" / "second.png")) as picture:
        assert picture.size == (4, 4)
    (row,) = table.data
    assert (row["prompt"], row["reward"]) == ("2 + 2", 1.0)
    with pillow.open(row["picture"].path) as picture:
        assert picture.size == (3, 3)
    assert (text.data, text.media_type) == ("Once", "text/plain")
    with pytest.raises(UsageError, match="is a text"):
        text.path  # noqa: B018


def test_only_files_that_records_name_are_handed_out(run: Run) -> None:
    masks = {"cells": np.ones((4, 4), int)}
    run.log({"picture": epochal.Image(np.zeros((4, 4)), masks=masks)}, step=0)
    run.write({"log": "file", "t": 1.0, "step": 0, "name": "x", "file": "uncommitted.patch"})
    run.write({"log": "file", "t": 1.0, "step": 0, "name": "x", "file": "../run.json"})
    (run.dir / "blobs" / "uncommitted.patch").write_bytes(b"secret")
    (run.dir / "blobs" / "other.png").write_bytes(b"other")
    view = epochal.load(run.dir).view
    (record,) = of_kind(run.dir, "blob")
    assert view.blob(record["masks"][0]["file"]).startswith(b"\x89PNG")
    for file in ("uncommitted.patch", "../run.json", "other.png", f"{record['file']}.raw"):
        with pytest.raises(UsageError):
            view.blob(file)


def test_the_command_line_lists_and_saves_them(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "config.yaml"
    for step in (5, 6):
        source.write_text(str(step))
        run.log_file(source, step=step)
        run.log({"val/digits": [epochal.Image(np.zeros((2, 2)))] * 2, "note": "Hi"}, step=step)
    run.log_file(source, "note", step=6)
    run.log_file(source, "../../up.yaml", step=6)
    run.log_file(source, f"{'ä' * 300}.yaml", step=6)
    run.finish()
    command = ["--dir", str(tmp_path / "runs")]
    assert main([*command, "show", "run"]) == 0
    assert "samples       6 samples and 4 files: --files" in capsys.readouterr().out
    assert main([*command, "show", "run", "--files", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 11
    assert main([*command, "show", "run", "--files"]) == 0
    assert "val/digits" in capsys.readouterr().out
    folder = tmp_path / "saved"
    assert main([*command, "export", "run", "--format", "files", "-o", str(folder)]) == 0
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    (long,) = (name for name in found if name.startswith("ä"))
    assert found == {
        "config.yaml",
        "config.step-000005.yaml",
        "note",
        "note-2/step-000005.txt",
        "note-2/step-000006.txt",
        "up.yaml",
        *(f"val/digits/step-00000{step}-{index}.png" for step in (5, 6) for index in (0, 1)),
        long,
    }
    assert (folder / "config.yaml").read_text() == "6"
    chosen = ["--name", "val/*", "-o", str(tmp_path / "some")]
    assert main([*command, "export", "run", "--format", "files", *chosen]) == 0
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["val"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/etc/passwd", "etc/passwd"),
        ("../../a", "a"),
        ("a/./..//b", "a/b"),
        ("..", "unnamed"),
        ("C:\\x", "C__x"),
        ("a\0b\nc", "a_b_c"),
        ("dot.", "dot"),
    ],
)
def test_a_name_never_leads_out_of_its_folder(name: str, path: str) -> None:
    assert str(safe_path(name)) == path


def test_masks_tables_and_boxes_are_saved_and_a_bad_sample_costs_nothing_else(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grey = np.zeros((4, 4), np.uint8)
    boxes = [{"box": (0, 0, 2, 2), "label": "cat"}]
    masks = {"a/b": {"mask": grey, "labels": {1: "cat"}}}
    bad = {"log": "blob", "step": 3, "media_type": "application/vnd.epochal.table+json"}
    (run.dir / "blobs").mkdir()
    (run.dir / "blobs" / "bad.json").write_text('{"columns": 3}')
    run.write({**bad, "name": "damaged", "file": "bad.json"})
    run.write({**bad, "name": "odd", "file": "x.png\0.y", "media_type": "image/png"})
    run.log({"seen": epochal.Image(grey, caption="one", boxes=boxes, masks=masks)}, step=3)
    run.log({"rows": [{"picture": epochal.Image(grey), "score": 0.5}]}, step=3)
    run.log({"x" * 2000: "text"}, step=3)
    run.finish()
    command, folder = ["--dir", str(tmp_path / "runs")], tmp_path / "saved"
    assert main([*command, "export", "run", "--format", "files", "-o", str(folder)]) == 1
    assert "2 files could not be saved. The first error: 'damaged' of" in capsys.readouterr().out
    assert sorted(path.name for path in (folder / "seen").iterdir()) == [
        "step-000003.mask-a_b.png",
        "step-000003.png",
    ]
    (about,) = map(json.loads, (folder / "samples.jsonl").read_text().splitlines())
    assert (about["path"], about["boxes"][0]["label"]) == ("seen/step-000003.png", "cat")
    assert about["masks"][0]["file"] == "step-000003.mask-a_b.png"
    rows = (folder / "rows" / "step-000003.csv").read_text()
    assert rows == "picture,score\nstep-000003/picture-0.png,0.5\n"
    assert (folder / "rows" / "step-000003" / "picture-0.png").is_file()
    assert main([*command, "export", "run", "-o", str(tmp_path / "run.html")]) == 0
    assert main([*command, "show", "run", "--files"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 120
    assert [one.name for one in epochal.load(run.dir).samples("se*")] == ["seen"]


def test_a_picture_is_on_the_disk_before_its_pixels_are_deleted(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    pixels = Pixels(bytes(12), 2, 2, 3)
    picture = folder.blobs / store_pixels(folder, pixels)
    with failing_sync(picture, folder.blobs, times=2), pytest.raises(OSError, match="Input/output"):
        encode_pending(folder)
    assert picture.with_name(f"{picture.name}.raw").exists()
    with failing_sync(times=0) as synced:
        encode_pending(folder)
    assert [path.parent for path in synced] == [folder.blobs, folder.path]
    assert list(folder.blobs.iterdir()) == [picture]
