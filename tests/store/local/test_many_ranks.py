"""A run of a thousand ranks: few open files, and work that grows with the ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from epochal.journal.layout import PartName, rank_writer, run_folders
from epochal.journal.segments.parts import sealable_parts
from epochal.journal.segments.seal import seal_part
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from tests.doubles.lines_run import lines_run
from tests.store.journals import Journal, settle


def ranks(root: Path, count: int) -> Journal:
    journal = Journal(root)
    for rank in range(count):
        writer = "loop" if rank == 0 else f"rank-{rank:04d}"
        journal.metrics(1, loss=float(rank), writer=writer).metrics(2, loss=0.5, writer=writer)
    return journal


def num_records(root: Path) -> int:
    with folder_store(root) as store:
        return store.run("x").info.records


def read_every_rank(root: Path) -> int:
    with folder_store(root) as store:
        run = store.run("x")
        (metric,) = run.metrics()
        return sum(len(run.series("loss", rank=rank)) for rank in metric.ranks)


def test_many_ranks_are_read_and_sealed_with_few_open_files(tmp_path: Path) -> None:
    ranks(tmp_path / "many", 1000)
    ranks(tmp_path / "sealed", 300)
    settle(tmp_path)
    code = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
        "from pathlib import Path; from tests.store.local.test_many_ranks import *\n"
        "from tests.store.sealing import seal_all\n"
        "many, sealed = (Path(sys.argv[1]) / name for name in ('many', 'sealed'))\n"
        "assert num_records(many) == 3000\n"
        "assert read_every_rank(many) == 2000\n"
        "seal_all(sealed)\n"
        "assert num_records(sealed) == 900\n"
        "assert read_every_rank(sealed) == 600\n"
        "assert len(os.listdir('/proc/self/fd')) < 180\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_work_for_all_ranks_grows_with_their_number(tmp_path: Path) -> None:
    lines = {}
    for count in (40, 160):
        ranks(tmp_path / str(count), count)
        read_every_rank(tmp_path / str(count))
        lines[count] = lines_run(partial(read_every_rank, tmp_path / str(count)))
    assert lines[160] < 5 * lines[40]


def seal_finished(root: Path) -> None:
    (folder,) = run_folders(root)
    for name in sealable_parts(folder):
        seal_part(folder, name)


def test_the_work_of_sealing_grows_with_the_number_of_ranks(tmp_path: Path) -> None:
    lines = {}
    for count in (4, 40, 160):
        journal = ranks(tmp_path / str(count), count)
        for rank in range(count):
            journal.add({"log": "finish", "status": "finished"}, writer=rank_writer(rank))
        lines[count] = lines_run(partial(seal_finished, tmp_path / str(count)))
    assert lines[160] < 4.4 * lines[40]


def test_journals_of_many_ranks_take_no_open_file(tmp_path: Path) -> None:
    count, steps = 40, 1_000
    folder = Journal(tmp_path).folder
    for rank in range(count):
        lines = (
            f'{{"log":"metrics","t":{1000 + step}.5,"step":{step},"m":{{"loss":{step + rank}.25}}}}'
            for step in range(steps)
        )
        header = f'{{"log":"run","t":1.0,"v":1,"rank":{rank}}}'
        path = folder.part_path(PartName(rank_writer(rank), 1, 0))
        path.write_text("\n".join([header, *lines, ""]))
    run = load_run(folder.path)
    before = num_open_files()
    assert run.info.records == count * (steps + 1)
    assert num_open_files() <= before
    series = run.series("loss", rank=count - 1)
    assert series.values.tolist() == [step + count - 1 + 0.25 for step in range(steps)]


def num_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
