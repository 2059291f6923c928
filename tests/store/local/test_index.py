from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.layout import write_json
from epochal.journal.segments.parts import is_sealable
from epochal.journal.segments.seal import seal_part
from epochal.store.folder import FolderSource
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal, settle


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def learn(root: Path, cache: Path) -> None:
    with folder_store(root, cache=cache) as store:
        for run in store.runs():
            _ = run.info


def test_a_run_that_has_not_changed_is_not_read_again(root: Path, cache: Path) -> None:
    journal = Journal(root, config={"lr": 1}).metrics(3, loss=2.5).finish()
    settle(root)
    with folder_store(root, cache=cache) as store:
        assert store.run("x").summary("loss").last == 2.5
    size, stat = journal.path().stat().st_size, journal.path().stat()
    journal.path().write_bytes(b"#" * size)
    os.utime(journal.path(), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    run = folder_store(root, cache=cache).run("x")
    assert (run.info.step, run.info.status.state, run.config) == (3, "finished", {"lr": 1})
    assert run.summary("loss").last == 2.5


def test_a_run_that_has_changed_is_read_again(root: Path, cache: Path) -> None:
    journal = Journal(root).metrics(3, loss=2.5)
    settle(root)
    learn(root, cache)
    journal.metrics(4, loss=1.0)
    assert folder_store(root, cache=cache).run("x").info.step == 4


def test_new_labels_are_seen(root: Path, cache: Path) -> None:
    journal = Journal(root).metrics(3, loss=2.5)
    settle(root)
    learn(root, cache)
    journal.folder.labels.write_text('{"name": "shown"}')
    assert folder_store(root, cache=cache).run("shown").facts["name"] == "x"


def index_file(cache: Path) -> Path:
    (found,) = cache.rglob("*.sqlite")
    return found


def hide_journals(root: Path) -> None:
    """Replace every journal by as many other bytes, so that only an index knows its run."""
    for path in root.rglob("*.jsonl"):
        status = path.stat()
        path.write_bytes(b"#" * status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def steps(root: Path, cache: Path) -> dict[str, int | None]:
    with folder_store(root, cache=cache) as store:
        return {run.info.name: run.info.step for run in store.runs()}


def test_the_index_is_in_the_cache_and_the_folder_of_runs_is_not_written_to(
    root: Path, cache: Path
) -> None:
    Journal(root).metrics(3, loss=1).finish()
    settle(root)
    before = sorted(root.rglob("*"))
    learn(root, cache)
    assert index_file(cache).is_file()
    assert sorted(root.rglob("*")) == before
    hide_journals(root)
    assert steps(root, cache) == {"x": 3}


def test_an_index_that_is_deleted_is_made_again(root: Path, cache: Path) -> None:
    Journal(root).metrics(3, loss=1).finish()
    learn(root, cache)
    index_file(cache).unlink()
    assert steps(root, cache) == {"x": 3}
    assert index_file(cache).is_file()


def test_without_any_place_for_an_index_runs_are_listed(root: Path, tmp_path: Path) -> None:
    Journal(root).metrics(1, loss=1)
    (tmp_path / "file").write_text("no folder")
    with folder_store(root, cache=tmp_path / "file" / "cache") as store:
        assert [run.info.step for run in store.runs()] == [1]


@pytest.mark.parametrize("damage", ["header", "middle", "cut"])
def test_a_damaged_index_is_replaced(root: Path, cache: Path, damage: str) -> None:
    for number in range(50):
        Journal(root, f"r{number}").metrics(1, loss=1).finish()
    settle(root)
    learn(root, cache)
    path = index_file(cache)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        start = 0 if damage == "header" else len(content) // 2
        content[start : start + 4096] = b"#" * 4096
    path.write_bytes(content)
    for _ in range(2):
        assert set(steps(root, cache).values()) == {1}
    hide_journals(root)
    assert set(steps(root, cache).values()) == {1}


def test_an_interrupted_list_keeps_what_it_read(root: Path, cache: Path) -> None:
    for number in range(20):
        Journal(root, f"r{number}").metrics(1, loss=1).finish()
    settle(root)
    with folder_store(root, cache=cache) as store:
        first = [run.info.name for run in store.runs()[:5]]
    hide_journals(root)
    with folder_store(root, cache=cache) as store:
        found = [run.info for run in store.runs()[:5]]
    assert [(row.name, row.step) for row in found] == [(name, 1) for name in first]


def test_what_a_killed_reader_had_learnt_is_known_to_the_next(root: Path, cache: Path) -> None:
    for number in range(700):
        Journal(root, f"r{number}").metrics(1, loss=1).finish()
    settle(root)
    code = (
        "import os, signal, sys; from tests.store.local.test_index import *\n"
        "store = folder_store(sys.argv[1], cache=Path(sys.argv[2]))\n"
        "for run in store.runs()[:600]: run.info\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", code, str(root), str(cache)]
    assert subprocess.run(command, check=False).returncode == -9
    hide_journals(root)
    known = [step for step in steps(root, cache).values() if step == 1]
    assert len(known) == 600


def test_two_processes_write_one_index(root: Path, cache: Path) -> None:
    for number in range(300):
        Journal(root, f"r{number}").metrics(number, loss=1).finish()
    settle(root)
    code = (
        "import sys; from tests.store.local.test_index import *\n"
        "sys.stdin.readline(); learn(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(root), str(cache)]
    readers = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(2)]
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.write("go\n")
        reader.stdin.flush()
    for reader in readers:
        reader.communicate()
        assert reader.returncode == 0
    hide_journals(root)
    with folder_store(root, cache=cache) as store:
        assert {run.info.name: run.info.step for run in store.runs()} == {
            f"r{number}": number for number in range(300)
        }
    assert not [*cache.rglob("*.damaged")]


def test_a_run_that_ended_costs_two_stats(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(root).metrics(3, loss=2.5).finish()
    settle(root)
    learn(root, cache)
    touched: list[str] = []
    folder = str(root / "p" / "x")
    for name in ("stat", "lstat", "open", "scandir", "listdir"):
        call = getattr(os, name)

        def counted(
            path: Any, *args: Any, call: Any = call, name: str = name, **options: Any
        ) -> Any:
            if str(path).startswith(folder):
                touched.append(name)
            return call(path, *args, **options)

        monkeypatch.setattr(os, name, counted)
    with folder_store(root, cache=cache) as store:
        touched.clear()  # finding out that it is a run at all
        (run,) = store.runs()
        assert (run.info.step, run.latest("loss")) == (3, 2.5)
        look = touched.count("lstat")
        touched.clear()
        store.refresh()
    assert look <= 2
    assert touched == ["lstat", "lstat"]


def test_an_ended_run_that_goes_on_is_read_again(root: Path, cache: Path) -> None:
    journal = Journal(root).metrics(3, loss=2.5).finish()
    settle(root)
    learn(root, cache)
    with folder_store(root, cache=cache) as store:
        assert store.run("x").info.step == 3
        journal.metrics(4, loss=1.0, attempt=2)
        assert store.refresh() == {"id-x"}
        assert store.run("x").info.step == 4
    assert steps(root, cache) == {"x": 4}


def test_a_run_with_a_writer_that_has_not_finished_is_looked_at(root: Path, cache: Path) -> None:
    journal = Journal(root).metrics(3, loss=2.5).finish()
    journal.metrics(3, loss=2.5, writer="rank-0001")
    settle(root)
    learn(root, cache)
    journal.metrics(9, loss=2.5, writer="rank-0001")
    run = folder_store(root, cache=cache).run("x")
    assert run.summary("loss", rank=1).count == 2


def test_a_folder_that_changed_a_moment_ago_is_looked_at(root: Path, cache: Path) -> None:
    """Within one tick of a coarse clock, a second change would leave no trace in its time."""
    journal = Journal(root).metrics(3, loss=2.5).finish()
    settle(root)
    now = time.time()
    os.utime(journal.folder.journal, (now, now))
    learn(root, cache)
    journal.metrics(4, loss=1.0, attempt=2)
    os.utime(journal.folder.journal, (now, now))
    assert steps(root, cache) == {"x": 4}


def test_old_rows_do_not_fill_the_disk(root: Path, cache: Path) -> None:
    names = ["n" * 100 + str(number) for number in range(2000)]
    journal = Journal(root)
    journal.add({"log": "metrics", "step": 1, "m": dict.fromkeys(names, 1.0)})
    sizes = []
    for step in range(2, 16):
        journal.metrics(step, loss=1)
        settle(root)
        learn(root, cache)
        sizes.append(index_file(cache).stat().st_size)
    assert max(sizes) < 3 * sizes[0] + (1 << 20)


def test_the_index_keeps_every_digit_of_large_integers(root: Path, cache: Path) -> None:
    config = {"seed": 2**127 - 1, "nested": [{"low": -(10**400)}], "exact": 2**64 - 1}
    Journal(root, config=config).metrics(1, loss=1)
    settle(root)
    learn(root, cache)
    hide_journals(root)
    with folder_store(root, cache=cache) as store:
        assert store.run("x").info.config == config
    assert not [*cache.rglob("*.damaged")]


class CoarseRun:
    """A run on a file system whose times are whole seconds, as of NFS servers and FAT."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._journal = Journal(root).metrics(0, loss=0.0)
        self._step = self._labels = 0
        self._attempt = 1
        self._has_ended = False

    def change(self, what: str) -> None:
        """Change the run, then forget all but whole seconds of the times."""
        getattr(self, f"_{what}")()
        for path in (*self._root.rglob("*"), self._root):
            if path.exists():
                second = int(path.stat().st_mtime) * 10**9
                os.utime(path, ns=(second, second))

    def row(self) -> tuple[int, str]:
        """What a list has to show."""
        return self._step, f"name-{self._labels:03d}" if self._labels else "x"

    def _log(self) -> None:
        self._step += 1
        self._attempt += self._has_ended
        self._has_ended = False
        self._journal.metrics(self._step, attempt=self._attempt, loss=1.0)

    def _finish(self) -> None:
        if not self._has_ended:
            self._journal.finish(attempt=self._attempt)
        self._has_ended = True

    def _label(self) -> None:
        """Replace the labels by some of the same size."""
        self._labels += 1
        write_json(self._journal.folder.labels, {"name": f"name-{self._labels:03d}"})

    def _seal(self) -> None:
        for name in self._journal.folder.parts():
            if is_sealable(self._journal.folder, name):
                seal_part(self._journal.folder, name)

    def _rest(self) -> None:
        settle(self._root)


_CHANGES = st.sampled_from(["log", "log", "finish", "label", "label", "seal", "rest"])


@given(st.lists(_CHANGES, min_size=2, max_size=10))
def test_coarse_times_never_leave_an_old_row(changes: list[str]) -> None:
    """Each change is seen by a reader that stays, and by one that starts with the index."""
    with tempfile.TemporaryDirectory() as folder:
        root, cache = Path(folder) / "runs", Path(folder) / "cache"
        run = CoarseRun(root)
        with folder_store(root, cache=cache) as stays:
            for what in ["rest", *changes]:
                run.change(what)
                stays.refresh()
                for store in (stays, folder_store(root, cache=cache)):
                    with contextlib.nullcontext() if store is stays else store:
                        (found,) = store.runs()
                        assert (found.info.step, found.info.name) == run.row()


def test_labels_replaced_twice_in_a_second_are_seen(root: Path, cache: Path) -> None:
    run = CoarseRun(root)
    run.change("finish")
    with folder_store(root, cache=cache) as store:
        for _ in range(5):
            run.change("label")
            store.refresh()
            assert [found.info.name for found in store.runs()] == [run.row()[1]]


def test_runs_whose_rows_cannot_be_stored_are_listed(root: Path, cache: Path) -> None:
    """A full disk, an index that stays locked, a row that cannot be encoded."""
    for number in range(3):
        Journal(root, f"r{number}").metrics(number, loss=1).finish()
    with folder_store(root, cache=cache) as store:
        with sqlite3.connect(index_file(cache)) as other:
            other.execute(
                "create trigger full before insert on runs begin select raise(fail, 'full'); end"
            )
        assert {run.info.name: run.info.step for run in store.runs()} == {"r0": 0, "r1": 1, "r2": 2}
        assert [run.info.name for run in store.runs("summary.loss < 2 and step > 1")] == ["r2"]
    with sqlite3.connect(index_file(cache)) as index:
        assert index.execute("select count(*) from runs").fetchone() == (0,)


def test_a_run_that_a_fault_keeps_from_being_read_is_listed_with_it(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(root, "bad").metrics(1, loss=1).finish()
    Journal(root, "good").metrics(2, loss=1).finish()
    read = FolderSource.poll

    def failing(source: FolderSource) -> bool:
        if source.place.endswith("bad"):
            raise RuntimeError("a fault")
        return read(source)

    monkeypatch.setattr(FolderSource, "poll", failing)
    with folder_store(root, cache=cache) as store:
        found = {run.info.name: run.info.problem for run in store.runs("damaged == 0")}
    assert found["good"] is None
    assert "a fault" in str(found["bad"])
