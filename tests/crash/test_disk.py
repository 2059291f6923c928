"""Real disks that are full, read-only or gone under a live run."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epochal.exchange.media.types import Image
from epochal.run.run import Run, recorder_of
from tests.conftest import StartRun
from tests.doubles.journals import full_disk, of_kind, records, steps


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=256k", "none", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the space there is."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast


def log_some(run: Run, first: int, end: int) -> None:
    for step in range(first, end):
        run.log({"loss": 1.0, "text": step}, step=step)


def test_a_disk_that_fills_up_costs_records_never_the_training(
    small_disk: Path, start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(dir=small_disk)
    log_some(run, 0, 10)
    ballast = fill(small_disk)
    log_some(run, 10, 1000)
    lost = recorder_of(run).lost_records
    assert lost > 500
    ballast.unlink()
    log_some(run, 1000, 1010)
    run.finish()
    (event,) = of_kind(run.dir, "event")
    assert (event["name"], event["count"]) == ("records-lost", lost)
    assert steps(run.dir) == [*range(1000 - lost), *range(1000, 1010)]
    assert of_kind(run.dir, "finish")[0]["status"] == "finished"
    assert capsys.readouterr().err.count("cannot write") == 1


def test_losses_at_two_times_are_two_events_and_add_up(
    small_disk: Path, start_run: StartRun
) -> None:
    run = start_run(dir=small_disk)
    for beginning in (0, 1000):
        ballast = fill(small_disk)
        log_some(run, beginning, beginning + 900)
        ballast.unlink()
        log_some(run, beginning + 900, beginning + 901)
    run.finish()
    counts = [event["count"] for event in of_kind(run.dir, "event")]
    assert len(counts) == 2
    assert sum(counts) == recorder_of(run).lost_records
    assert len(steps(run.dir)) + sum(counts) == 2 * 901


def test_a_full_disk_at_the_start_is_an_error_that_says_so(
    small_disk: Path, start_run: StartRun
) -> None:
    fill(small_disk)
    with pytest.raises(OSError, match="No space left"):
        start_run(dir=small_disk)


def test_images_on_a_full_disk_are_said_to_be_lost(small_disk: Path, start_run: StartRun) -> None:
    run = start_run(dir=small_disk)
    run.log({"picture": Image(b"\x89PNG\r\n\x1a\n" + bytes(300_000))}, 3)
    run.finish()
    (event,) = of_kind(run.dir, "event")
    assert event["name"] == "blob-lost"
    assert of_kind(run.dir, "blob") == []
    assert list((run.dir / "blobs").iterdir()) == []


def test_a_file_without_space_costs_records_and_is_said_once(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run()
    (part,) = (run.dir / "journal").iterdir()
    with full_disk(part):
        log_some(run, 0, 100)
    log_some(run, 100, 102)
    run.finish()
    assert steps(run.dir) == [100, 101]
    assert [event["count"] for event in of_kind(run.dir, "event")] == [100]
    assert recorder_of(run).lost_records == 100
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_a_read_only_folder_refuses_a_new_run_and_names_itself(
    small_disk: Path, start_run: StartRun
) -> None:
    mount("-o", "remount,ro", str(small_disk))
    with pytest.raises(OSError, match="Read-only file system") as raised:
        start_run(dir=small_disk)
    assert str(small_disk) in str(raised.value)


@pytest.fixture
def forbid() -> Iterator[Callable[..., None]]:
    """Takes the right to change files away even from root, until the test ends."""
    forbidden: list[Path] = []

    def change(*paths: Path) -> None:
        for path in paths:
            done = subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False)
            if done.returncode != 0:
                pytest.skip("files cannot be made immutable here")
            forbidden.append(path)

    if shutil.which("chattr") is None:
        pytest.skip("there is no chattr here")
    yield change
    for path in forbidden:
        subprocess.run(["chattr", "-i", str(path)], check=True)


def test_a_folder_that_may_not_change_any_more_keeps_the_open_file_growing(
    start_run: StartRun, forbid: Callable[..., None]
) -> None:
    run = start_run()
    log_some(run, 0, 10)
    forbid(run.dir, (run.dir / "journal"))
    log_some(run, 10, 20)
    run.log({"picture": Image(b"GIF89a")}, 20)
    run.finish()
    assert steps(run.dir) == list(range(20))
    assert of_kind(run.dir, "event")[0]["name"] == "blob-lost"


def test_a_file_that_may_not_change_any_more_is_followed_by_another(
    start_run: StartRun, forbid: Callable[..., None]
) -> None:
    run = start_run()
    log_some(run, 0, 10)
    forbid(next((run.dir / "journal").iterdir()))
    log_some(run, 10, 20)
    run.finish()
    assert steps(run.dir) == list(range(20))
    assert recorder_of(run).lost_records == 0


def test_lost_permission_costs_records_until_it_comes_back(
    start_run: StartRun, forbid: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run()
    (part,) = (run.dir / "journal").iterdir()
    forbid(part, (run.dir / "journal"))
    log_some(run, 0, 10)
    subprocess.run(["chattr", "-i", str(part)], check=True)
    log_some(run, 10, 20)
    run.finish()
    assert steps(run.dir) == list(range(10, 20))
    assert [event["count"] for event in of_kind(run.dir, "event")] == [10]
    assert capsys.readouterr().err.count("Operation not permitted") == 1


def test_a_file_where_the_project_should_be_is_named(tmp_path: Path, start_run: StartRun) -> None:
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(OSError, match="runs"):
        start_run()


def test_a_folder_deleted_under_a_live_run_is_whole_at_the_end(
    tmp_path: Path, start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(config={"lr": 0.1})
    log_some(run, 0, 50)
    shutil.rmtree(tmp_path / "runs")
    log_some(run, 50, 60)
    run.finish()
    assert steps(run.dir) == list(range(60))
    assert (run.dir / "run.json").exists()
    assert records(run.dir)[-1]["log"] == "finish"
    assert recorder_of(run).lost_records == 0
    assert "was removed while the run was writing it" in capsys.readouterr().err


def test_a_program_that_closes_every_descriptor_loses_nothing(start_run: StartRun) -> None:
    run = start_run()
    log_some(run, 0, 5)
    child = os.fork()
    if child == 0:
        # In a child of its own, so that the test runner keeps its descriptors.
        run.log({"a": 1}, step=5)
        os.closerange(3, 1000)
        run.log({"a": 1}, step=6)
        run.log({"a": 1}, step=7)
        os._exit(0)
    os.waitpid(child, 0)
    assert sorted(steps(run.dir)) == [0, 1, 2, 3, 4, 5, 6, 7]


def make_disk(image: Path, folder: Path) -> None:
    if os.getuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root can mount a disk, and mkfs.ext4 makes it")
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], check=True)
    folder.mkdir()
    mount("-o", "loop,errors=continue", str(image), str(folder))


def test_after_a_flush_a_disk_that_failed_has_everything(
    tmp_path: Path, small_disk: Path, start_run: StartRun
) -> None:
    mount("-o", "remount,size=12m", str(small_disk))
    image, folder, copy = small_disk / "image", tmp_path / "ext4", tmp_path / "copy"
    make_disk(image, folder)
    try:
        run = start_run(dir=folder, companion=False)
        log_some(run, 0, 10)
        run.flush()
        ballast = fill(small_disk)  # the disk is a file, and gets EIO where it cannot grow
        log_some(run, 10, 20_000)
        for step in (20_000, 20_001):
            with pytest.raises(OSError, match=r"Errno (5|28)"):
                run.flush()
            log_some(run, step, step + 1)
        ballast.unlink()
        mount("-o", "remount,size=64m", str(small_disk))
        run.flush()
        shutil.copyfile(image, tmp_path / "image")  # what a power cut leaves
        run.finish()
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    copy.mkdir()
    mount("-o", "loop,ro", str(tmp_path / "image"), str(copy))
    try:
        assert steps(copy / run.dir.relative_to(folder)) == list(range(20_002))
    finally:
        subprocess.run(["umount", str(copy)], check=True)
