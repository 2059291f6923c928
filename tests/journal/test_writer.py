import os
import resource
import shutil
import threading
from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from epochal.journal.line import now
from tests.doubles.journals import (
    append_step,
    descriptor_of,
    failing_sync,
    full_disk,
    of_kind,
    open_writer,
    steps,
)


def put(descriptor: int, path: str) -> int:
    """Have a descriptor lead to another file; gives a copy of what it led to."""
    copy = os.dup(descriptor)
    other = os.open(path, os.O_RDWR)
    os.dup2(other, descriptor)
    os.close(other)
    return copy


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for step in range(100):
        append_step(writer, step)
    assert steps(tmp_path) == list(range(100))
    writer.close()


def test_each_part_starts_with_a_header_and_none_is_lost_between(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=300)
    for step in range(200):
        append_step(writer, step)
    writer.close()
    parts = RunFolder(tmp_path).parts()
    assert len(parts) > 10
    assert [part.part for part in parts] == list(range(len(parts)))
    assert len(of_kind(tmp_path, "run")) == len(parts)
    assert steps(tmp_path) == list(range(200))


def test_a_file_that_exists_is_never_written_to(tmp_path: Path) -> None:
    taken = tmp_path / "journal" / "loop.0001.0000.jsonl"
    taken.parent.mkdir()
    taken.write_bytes(b"somebody else's\n")
    append_step(open_writer(tmp_path), 1)
    assert taken.read_bytes() == b"somebody else's\n"
    assert (tmp_path / "journal" / "loop.0001.0001.jsonl").exists()


