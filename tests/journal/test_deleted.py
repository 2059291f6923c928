import os
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epochal.journal.deleted import DeletedParts, OrphanedPart
from epochal.journal.line import encode, now
from epochal.journal.writer import JournalWriter
from tests.doubles.journals import append_step, descriptor_of, open_writer, steps

APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT


@contextmanager
def write_in_flight(writer: JournalWriter) -> Iterator[int]:
    """A descriptor of the file of now, as the kernel has one for a thread inside a write."""
    descriptor = os.dup(descriptor_of(writer.path))
    yield descriptor
    os.close(descriptor)


def line(step: int) -> bytes:
    return encode({"log": "metrics", "t": 1.0, "step": step, "m": {"a": step}})


def deleted_file(folder: Path, text: bytes) -> int:
    descriptor = os.open(folder / "part", APPENDING)
    os.write(descriptor, text)
    (folder / "part").unlink()
    return descriptor


def test_a_write_that_ends_in_the_deleted_file_is_there_after_the_next_look(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    append_step(writer, 0)
    with write_in_flight(writer) as descriptor:
        shutil.rmtree(tmp_path / "run")
        append_step(writer, 1, at=now() + 2)
        os.write(descriptor, line(2))
        append_step(writer, 3, at=now() + 4)
        os.write(descriptor, line(4))
        append_step(writer, 5, at=now() + 6)
        assert steps(tmp_path / "run") == [0, 1, 3, 2, 5, 4]
    writer.close()
    assert sorted(steps(tmp_path / "run")) == [0, 1, 2, 3, 4, 5]


def test_a_write_that_ends_in_the_deleted_file_is_there_after_the_close(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    with write_in_flight(writer) as descriptor:
        shutil.rmtree(tmp_path / "run")
        append_step(writer, 0, at=now() + 2)
        os.write(descriptor, line(1))
        writer.close()
    assert steps(tmp_path / "run") == [0, 1]


def test_late_writes_to_two_deleted_files_are_both_kept(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    with write_in_flight(writer) as first:
        shutil.rmtree(tmp_path / "run")
        append_step(writer, 0, at=now() + 2)
        with write_in_flight(writer) as second:
            shutil.rmtree(tmp_path / "run")
            append_step(writer, 1, at=now() + 4)
            os.write(first, line(2))
            os.write(second, line(3))
    writer.close()
    assert steps(tmp_path / "run") == [0, 1, 2, 3]


def test_half_a_line_is_copied_once_and_whole(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    with write_in_flight(writer) as descriptor:
        shutil.rmtree(tmp_path / "run")
        append_step(writer, 0, at=now() + 2)
        os.write(descriptor, line(1)[:20])
        append_step(writer, 2, at=now() + 4)
        os.write(descriptor, line(1)[20:])
        append_step(writer, 3, at=now() + 6)
    writer.close()
    assert steps(tmp_path / "run") == [0, 2, 3, 1]


def test_a_last_line_without_its_newline_is_kept_at_the_end(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    with write_in_flight(writer) as descriptor:
        os.write(descriptor, line(0).rstrip(b"\n"))
    shutil.rmtree(tmp_path / "run")
    writer.close()
    assert steps(tmp_path / "run") == [0]


def test_a_late_write_that_cannot_be_saved_is_counted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    with write_in_flight(writer) as descriptor:
        shutil.rmtree(tmp_path / "run")
        append_step(writer, 0, at=now() + 2)
        os.write(descriptor, line(1))
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("a file in the way")
    writer.close()
    assert writer.lost_total == 2


def test_a_deleted_file_that_may_not_grow_is_copied_too(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    for step in range(5):
        append_step(writer, step, at=1.0)
    full = writer.path.stat().st_size
    shutil.rmtree(tmp_path / "run")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        append_step(writer, 5, at=1.0)
        writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(steps(tmp_path / "run")) == [0, 1, 2, 3, 4, 5]
    assert writer.lost_total == 0


def test_a_child_copies_nothing_of_its_parents_deleted_file(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")
    with write_in_flight(writer) as descriptor:
        shutil.rmtree(tmp_path / "run")
        append_step(writer, 0, at=now() + 2)
        os.write(descriptor, line(1))
        child = os.fork()
        if child == 0:
            append_step(writer, 2, at=now() + 4)
            writer.close()
            os._exit(0)
        os.waitpid(child, 0)
    writer.close()
    assert sorted(steps(tmp_path / "run")) == [0, 1, 2]


def test_no_descriptor_is_left_open_after_the_close(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    writer = open_writer(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    append_step(writer, 0, at=now() + 2)
    writer.close()
    assert os.listdir("/proc/self/fd") == before


def test_long_lines_of_threads_are_whole_after_a_deletion(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "run")

    def write(first: int) -> None:
        for step in range(first, first + 100):
            record = {"log": "metrics", "t": 1.0, "step": step, "note": "x" * 20_000}
            writer.append(encode(record), now() + step)

    threads = [threading.Thread(target=write, args=(n * 100,)) for n in range(4)]
    for thread in threads:
        thread.start()
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(steps(tmp_path / "run")) == list(range(400))


def test_a_part_is_let_go_once_it_is_quiet(tmp_path: Path) -> None:
    part = OrphanedPart(deleted_file(tmp_path, b"header\n"), copied=7)
    assert not part.is_quiet(time.monotonic())
    assert part.is_quiet(time.monotonic() + 60)
    part.close()


def test_a_part_that_still_has_its_name_is_not_kept(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "part", APPENDING)
    DeletedParts().adopt(OrphanedPart(descriptor, copied=0))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_line_that_is_not_down_is_handed_out_again(tmp_path: Path) -> None:
    parts, got = DeletedParts(), list[bytes]()

    def write(line: bytes) -> bool:
        got.append(line)
        return True

    parts.adopt(OrphanedPart(deleted_file(tmp_path, b"header\none\ntwo\n"), copied=7))
    assert not parts.collect(lambda line: False)
    assert parts.finish(write) == 0
    assert got == [b"one\n", b"two\n"]


def test_a_descriptor_that_became_somebody_elses_is_neither_read_nor_closed(tmp_path: Path) -> None:
    descriptor = deleted_file(tmp_path, b"header\none\n")
    part = OrphanedPart(descriptor, copied=7)
    other = os.open(tmp_path / "other", APPENDING)
    os.write(other, b"header\nsomebody else's\n")
    os.dup2(other, descriptor)
    assert part.lines(ended=True) == []
    part.close()
    os.close(descriptor)
    os.close(other)
