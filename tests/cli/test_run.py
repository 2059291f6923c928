from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.launch import KeptOutput
from epochal.cli.main import main
from epochal.journal.layout import RunFolder
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]

PRELUDE = """
import os, signal, sys, time
import epochal
def start(**given):
    return epochal.init("p", "x", **{"console": False, "companion": False, **given})
"""


def script(root: Path, source: str) -> list[str]:
    path = root / "train.py"
    path.write_text(PRELUDE + textwrap.dedent(source))
    return [sys.executable, str(path)]


def launched(
    root: Path, source: str, *options: str
) -> tuple[subprocess.CompletedProcess[str], list[RunView]]:
    command = [sys.executable, "-m", "epochal", "run", "--dir", str(root / "runs"), *options, "--"]
    done = subprocess.run(
        [*command, *script(root, source)],
        env={**os.environ, "EPOCHAL_GIT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done, list(folder_store(root / "runs").runs())


def said(view: RunView, *levels: str) -> list[str]:
    entries = view.entries("message", rank=None)
    return [e.record["text"] for e in entries if e.record["level"] in levels]


def test_what_is_printed_is_passed_on_and_kept_from_the_first_line(tmp_path: Path) -> None:
    source = """
    print("before the run")
    with start() as run:
        run.log({"loss": 1.0})
        os.write(2, b"from outside Python\\n")
        print("last", end="")
    """
    done, (view,) = launched(tmp_path, source)
    assert (done.returncode, done.stdout) == (0, "before the run\nlast")
    assert said(view, "stdout") == ["before the run", "last"]
    assert said(view, "stderr") == ["from outside Python"]
    (exit_,) = [e for e in view.entries("event", rank=None) if e.record["name"] == "exit"]
    assert exit_.record["code"] == 0
    assert view.info.status.state == "finished"


def test_a_run_that_keeps_its_output_itself_has_it_once(tmp_path: Path) -> None:
    source = """
    with start(capture=True) as run:
        print("only once")
    """
    _, (view,) = launched(tmp_path, source)
    assert said(view, "stdout") == ["only once"]


def test_a_command_that_ends_without_a_run_failed_to_start(tmp_path: Path) -> None:
    done, runs = launched(tmp_path, "raise ValueError('no data')", "--restarts", "3")
    assert (done.returncode, runs) == (1, [])
    assert "ValueError: no data" in done.stderr
    assert "failed to start" in done.stderr
    assert "not restarted: it never started a run" in done.stderr


def test_a_command_that_does_not_exist_is_a_sentence(capsys: Capture) -> None:
    assert main(["run", "--", "no-such-command-here"]) == 2
    assert "'no-such-command-here' cannot be started" in capsys.readouterr().err


def test_a_command_is_needed_and_options_have_a_range(capsys: Capture) -> None:
    assert main(["run"]) == 2
    assert "epochal run -- python train.py" in capsys.readouterr().err
    assert main(["run", "--restarts", "-1", "--", "true"]) == 2
    assert "-1 is not in the range x>=0" in capsys.readouterr().err


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_result_is_one_line(tmp_path: Path) -> None:
    source = """
    with start() as run:
        run.log({"loss": 0.25}, step=7)
    """
    done, _ = launched(tmp_path, source)
    assert "epochal: p/x finished at step 7, loss 0.2500, " in done.stderr


def test_a_finding_stops_the_training(tmp_path: Path) -> None:
    source = """
    with start(companion=True) as run:
        for step in range(10**9):
            run.log({"loss": 1.0 if step < 5 else float("nan")}, step=step)
            time.sleep(0.02)
    """
    done, (view,) = launched(tmp_path, source, "--stop-on", "error", "--json")
    found = result(done)
    assert (done.returncode, found["stopped"], found["status"]) == (1, "finding", "terminated")
    assert found["why"].startswith("error nonfinite: The loss became NaN at step 5")
    assert "nonfinite" in [cause["rule"] for cause in found["causes"]]
    assert found["run"] == view.info.id


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")
def test_the_timeout_kills_what_does_not_stop() -> None:
    options = ("--timeout", "3s", "--grace", "1s", "--restarts", "1", "--json")
    command = [sys.executable, "-m", "epochal", "run", *options, "--"]
    stubborn = ["sh", "-c", "trap '' TERM; while true; do sleep 1; done"]
    done = subprocess.run([*command, *stubborn], capture_output=True, text=True, check=False)
    found = result(done)
    assert (done.returncode, found["stopped"], found["exit_code"]) == (3, "timeout", -9)
    assert found["why"] == "It reached the timeout."
    assert "killing it: it did not end within 1s" in done.stderr


def test_the_timeout_needs_no_run_and_the_result_begins_a_line(tmp_path: Path) -> None:
    source = "print('no end', end='', flush=True)\ntime.sleep(600)"
    done, runs = launched(tmp_path, source, "--timeout", "2s", "--json")
    assert (done.returncode, runs, result(done)["run"]) == (3, [], None)


def test_the_options_of_the_run_are_passed_on(tmp_path: Path) -> None:
    source = "epochal.init(console=False, companion=False).finish()"
    options = ("--project", "digits", "--name", "y", "--tag", "a", "--tag", "b")
    _, (view,) = launched(tmp_path, source, *options)
    assert (view.info.project, view.info.name, view.info.tags) == ("digits", "y", ("a", "b"))


@pytest.mark.parametrize(
    ("begins", "sentence"),
    [("pass", "no run was started within"), ("run = start()", "p/x logged no step within")],
)
def test_a_first_step_that_does_not_come_is_told(
    begins: str, sentence: str, tmp_path: Path
) -> None:
    told, root = tmp_path / "told", tmp_path / "runs"
    waits = f"while not os.path.exists({str(told)!r}):\n    time.sleep(0.02)"
    command = [sys.executable, "-m", "epochal", "run", "--dir", str(root), "--first-step", "1.2s"]
    with subprocess.Popen(
        [*command, "--", *script(tmp_path, f"{begins}\n{waits}")],
        env={**os.environ, "EPOCHAL_GIT": "0"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any(sentence in line for line in process.stderr)
        told.touch()
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert all(said(view, "warning") for view in folder_store(root).runs())


def test_a_crashed_training_is_started_again_in_the_same_run(tmp_path: Path) -> None:
    source = """
    run = start()
    for step in range(run.step + 1, 4):
        run.log({"loss": 1.0}, step=step)
        if run.attempt == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    run.finish()
    """
    done, (view,) = launched(tmp_path, source, "--restarts", "1", "--restart-wait", "0s")
    assert done.returncode == 0, done.stderr
    assert "p/x crashed (SIGKILL) at step 2; it is started again" in done.stderr
    assert (view.info.attempts, view.info.status.state, view.info.step) == (2, "finished", 3)


@pytest.mark.parametrize(
    ("steps", "restarts", "reason"),
    [(1, "1", "no restart is left"), (0, "5", "before its first step")],
)
def test_restarts_end(steps: int, restarts: str, reason: str, tmp_path: Path) -> None:
    source = f"""
    run = start()
    for _ in range({steps}):
        run.log({{"loss": 1.0}})
    sys.exit(7)
    """
    done, (view,) = launched(tmp_path, source, "--restarts", restarts, "--restart-wait", "0s")
    assert done.returncode == 7
    assert reason in done.stderr
    assert view.info.attempts == 1 + steps


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")
def test_a_signal_is_passed_on_and_nothing_is_started_again(tmp_path: Path) -> None:
    source = """
    with start() as run:
        for step in range(10**9):
            run.log({"loss": 1.0}, step=step)
            if step == 0:
                print("goes", flush=True)
            time.sleep(0.02)
    """
    command = [sys.executable, "-m", "epochal", "run", "--dir", str(tmp_path / "runs")]
    with subprocess.Popen(
        [*command, "--restarts", "3", "--", *script(tmp_path, source)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "p/x terminated (SIGTERM) at step" in errors
    (view,) = folder_store(tmp_path / "runs").runs()
    assert (view.info.attempts, view.info.status.state) == (1, "terminated")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")
@pytest.mark.parametrize("how", [[], ["--kill", "-y"]])
def test_a_training_that_is_stopped_is_not_started_again(tmp_path: Path, how: list[str]) -> None:
    source = """
    with start() as run:
        for step in range(10**9):
            run.log({"loss": 1.0}, step=step)
            if step == 0:
                print("goes", flush=True)
            time.sleep(0.02)
    """
    root = str(tmp_path / "runs")
    command = [sys.executable, "-m", "epochal", "run", "--dir", root, "--restarts", "3"]
    with subprocess.Popen(
        [*command, "--restart-wait", "0s", "--", *script(tmp_path, source)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while not folder_store(root).run("x").entries("message", rank=None):
            time.sleep(0.05)
        assert main(["stop", "x", *how, "--dir", root]) == 0
        _, errors = process.communicate(timeout=120)
    assert process.returncode > 128
    assert "It is not restarted: it was asked to stop." in errors
    assert folder_store(root).run("x").info.attempts == 1


def test_kept_output_is_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    kept = KeptOutput(limit_bytes=20)
    kept.line("stdout", "0123456789")
    kept.belongs_to(RunFolder(journal.folder.path), 1, keeps=True)
    for _ in range(5):
        kept.line("stdout", "0123456789")
    kept.close()
    view = folder_store(tmp_path).run("x")
    assert said(view, "stdout") == ["0123456789"]
    assert len(said(view, "stderr")) == 1


def test_a_run_that_was_deleted_is_not_brought_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    kept = KeptOutput()
    kept.belongs_to(journal.folder, 1, keeps=True)
    for path in journal.folder.journal.iterdir():
        path.unlink()
    journal.folder.journal.rmdir()
    kept.line("stdout", "late")
    kept.write()
    kept.close()
    assert not journal.folder.journal.exists()