@pytest.mark.parametrize("part_bytes", [500, 64 * 1024 * 1024])
def test_eight_threads_write_every_record_once(tmp_path: Path, part_bytes: int) -> None:
    writer = open_writer(tmp_path, part_bytes=part_bytes)

    def write(first: int) -> None:
        for step in range(first, first + 500):
            append_step(writer, step)

    threads = [threading.Thread(target=write, args=(n * 500,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(steps(tmp_path)) == list(range(4000))


def test_closing_twice_and_appending_afterwards_do_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.close()
    writer.close()
    append_step(writer, 1)
    assert steps(tmp_path) == []


def test_a_full_disk_is_said_once_counted_and_survived(tmp_path: Path) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path, on_fault=said.append)
    append_step(writer, 0)
    with full_disk(writer.path):
        for step in range(1, 6):
            append_step(writer, step)
        assert writer.lost == writer.lost_total == 5
    append_step(writer, 6)
    append_step(writer, 7)
    writer.close()
    assert steps(tmp_path) == [0, 6, 7]
    (lost,) = of_kind(tmp_path, "event")
    assert (lost["name"], lost["count"]) == ("records-lost", 5)
    assert lost["reason"] == "No space left on device"
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert len(RunFolder(tmp_path).parts()) == 1


def test_space_that_comes_back_only_at_the_end_still_gets_the_count(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    with full_disk(writer.path):
        append_step(writer, 1)
    writer.close()
    assert [event["count"] for event in of_kind(tmp_path, "event")] == [1]


def test_a_disk_that_stays_full_raises_nothing_on_close(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    with full_disk(writer.path):
        append_step(writer, 1)
        writer.close()
    assert writer.lost_total == 1


@pytest.mark.parametrize("room", [0, 1, 20, 53, 54, 55])
def test_a_file_that_may_not_grow_is_followed_by_another(tmp_path: Path, room: int) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 10, at=1.5)
    full = writer.path.stat().st_size + room
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        for step in range(11, 15):
            append_step(writer, step, at=1.5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.close()
    assert steps(tmp_path) == [10, 11, 12, 13, 14]
    assert writer.lost_total == 0
    assert len(RunFolder(tmp_path).parts()) > 1


def test_a_folder_deleted_under_the_writer_comes_back_with_everything(tmp_path: Path) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path / "run", on_fault=said.append)
    for step in range(10):
        append_step(writer, step)
    shutil.rmtree(tmp_path / "run")
    append_step(writer, 10, at=now() + 2)
    append_step(writer, 11)
    assert steps(tmp_path / "run") == list(range(12))
    assert writer.lost_total == 0
    assert "was removed while the run was writing it" in said[0]
    writer.close()


def test_a_folder_deleted_just_before_the_end_comes_back_too(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    append_step(writer, 0)
    shutil.rmtree(tmp_path / "run")
    append_step(writer, 1)
    writer.close()
    assert steps(tmp_path / "run") == [0, 1]


def test_a_place_that_cannot_be_made_anew_is_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path / "run", on_fault=said.append)
    append_step(writer, 0)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("a file in the way")
    append_step(writer, 1, at=now() + 2)
    append_step(writer, 2, at=now() + 4)
    (tmp_path / "run").unlink()
    append_step(writer, 3, at=now() + 6)
    writer.close()
    assert steps(tmp_path / "run") == [0, 1, 2, 3]
    assert writer.lost_total == 0
    assert "Not a directory" in said[0]


def test_records_that_could_never_be_saved_are_counted_at_the_end(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    append_step(writer, 0)
    append_step(writer, 1)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("a file in the way")
    writer.close()
    assert writer.lost_total == 2


def test_threads_lose_nothing_while_the_folder_is_deleted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")

    def write(first: int) -> None:
        for step in range(first, first + 2000):
            # Times that run a thousand times faster make every few records look at the file.
            append_step(writer, step, at=now() + step)

    threads = [threading.Thread(target=write, args=(n * 2000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(steps(tmp_path / "run")) == list(range(8000))


def test_a_run_folder_that_is_moved_is_followed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    append_step(writer, 1, at=now() + 2)
    writer.close()
    assert steps(tmp_path / "moved") == [1]


def test_a_descriptor_closed_by_the_program_is_replaced(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 0)
    os.close(descriptor_of(writer.path))
    for step in (1, 2, 3):
        append_step(writer, step)
    writer.close()
    assert steps(tmp_path) == [0, 1, 2, 3]
    assert writer.lost_total == 0


def test_a_descriptor_closed_last_of_all_does_no_harm(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 0)
    os.close(descriptor_of(writer.path))
    writer.close()
    assert steps(tmp_path) == [0]


def test_a_descriptor_that_became_somebody_elses_is_never_closed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    descriptor = descriptor_of(writer.path)
    (tmp_path / "other").touch()
    os.close(put(descriptor, str(tmp_path / "other")))
    writer.close()
    os.fstat(descriptor)
    os.close(descriptor)


def test_a_descriptor_that_became_somebody_elses_never_gets_a_record(tmp_path: Path) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path, on_fault=said.append)
    append_step(writer, 0)
    descriptor = descriptor_of(writer.path)
    (tmp_path / "other").touch()
    os.close(put(descriptor, str(tmp_path / "other")))
    append_step(writer, 1, at=now() + 0.002)
    append_step(writer, 2)
    writer.close()
    os.close(descriptor)
    assert (tmp_path / "other").read_bytes() == b""
    assert steps(tmp_path) == [0, 1, 2]
    assert "lost its file descriptor" in said[0]


def test_nor_does_one_that_is_taken_while_the_disk_is_full(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    descriptor = descriptor_of(writer.path)
    with full_disk(writer.path):
        append_step(writer, 0, at=1.5)
    (tmp_path / "other").touch()
    os.close(put(descriptor, str(tmp_path / "other")))
    append_step(writer, 1, at=1.5)
    writer.close()
    os.close(descriptor)
    assert (tmp_path / "other").read_bytes() == b""
    assert steps(tmp_path) == [1]
    assert [event["count"] for event in of_kind(tmp_path, "event")] == [1]


def test_a_program_that_closes_all_descriptors_and_opens_files_loses_nothing(
    tmp_path: Path,
) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 0, at=1.5)
    held = descriptor_of(writer.path)
    os.close(held)
    others = [os.open(tmp_path / f"other-{n}", os.O_RDWR | os.O_CREAT) for n in range(10)]
    append_step(writer, 1, at=1.5)
    writer.close()
    assert held not in others
    assert [os.fstat(other).st_size for other in others] == [0] * 10
    assert steps(tmp_path) == [0, 1]
    for other in others:
        os.close(other)


def parts_of(folder: Path) -> list[Path]:
    return [RunFolder(folder).part_path(part) for part in RunFolder(folder).parts()]


def test_a_sync_covers_the_parts_before_and_the_folders(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "project" / "run", part_bytes=300)
    for step in range(10):
        append_step(writer, step)
    with failing_sync(times=0) as synced:
        writer.sync()
        first = set(synced)
        synced.clear()
        writer.sync()
    assert len(parts_of(tmp_path / "project" / "run")) > 2
    assert first >= {
        *parts_of(tmp_path / "project" / "run"),
        *(writer.folder.journal, writer.folder.path, tmp_path / "project", tmp_path),
    }
    assert synced == [writer.path]
    writer.close()


def test_full_parts_that_nobody_flushes_are_synced_in_time(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=200)
    with failing_sync(times=0) as synced:
        for step in range(100):
            append_step(writer, step)
    assert len(parts_of(tmp_path)) - len(synced) < 12
    writer.close()


@pytest.mark.parametrize("part_bytes", [100, 64 * 1024 * 1024])
def test_what_a_failed_sync_leaves_open_is_written_again(tmp_path: Path, part_bytes: int) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path, on_fault=said.append, part_bytes=part_bytes)
    append_step(writer, 0)
    (first, *_), (text, inode) = parts_of(tmp_path), file_of(parts_of(tmp_path)[0])
    with failing_sync(first) as synced:
        writer.sync()
    assert first not in synced
    again = first.read_bytes()
    assert again.startswith(text)  # those who follow the part go on where they are
    assert first.stat().st_ino != inode
    append_step(writer, 1)
    writer.close()
    assert steps(tmp_path) == [0, 1]
    (event,) = of_kind(tmp_path, "event")
    assert (event["name"], event["reason"]) == ("sync-failed", "Input/output error")
    assert len(said) == 1
    assert "Input/output error" in said[0]


def file_of(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_ino


def test_a_disk_that_goes_on_failing_raises_at_each_sync_until_it_has_everything(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path, on_fault=said.append)
    append_step(writer, 0)
    inode = writer.path.stat().st_ino
    first = writer.path
    with failing_sync(times=1000):
        for step in range(1, 4):
            with pytest.raises(OSError, match="Input/output error"):
                writer.sync()
            append_step(writer, step)
    assert first.stat().st_ino == inode
    with failing_sync(times=0) as synced:
        writer.sync()
    assert first.stat().st_ino != inode  # the second fsync of the old file would have succeeded
    assert writer.path in synced
    writer.close()
    assert steps(tmp_path) == [0, 1, 2, 3]
    assert len(parts_of(tmp_path)) == 2
    assert [event["name"] for event in of_kind(tmp_path, "event")] == ["sync-failed"]
    assert len(said) == 1


def test_records_that_the_file_system_has_lost_are_no_success(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 0)
    with open(writer.path, "r+b") as file:  # XFS and btrfs show zeros after such a fault
        file.write(bytes(20))
    with failing_sync(writer.path), pytest.raises(OSError, match="has lost a part of it"):
        writer.sync()
    with pytest.raises(OSError, match="has lost a part of it"):
        writer.sync()
    writer.close()


def test_a_sync_on_a_full_disk_is_no_success(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    with full_disk(writer.path):
        append_step(writer, 0)
        with pytest.raises(OSError, match="No space left on device"):
            writer.sync()
    writer.sync()
    writer.close()
    assert [event["name"] for event in of_kind(tmp_path, "event")] == ["records-lost"]


def test_threads_lose_and_repeat_nothing_while_syncs_fail(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=20_000)

    def write(first: int) -> None:
        for step in range(first, first + 1000):
            append_step(writer, step)

    threads = [threading.Thread(target=write, args=(n * 1000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with failing_sync():
            writer.sync()
    writer.close()
    assert sorted(steps(tmp_path)) == list(range(4000))


def test_a_new_part_that_cannot_be_made_leaves_the_old_one_growing(tmp_path: Path) -> None:
    said: list[str] = []
    writer = open_writer(tmp_path / "run", on_fault=said.append, part_bytes=300)
    (tmp_path / "run").rename(tmp_path / "moved")
    (tmp_path / "run").write_text("a file in the way")
    for step in range(50):
        append_step(writer, step)
    writer.close()
    assert steps(tmp_path / "moved") == list(range(50))
    assert said
    assert "cannot start a new part" in said[0]


def test_a_clock_set_back_does_not_put_off_looking_after_the_file(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    append_step(writer, 0, at=2e9)
    shutil.rmtree(tmp_path / "run")
    append_step(writer, 1, at=1e9)
    assert steps(tmp_path / "run") == [0, 1]
    writer.close()


def test_moving_takes_all_parts_along_and_writing_goes_on(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "aside", part_bytes=300)
    for step in range(10):
        append_step(writer, step)
    assert writer.move_to(RunFolder(tmp_path / "run"), 3)
    append_step(writer, 10)
    writer.close()
    assert steps(tmp_path / "run") == list(range(11))
    assert {part.attempt for part in RunFolder(tmp_path / "run").parts()} == {3}
    assert RunFolder(tmp_path / "aside").parts() == []


def test_moving_never_overwrites_what_is_there(tmp_path: Path) -> None:
    there = open_writer(tmp_path / "run")
    append_step(there, 0)
    there.close()
    writer = open_writer(tmp_path / "aside")
    append_step(writer, 1)
    assert writer.move_to(RunFolder(tmp_path / "run"), 1)
    writer.close()
    assert steps(tmp_path / "run") == [0, 1]


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 0)
    child = os.fork()
    if child == 0:
        append_step(writer, 1)
        os._exit(0)
    os.waitpid(child, 0)
    append_step(writer, 2)
    writer.close()
    assert [part.writer for part in RunFolder(tmp_path).parts()] == [f"child-{child}", "loop"]
    assert steps(tmp_path) == [1, 0, 2]


def test_a_child_that_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    writer.close()
    assert [part.writer for part in RunFolder(tmp_path).parts()] == ["loop"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_a_thread_holds_the_writer_does_not_hang_the_child(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=200)
    stop = threading.Event()

    def write() -> None:
        step = 0
        while not stop.is_set():
            append_step(writer, step)
            step += 1

    thread = threading.Thread(target=write)
    thread.start()
    children = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            append_step(writer, -1)
            os._exit(0)
        children.append(child)
    stop.set()
    thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 10
    writer.close()
    assert steps(tmp_path).count(-1) == 10


def test_between_records_something_can_be_looked_after_once_a_second(tmp_path: Path) -> None:
    writer, looks = open_writer(tmp_path), []
    writer.on_tick = lambda: looks.append(1)
    for tenth in range(50):
        append_step(writer, tenth, at=1_000.0 + tenth / 10)
    writer.close()
    assert len(looks) == 5
