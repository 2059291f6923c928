"""Several runs open in one process: each handle is its own, hooks serve all of them."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

import epochal
from epochal.errors import RunFinishedError
from epochal.journal import fork
from epochal.run.current import OPEN_RUNS
from epochal.run.run import recorder_of
from epochal.run.start import init
from tests.conftest import StartRun
from tests.doubles.companions import companions, wait_for, wait_for_the_end
from tests.doubles.journals import of_kind, records, steps
from tests.doubles.scripts import run_folder, run_script, start_script


def test_two_runs_log_side_by_side(start_run: StartRun) -> None:
    generator, critic = start_run("generator"), start_run("critic")
    for step in range(5):
        generator.log({"loss": step}, step=step)
        critic.log({"loss": -step}, step=10 * step)
    generator.finish()
    critic.log({"loss": 0}, step=100)
    critic.finish("failed", reason="it lost")
    assert steps(generator.dir) == [0, 1, 2, 3, 4]
    assert steps(critic.dir) == [0, 10, 20, 30, 40, 100]
    assert [of_kind(r.dir, "finish")[0]["status"] for r in (generator, critic)] == [
        "finished",
        "failed",
    ]


def test_the_current_run_is_the_one_opened_last_that_is_open(start_run: StartRun) -> None:
    outer = start_run("outer")
    inner = start_run("inner")
    epochal.log({"a": 1}, step=1)
    inner.finish()
    assert epochal.current_run() is outer
    epochal.log({"a": 1}, step=2)
    assert (steps(inner.dir), steps(outer.dir)) == ([1], [2])
    epochal.finish()
    assert outer.state == "finished"
    with pytest.raises(RunFinishedError, match="run 'outer' is finished"):
        epochal.log({"a": 1})


def test_runs_may_finish_in_any_order(start_run: StartRun) -> None:
    runs = [start_run(name) for name in ("a", "b", "c")]
    runs[1].finish()
    assert epochal.current_run() is runs[2]
    runs[2].finish()
    assert epochal.current_run() is runs[0]
    assert list(OPEN_RUNS) == [runs[0]]


def test_a_run_that_this_process_resumes_is_finished_first(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start_run("model")
    first.log({"a": 1})
    other = start_run("other")
    again = start_run("model", resume="must")
    again.log({"a": 1})
    assert (first.state, other.state, recorder_of(again).attempt) == ("finished", "open", 2)
    assert steps(again.dir) == [0, 1]
    assert "'model' is finished before it is resumed" in capsys.readouterr().err


def test_monitors_live_side_by_side(tmp_path: Path) -> None:
    monitors = [epochal.Monitor(2, name, dir=tmp_path, console=False) for name in ("a", "b")]
    for epoch in range(2):
        for monitor in monitors:
            monitor.log(epoch, 1.0, {"loss": 1.0})
    for monitor in monitors:
        assert [record.epoch for record in monitor.history()] == [0, 1]
        monitor.finish()


def test_an_error_inside_nested_blocks_ends_both_as_failed(start_run: StartRun) -> None:
    outer, inner = start_run("outer"), start_run("inner")
    with pytest.raises(ValueError, match="lost"), outer, inner:
        raise ValueError("lost")
    for run in (outer, inner):
        assert of_kind(run.dir, "finish")[0]["reason"] == "ValueError: lost"
        assert [e["name"] for e in of_kind(run.dir, "event")] == ["exception"]


def test_an_error_caught_between_two_blocks_ends_only_the_inner(start_run: StartRun) -> None:
    with start_run("outer") as outer:
        with pytest.raises(ValueError, match="lost"), start_run("inner") as inner:
            raise ValueError("lost")
        epochal.log({"a": 1}, step=3)
    assert of_kind(inner.dir, "finish")[0]["status"] == "failed"
    assert of_kind(outer.dir, "finish")[0]["status"] == "finished"
    assert steps(outer.dir) == [3]


THREE = "runs = [start(name) for name in 'abc']\nfor run in runs: run.log({'x': 1})\n"


def endings(folder: Path) -> list[tuple[str, str | None]]:
    found = []
    for name in "abc":
        (finish,) = of_kind(run_folder(folder, name), "finish")
        assert records(run_folder(folder, name))[-1] == finish
        found.append((finish["status"], finish.get("reason")))
    return found


def test_a_signal_ends_every_open_run(tmp_path: Path) -> None:
    with start_script(tmp_path, THREE + "print(flush=True); time.sleep(600)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    assert endings(tmp_path) == [("terminated", "SIGTERM")] * 3


def test_a_signal_in_the_middle_of_finish_still_writes_the_record(tmp_path: Path) -> None:
    source = THREE + "runs[1].on_finish(lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
    code, _, _ = run_script(tmp_path, source + "runs[1].finish(); time.sleep(600)")
    assert code == -signal.SIGTERM
    assert endings(tmp_path) == [
        ("terminated", "SIGTERM"),
        ("finished", None),
        ("terminated", "SIGTERM"),
    ]


def test_an_exception_ends_every_open_run_whatever_one_of_them_does(tmp_path: Path) -> None:
    source = THREE + "runs[1].on_finish(sys.exit)\nraise ValueError('lost')"
    code, _, err = run_script(tmp_path, source)
    assert code == 1
    assert "ValueError: lost" in err
    assert endings(tmp_path) == [("failed", "ValueError: lost")] * 3


def test_a_script_that_simply_ends_finishes_every_run(tmp_path: Path) -> None:
    code, _, err = run_script(tmp_path, THREE + "runs[2].on_finish(lambda: 1 / 0)")
    assert code == 0
    assert err.count("internal error in on_finish callback") == 1
    assert endings(tmp_path) == [("finished", "the process ended")] * 3


def test_a_hook_that_the_program_put_between_two_runs_still_runs(tmp_path: Path) -> None:
    source = """
    first = start("a")
    previous = signal.getsignal(signal.SIGTERM)

    def mine(number, frame):
        print("mine", flush=True)
        previous(number, frame)

    signal.signal(signal.SIGTERM, mine)
    runs = [first, start("b"), start("c")]
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
    """
    code, out, _ = run_script(tmp_path, source)
    assert (code, out) == (-signal.SIGTERM, "mine\n")
    assert endings(tmp_path) == [("terminated", "SIGTERM")] * 3
    for name in "abc":
        events = of_kind(run_folder(tmp_path, name), "event")
        assert [e["reason"] for e in events] == ["SIGTERM received"]


def test_hooks_stay_until_the_last_run_has_finished(tmp_path: Path) -> None:
    source = """
    before = sys.excepthook, signal.getsignal(signal.SIGTERM)
    hooks = lambda: (sys.excepthook, signal.getsignal(signal.SIGTERM))
    first, second = start("a"), start("b")
    ours = hooks()
    assert ours != before
    first.finish()
    assert hooks() == ours
    third = start("c")
    assert hooks() == ours
    second.finish()
    third.finish()
    assert hooks() == before
    """
    code, _, err = run_script(tmp_path, source)
    assert (code, err) == (0, "")


def test_a_forked_child_writes_to_each_of_two_runs(start_run: StartRun) -> None:
    runs = [start_run(name) for name in ("a", "b")]
    child = os.fork()
    if child == 0:
        for run in runs:
            run.log({"x": 1}, step=1)
        os._exit(0 if start_run("c") is runs[1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for run in runs:
        run.log({"x": 1}, step=2)
        run.finish()
        assert [part.writer for part in recorder_of(run).folder.parts()] == [
            f"child-{child}",
            "loop",
        ]
        assert steps(run.dir) == [1, 2]


def test_a_process_registers_one_fork_hook_however_many_runs_it_had(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: registered.append(hooks))
    monkeypatch.setattr(fork, "_REGISTERED", set())
    before = len(fork._OBJECTS)
    for number in range(5):
        start_run(f"run {number}").finish()
    assert len(registered) == 1
    OPEN_RUNS.clear()
    gc.collect()
    assert len(fork._OBJECTS) <= before


def test_children_of_multiprocessing_join_the_run_that_is_current_again(tmp_path: Path) -> None:
    source = """
    import multiprocessing

    def log():
        start("elsewhere").log({"x": 1}, step=7)

    if __name__ == "__main__":
        outer = start("outer")
        start("inner").finish()
        child = multiprocessing.get_context("fork").Process(target=log)
        child.start(); child.join()
        print(os.environ["EPOCHAL_PARENT_RUN"].endswith("outer"))
    """
    code, out, _ = run_script(tmp_path, source)
    assert (code, out) == (0, "True\n")
    assert steps(run_folder(tmp_path, "outer")) == [7]


def test_lines_of_several_runs_carry_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = init("tests", "first", dir=tmp_path, line_every_s=0)
    first.log_step(0, 0.1, 10, 1.0, 1.0, 0.5, 0.1)
    second = init("tests", "second", dir=tmp_path, line_every_s=0)
    capsys.readouterr()
    first.log_step(1, 0.1, 10, 1.0, 1.0, 0.5, 0.1)
    second.log_step(1, 0.1, 10, 1.0, 1.0, 0.5, 0.1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["first", "second"]
    second.finish()
    capsys.readouterr()
    first.log_step(2, 0.1, 10, 1.0, 1.0, 0.5, 0.1)
    assert not capsys.readouterr().err.startswith("first")


def test_two_runs_that_keep_output_both_have_it_and_end_in_any_order(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = sys.stdout, sys.stderr
    first, second = start_run("first", capture=True), start_run("second", capture=True)
    sys.stdout.write("both\n")
    first.finish()
    sys.stdout.write("one\n")
    second.finish()
    assert (sys.stdout, sys.stderr) == streams
    kept = [[m["text"] for m in of_kind(run.dir, "message")] for run in (first, second)]
    assert kept == [["both"], ["both", "one"]]
    assert capsys.readouterr().out == "both\none\n"


def test_each_run_has_a_companion_of_its_own(start_run: StartRun) -> None:
    runs = [start_run(name, companion=True) for name in ("a", "b")]
    for run in runs:
        assert len(wait_for(lambda run=run: companions(run.dir))) == 1  # type: ignore[misc]
    for run in runs:
        run.log({"loss": 1.0})
        run.finish()
    for run in runs:
        wait_for_the_end(run.dir)
        writers = {part.writer.partition("-")[0] for part in recorder_of(run).folder.parts()}
        assert {"telemetry", "findings"} <= writers


OWN_MEMORY = """
def own_mib(pid):
    lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024

runs = [start("0", companion=True)]
before = own_mib("self")
runs += [start(str(number), companion=True) for number in range(1, 6)]
for step in range(100):
    for run in runs:
        run.log({"loss": 1.0}, step=step)
grown = (own_mib("self") - before) / 5
print(grown, flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="looks into /proc")
def test_an_open_run_costs_at_most_20_mib_with_its_companion(tmp_path: Path) -> None:
    """Memory that no other process shares: what twenty open runs cost twenty times."""
    with start_script(tmp_path, OWN_MEMORY) as process:
        assert process.stdout is not None
        grown = float(process.stdout.readline())
        folder = run_folder(tmp_path, "5")
        wait_for(lambda: any(r["log"] == "event" for r in records(folder)))  # it has begun
        (companion,) = companions(folder)
        rollup = Path(f"/proc/{companion}/smaps_rollup").read_text().splitlines()
        process.communicate("\n", timeout=120)
    own = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_")) / 1024
    assert grown + own <= 20, (grown, own)
    for number in range(6):
        wait_for_the_end(run_folder(tmp_path, str(number)))
