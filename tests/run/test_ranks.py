"""Ranks of one launch: real processes that find each other through the folder."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import epochal
from epochal.journal import ranks
from epochal.journal.layout import RunFolder
from epochal.journal.process import process_identity
from epochal.store.local.catalog import folder_store
from tests.doubles.journals import of_kind, records, steps
from tests.doubles.scripts import run_folder, run_script, start_script

LOG = "run = start(); run.log({'loss': run.rank}, step=run.rank); print(run.attempt, run.rank)"


def rank(number: int, world_size: int = 2) -> dict[str, str]:
    return {
        "RANK": str(number),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
    }


def read_lines(process: subprocess.Popen[str], number: int) -> None:
    assert process.stdout is not None
    for _ in range(number):
        process.stdout.readline()


@pytest.mark.parametrize("first", [0, 1])
def test_two_ranks_write_into_one_run_whoever_starts_first(tmp_path: Path, first: int) -> None:
    source = f"print('starting', flush=True); {LOG}; input()"
    early = start_script(tmp_path, source, **rank(first))
    read_lines(early, 2 if first == 0 else 1)  # rank 1 waits for rank 0
    late = start_script(tmp_path, source, **rank(1 - first))
    read_lines(late, 2)
    for process in (early, late):
        assert process.communicate("\n", timeout=120)[1] == ""
    folder = RunFolder(run_folder(tmp_path))
    assert [part.writer for part in folder.parts()] == ["loop", "rank-0001"]
    assert steps(folder) == [0, 1]
    assert [r["rank"] for r in of_kind(folder, "run")] == [0, 1]
    assert len({r["id"] for r in of_kind(folder, "run")}) == 1


@pytest.mark.parametrize("waits", [True, False])
def test_each_run_of_a_launch_gets_its_own_ranks_however_slow_one_is(
    tmp_path: Path, waits: bool
) -> None:
    source = """
for name in ("first", "second"):
    with start(name) as run:
        run.log({"loss": 1.0}, step=run.rank)
