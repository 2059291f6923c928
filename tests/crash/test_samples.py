"""Samples and files outlive whatever ends the process that logs them."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as pillow  # noqa: N813

import epochal
from epochal.journal.blobs import RAW, blob_bytes, encode_pending, files_of, read_raw
from epochal.journal.layout import RunFolder
from epochal.run.run import Run
from tests.crash.crash_points import Child, Fault, crashes
from tests.crash.test_disk import fill, small_disk
from tests.crash.test_kill import acknowledged, wait_for_first
from tests.doubles.journals import of_kind, steps

__all__ = ["small_disk"]

SIDE = 48


@pytest.fixture(autouse=True)
def without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


THREADS = 4


def picture(step: int, thread: int = 0) -> np.ndarray:
    """A picture that no other step and thread has."""
    return np.random.default_rng([step, thread]).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


def pixels(data: bytes) -> np.ndarray:
    with pillow.open(io.BytesIO(data)) as opened:
        return np.asarray(opened)


def check_files(folder: RunFolder) -> dict[tuple[str, int], str]:
    """Every file that a record names can be read; its name by that of the record and its step."""
    records = [record for kind in ("blob", "file") for record in of_kind(folder, kind)]
    for record in records:
        for file in files_of(record):
            assert blob_bytes(folder, file)
    for path in folder.blobs.glob(f"*{RAW}"):
        with contextlib.suppress(FileNotFoundError):  # the companion was quicker
            read_raw(path.read_bytes())  # none is half written
    return {(record["name"], record["step"]): record["file"] for record in records}


# -- kill -9 --------------------------------------------------------------------------------------


def log_for_ever(run: Run, counters: memoryview[int], thread: int) -> None:
    for step in range(2**31):
        run.log({f"picture{thread}": epochal.Image(picture(step, thread)), "same": SAME}, step=step)
        counters[thread] = step + 1


SAME = epochal.Image(np.zeros((8, 8), np.uint8))


def main(folder: str, counters_file: str, companion: str) -> None:
    run = epochal.init(
        "crash", "killed", dir=folder, console=False, companion=companion == "companion"
    )
    with open(counters_file, "r+b") as file:
        counters = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
    for thread in range(1, THREADS):
        arguments = (run, counters, thread)
        threading.Thread(target=log_for_ever, args=arguments, daemon=True).start()
    log_for_ever(run, counters, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("companion", ["companion", "alone"])
def test_every_acknowledged_picture_is_there_after_a_kill(
    tmp_path: Path, companion: str, seed: int
) -> None:
    counters = tmp_path / "counters"
    counters.write_bytes(bytes(8 * THREADS))
    arguments = [str(tmp_path), str(counters), companion]
    command = [sys.executable, "-m", "tests.crash.test_samples", *arguments]
    with subprocess.Popen(command) as child:
        wait_for_first(counters, child)
        time.sleep(random.Random(seed).uniform(0, 0.5))
        child.kill()
    folder = RunFolder(tmp_path / "crash" / "killed")
    files = check_files(folder)
    for thread, count in enumerate(acknowledged(counters)):
        for step in range(count):
            file = files[f"picture{thread}", step]
            if step in (0, count - 1):
                assert np.array_equal(pixels(blob_bytes(folder, file)), picture(step, thread))
    if companion == "companion":
        deadline = time.monotonic() + 60
        while list(folder.blobs.glob(f"*{RAW}")):
            assert time.monotonic() < deadline, "the companion did not encode the rest"
            time.sleep(0.05)
    assert encode_pending(folder)
    assert check_files(folder) == files
    assert len({file for (name, _), file in files.items() if name == "same"}) == 1


# -- the n-th call of the file system -------------------------------------------------------------


def test_a_picture_and_a_file_that_are_logged(original: Path) -> None:
    original.mkdir()
    (original / "notes.txt").write_text("notes")

    def log(folder: Path, child: Child) -> None:
        run = epochal.init("tests", "run", dir=folder / "runs", console=False, companion=False)
        child.attempt(lambda: run.log({"picture": epochal.Image(picture(0))}, step=0))
        child.acknowledge("picture")
        child.attempt(lambda: run.log_file(folder / "notes.txt", step=0))
        child.acknowledge("notes.txt")
        run.log({"loss": 1.0}, step=1)

    for crash in crashes(original, log):
        folder = RunFolder(crash.folder / "runs" / "tests" / "run")
        found = check_files(folder)
        if crash.fault in (Fault.EXIT, Fault.TORN):
            assert {name for name, _ in found} >= {*crash.acknowledged}, crash
        else:
            assert steps(folder)[-1:] == [1], crash  # the training goes on
        if ("picture", 0) in found:
            data = blob_bytes(folder, found["picture", 0])
            assert np.array_equal(pixels(data), picture(0)), crash


def test_pictures_that_are_encoded(original: Path) -> None:
    run = epochal.init("tests", "run", dir=original / "runs", console=False, companion=False)
    for step in range(2):
        run.log({"picture": epochal.Image(picture(step))}, step=step)
    run.finish()

    def encode(folder: Path, child: Child) -> None:
        child.attempt(lambda: encode_pending(RunFolder(folder / "runs" / "tests" / "run")))

    for crash in crashes(original, encode):
        folder = RunFolder(crash.folder / "runs" / "tests" / "run")
        for step in range(2):
            data = blob_bytes(folder, check_files(folder)["picture", step])
            assert np.array_equal(pixels(data), picture(step)), crash
        assert encode_pending(folder)
        assert not list(folder.blobs.glob(f"*{RAW}"))


def test_a_full_disk_costs_samples_and_files_only(small_disk: Path, tmp_path: Path) -> None:
    run = epochal.init("tests", "run", dir=small_disk, console=False, companion=False)
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(300_000))
    run.log_file(large)
    run.log({"loss": 1.0}, step=0)
    ballast = fill(small_disk)
    run.log({"picture": epochal.Image(picture(1))}, step=1)
    ballast.unlink()
    run.log({"loss": 1.0, "picture": epochal.Image(picture(2))}, step=2)
    run.finish()
    assert steps(run.dir) == [0, 2]
    assert list(check_files(RunFolder(run.dir))) == [("picture", 2)]
    assert {event["name_of"] for event in of_kind(run.dir, "event")} == {str(large), "picture"}
    assert not list((run.dir / "blobs").glob(".*"))


if __name__ == "__main__":
    main(*sys.argv[1:])