print(flush=True)
"""
    slow = start_script(tmp_path, "print(flush=True); input()" + source, **rank(1))
    read_lines(slow, 1)
    end = "input()" if waits else ""
    zero = start_script(tmp_path, source + end, **rank(0))
    read_lines(zero, 1)
    if not waits:
        assert zero.wait(120) == 0
    for process in (slow, zero):
        assert process.communicate("\n", timeout=120)[1] == ""
    for name in ("first", "second"):
        folder = RunFolder(run_folder(tmp_path, name))
        assert [part.writer for part in folder.parts()] == ["loop", "rank-0001"]
        assert steps(folder) == [0, 1]


def test_all_ranks_of_a_resumed_run_write_the_same_attempt(tmp_path: Path) -> None:
    assert run_script(tmp_path, LOG)[0] == 0
    source = LOG.replace("start()", "start(resume='must')") + "; input()"
    processes = [start_script(tmp_path, source, **rank(number)) for number in (0, 1)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("2 ")
    for process in processes:
        process.communicate("\n", timeout=120)
    parts = RunFolder(run_folder(tmp_path)).parts()
    assert [part.stem for part in parts] == [
        "loop.0001.0000",
        "loop.0002.0000",
        "rank-0001.0002.0000",
    ]


@pytest.mark.parametrize(("given", "step"), [("", 3), (", resume_step=2", 2)])
def test_every_rank_of_a_resumed_run_counts_on_from_the_same_step(
    tmp_path: Path, given: str, step: int
) -> None:
    assert run_script(tmp_path, "start().log({'a': 1}, step=2)")[0] == 0
    source = f"run = start(resume='must'{given}); run.log({{'a': 1}}); print(run.step); input()"
    processes = [start_script(tmp_path, source, **rank(number)) for number in (0, 1)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{step}\n"
    for process in processes:
        process.communicate("\n", timeout=120)


def test_only_rank_0_prints(tmp_path: Path) -> None:
    source = "run = start(console=True); run.log_step(1, 1., 2, 3., 4., 5., 6.); print(); input()"
    processes = [start_script(tmp_path, source, **rank(number)) for number in (0, 1)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    errors = [process.communicate("\n", timeout=120)[1] for process in processes]
    assert "is recorded in" in errors[0]
    assert errors[1] == ""


def test_a_world_of_one_writes_no_launch_file(tmp_path: Path) -> None:
    assert run_script(tmp_path, LOG, **rank(0, 1))[0] == 0
    assert not (tmp_path / ".launch").exists()


def test_what_a_process_of_an_earlier_launch_published_is_not_believed(tmp_path: Path) -> None:
    meeting = ranks.RankRendezvous(RunFolder(tmp_path / "p" / "old"), 1)
    ranks.publish(tmp_path, "launch", meeting)
    assert ranks.find(tmp_path, "launch", wait_s=0) == meeting
    file = tmp_path / ".launch" / "launch.json"
    told = json.loads(file.read_bytes())
    dead = {**told, "by": {**told["by"], "pid_start": 1.0}}
    file.write_text(json.dumps(dead))
    assert ranks.find(tmp_path, "launch", wait_s=0) == meeting  # it was faster than this process
    file.write_text(json.dumps({**dead, "t": psutil.Process().create_time() - 1}))
    assert ranks.find(tmp_path, "launch", wait_s=0) is None


def test_what_another_machine_published_is_believed_for_some_minutes(tmp_path: Path) -> None:
    ranks.publish(tmp_path, "launch", ranks.RankRendezvous(RunFolder(tmp_path / "p" / "old"), 3))
    file = tmp_path / ".launch" / "launch.json"
    told = json.loads(file.read_bytes())
    told["by"] = {**process_identity(), "host": "elsewhere"}
    file.write_text(json.dumps(told))
    found = ranks.find(tmp_path, "launch", wait_s=0)
    assert found is not None
    assert found.attempt == 3
    file.write_text(json.dumps({**told, "t": told["t"] - 3600}))
    assert ranks.find(tmp_path, "launch", wait_s=0) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"folder": "x"}'])
def test_a_launch_file_that_is_rubbish_is_waited_over(tmp_path: Path, content: str) -> None:
    (tmp_path / ".launch").mkdir()
    (tmp_path / ".launch" / "launch.json").write_text(content)
    assert ranks.find(tmp_path, "launch", wait_s=0) is None


def test_a_rank_without_rank_0_writes_aside_and_moves_over_later(tmp_path: Path) -> None:
    alone = """
    from epochal.journal import ranks
    ranks.find.__kwdefaults__["wait_s"] = 0.1
    run = start()
    import epochal
    run.log({"a": 1, "picture": epochal.Image([[0.0, 1.0]] * 2)}, step=1)
    print(flush=True)
    input()
    run.log({"a": 1}, step=2)
    """
    late = start_script(tmp_path, alone, **rank(1))
    assert late.stdout is not None
    late.stdout.readline()
    assert steps(RunFolder(next((tmp_path / ".launch").iterdir()))) == [1]
    zero = start_script(tmp_path, LOG + "; sys.stdout.flush(); input()", **rank(0))
    assert zero.stdout is not None
    zero.stdout.readline()
    _, err = late.communicate("\n", timeout=120)
    assert "found no run of rank 0" in err
    zero.communicate("\n", timeout=120)
    folder = run_folder(tmp_path)
    assert steps(folder) == [0, 1, 2]
    assert [r["log"] for r in records(folder)].count("finish") == 2
    (picture,) = epochal.load(folder).samples()
    assert (picture.rank, picture.read()[:4]) == (1, b"\x89PNG")


ALONE = """
from epochal.journal import ranks
from epochal.store.local.catalog import folder_store
ranks.find.__kwdefaults__["wait_s"] = 0.1
run = start(config={"lr": 0.1})
run.log({"loss": run.rank}, step=7)
"""


@pytest.mark.parametrize("end", ["", "os._exit(1)"])
def test_ranks_that_never_met_rank_0_are_listed_as_a_run(tmp_path: Path, end: str) -> None:
    for number in (1, 2):
        run_script(tmp_path, ALONE + end, **rank(number, 3))
    with folder_store(tmp_path) as store:
        (run,) = store.runs()
        assert (run.info.name, run.info.project, run.info.step) == ("run", "tests", 7)
        assert run.info.status.state == ("crashed" if end else "finished")
        assert run.info.problem is not None
        assert run.info.problem.startswith("ranks 1, 2 wrote without rank 0")
        assert run.config == {"lr": 0.1}
        assert run.series("loss").values.tolist() == [1.0]
        assert run.series("loss", rank=2).values.tolist() == [2.0]
        assert store.run("tests/run") is run
        store.remove(run)
        assert not store.runs()


def test_what_was_listed_alone_joins_its_run_when_rank_0_appears(tmp_path: Path) -> None:
    run_script(tmp_path, ALONE + "os._exit(1)", **rank(1))
    with folder_store(tmp_path) as store:
        (alone,) = store.runs()
        assert alone.info.problem is not None
        assert run_script(tmp_path, "start().log({'loss': 0}, step=7)", **rank(0))[0] == 0
        store.refresh()
        (run,) = store.runs()
        assert (run.info.problem, run.info.folder) == (None, str(run_folder(tmp_path)))
        assert run.series("loss", rank=1).values.tolist() == [1.0]


def test_the_list_of_a_command_says_which_ranks_wrote_alone(tmp_path: Path) -> None:
    run_script(tmp_path, ALONE, **rank(1))
    said = subprocess.run(
        [sys.executable, "-m", "epochal", "ls", "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "run" in said.stdout
    assert "rank 1 wrote without rank 0" in said.stdout + said.stderr
