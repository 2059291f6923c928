"""The companion beside real training processes, however those end; no path leaves one behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epochal.journal.layout import RunFolder
from tests.doubles.companions import companions, has_exited, wait_for, wait_for_the_end
from tests.doubles.journals import of_kind, records
from tests.doubles.scripts import run_folder, run_script, start_script

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
ON = {"EPOCHAL_COMPANION": "1"}
WAITING = """
run = start()
run.log({"loss": 0.5}, step=7)
print(os.getpid(), flush=True)
"""


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for pid in companions(run_folder(tmp_path)):
        os.kill(pid, signal.SIGKILL)


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in of_kind(folder, "event") if event["name"] == name]


def started(tmp_path: Path, source: str) -> subprocess.Popen[str]:
    process = start_script(tmp_path, WAITING + textwrap.dedent(source), **ON)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def has_begun(folder: Path) -> bool:
    return bool(events(folder, "hardware"))


def test_a_run_that_ends_leaves_telemetry_and_no_process(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with started(tmp_path, "sys.stdin.readline()") as process:
        wait_for(lambda: has_begun(folder))
        _, err = process.communicate("\n", timeout=120)
    assert (process.returncode, err) == (0, "")
    wait_for_the_end(folder)
    kinds = [record["log"] for record in records(folder) if record["log"] in ("system", "finish")]
    # One record of the system for every ten seconds that it took.
    assert kinds == ["finish", "finish", *["system"] * max(kinds.count("system"), 1), "finish"]
    assert events(folder, "vanished") == []


ENDS = {
    "exception": ("raise RuntimeError('x')", None),
    "interrupt": ("time.sleep(600)", signal.SIGINT),
    "terminated": ("time.sleep(600)", signal.SIGTERM),
}


@pytest.mark.parametrize(("source", "number"), ENDS.values(), ids=ENDS.keys())
def test_however_a_training_ends_no_companion_outlives_it(
    tmp_path: Path, source: str, number: signal.Signals | None
) -> None:
    folder = run_folder(tmp_path)
    with started(tmp_path, "sys.stdin.readline()\n" + source) as process:
        wait_for(lambda: has_begun(folder))
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        if number is not None:
            process.send_signal(number)
        process.communicate(timeout=120)
    wait_for_the_end(folder)
    assert any("last_step" in record for record in of_kind(folder, "finish"))
    assert events(folder, "vanished") == []


def test_a_killed_training_is_told_of_with_evidence_and_can_go_on(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with started(tmp_path, "time.sleep(600)") as process:
        wait_for(lambda: has_begun(folder))
        process.kill()
    wait_for_the_end(folder)
    (event,) = events(folder, "vanished")
    assert (event["pid"], event["last_step"], event["exit"]) == (process.pid, 7, "unknown")
    assert event["rss"] > 0
    assert event["sentence"].startswith("the training process vanished after step 7")
    run_script(tmp_path, "start(resume='must').log({'a': 1})", **ON)
    wait_for_the_end(folder)
    writers = {part[:2] for part in RunFolder(folder).parts()}
    assert {attempt for writer, attempt in writers if writer.startswith("telemetry-")} == {1, 2}
    assert [event["last_step"] for event in events(folder, "vanished")] == [7]


def test_a_training_gone_before_the_companion_was_up_is_seen_too(tmp_path: Path) -> None:
    run_script(tmp_path, "start().log({'a': 1}, step=3)\nos._exit(0)", **ON)
    folder = run_folder(tmp_path)
    wait_for(lambda: events(folder, "vanished"))
    wait_for_the_end(folder)
    assert events(folder, "vanished")[0]["last_step"] == 3


def test_children_that_outlive_the_training_do_not_keep_the_companion(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    source = """
    child = os.fork()
    if child == 0:
        os.closerange(0, 3)
        time.sleep(600)
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()
    os._exit(0)
    """
    with started(tmp_path, source) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        wait_for(lambda: has_begun(folder))
        process.communicate("\n", timeout=120)
    wait_for_the_end(folder)
    os.kill(child, signal.SIGKILL)


def test_a_process_that_goes_on_after_its_run_keeps_no_companion(tmp_path: Path) -> None:
    source = """
    run.finish()
    second = start("second")
    second.log({"a": 1})
    print(flush=True)
    sys.stdin.readline()
    """
    first, second = run_folder(tmp_path), run_folder(tmp_path, "second")
    with started(tmp_path, source) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_for_the_end(first)
        assert len(wait_for(lambda: companions(second))) == 1
        process.communicate("\n", timeout=120)
    wait_for_the_end(second)


def test_a_companion_that_dies_is_started_again_once_and_training_goes_on(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    source = """
    while not os.path.exists(os.environ["FOLDER"] + "/stop"):
        run.log({"a": 1})
        time.sleep(0.05)
    """
    with started(tmp_path, source) as process:
        (first,) = wait_for(lambda: companions(folder))
        os.kill(first, signal.SIGKILL)
        (second,) = wait_for(lambda: [pid for pid in companions(folder) if pid != first])
        restarted = wait_for(lambda: events(folder, "companion-restarted"))
        assert restarted[0]["exit_code"] == -signal.SIGKILL
        os.kill(second, signal.SIGKILL)
        wait_for(lambda: events(folder, "companion-lost"))
        (tmp_path / "stop").touch()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert companions(folder) == []
    assert err.count("died twice") == 1
    assert of_kind(folder, "finish")[0]["status"] == "finished"


def test_ctrl_c_is_not_for_the_companion_and_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with started(tmp_path, "sys.stdin.readline()") as process:
        wait_for(lambda: has_begun(folder))
        (pid,) = companions(folder)
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        # The parent sees an end only when its last thread is gone, which is after its command line.
        wait_for(lambda: has_exited(pid))
        assert events(folder, "telemetry")
        process.communicate("\n", timeout=120)
    wait_for_the_end(folder)
    assert events(folder, "companion-restarted")[0]["exit_code"] == 0


def test_a_finished_run_is_sealed(tmp_path: Path) -> None:
    source = "run = start()\nfor step in range(3000): run.log({'loss': 1 / (step + 1)}, step=step)"
    run_script(tmp_path, source, **ON, EPOCHAL_GRACE="120")
    folder = run_folder(tmp_path)
    wait_for(lambda: [part.writer for part in RunFolder(folder).sealed_parts()] == ["loop"])
    wait_for_the_end(folder)
    assert events(folder, "unfinished") == []


def test_without_time_what_is_left_is_named(tmp_path: Path) -> None:
    source = "run = start()\nfor step in range(3000): run.log({'loss': 1 / (step + 1)}, step=step)"
    run_script(tmp_path, source, **ON, EPOCHAL_GRACE="0")
    folder = run_folder(tmp_path)
    wait_for(lambda: events(folder, "unfinished"))
    wait_for_the_end(folder)
    (left,) = events(folder, "unfinished")[0]["left"]
    assert left["command"] == f"epochal manage pack {folder}"


def test_a_run_that_is_deleted_is_let_go(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with started(tmp_path, "sys.stdin.readline()") as process:
        wait_for(lambda: has_begun(folder))
        (folder / "journal").rename(folder / "away")
        wait_for_the_end(folder)
        process.communicate("\n", timeout=120)


def test_the_companion_never_imports_torch_and_never_prints(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    folder = tmp_path / "run"
    (folder / "journal").mkdir(parents=True)
    facts = json.dumps({"attempt": 1, "parent": 1, "parent_start": 1.0})
    done = subprocess.run(
        [sys.executable, "-m", "epochal.companion", str(folder), facts],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert events(folder, "vanished")
    assert not (tmp_path / "imported").exists()


def test_the_companion_loads_nothing_large_that_most_runs_have_no_use_for() -> None:
    source = """
    import sys
    import epochal.companion.process
    from epochal.health.rule_settings import known_rules

    assert known_rules()
    large = {"argparse", "_hashlib", "ssl", "http", "email", "asyncio", "importlib.metadata"}
    print(large & set(sys.modules) or "")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == b"\n"


def test_a_fault_that_ends_the_companion_is_an_event_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "journal").mkdir(parents=True)
    (tmp_path / "sitecustomize.py").write_text(
        "from epochal.companion.ending import Waker\n"
        "def wait(self, seconds): raise RuntimeError('broken on purpose')\n"
        "Waker.wait = wait\n"
    )
    facts = json.dumps({"attempt": 1, "parent": os.getpid()})
    done = subprocess.run(
        [sys.executable, "-m", "epochal.companion", str(folder), facts],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    (event,) = events(folder, "companion-failed")
    assert event["reason"] == "RuntimeError: broken on purpose"
    assert "Traceback" in event["traceback"]


def test_what_a_live_sink_cannot_hold_is_reported_when_the_run_finishes(tmp_path: Path) -> None:
    source = """
    run = start(console=True, report_to="tensorboard", finish_wait_s=100)
    run.log({"loss": 1.0}, step=0)
    from epochal import Html
    run.log({"page": Html("<p>not a number</p>")}, step=0)
    run.log({"loss": 0.5}, step=1)
    run.finish()
    """
    with start_script(tmp_path, source, **ON) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "1 HTML page" in err
    assert "not sent: tensorboard cannot hold" in err
    wait_for_the_end(run_folder(tmp_path))


def test_a_companion_that_was_stopped_holds_finish_to_one_deadline(tmp_path: Path) -> None:
    """All that finish() waits for, by a clock that only its sleeping moves."""
    source = """
    import types
    from epochal.run import ending
    run = start(console=True, report_to="json_log")
    run.log({"loss": float("nan")}, step=7)
    print(flush=True)
    sys.stdin.readline()
    slept = []
    ending.time = types.SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    run.finish()
    print(round(sum(slept), 3), flush=True)
    """
    folder = run_folder(tmp_path)
    with start_script(tmp_path, source, **ON) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_for(lambda: has_begun(folder))
        (companion,) = companions(folder)
        os.kill(companion, signal.SIGSTOP)
        out, err = process.communicate("\n", timeout=120)
    os.kill(companion, signal.SIGCONT)
    assert (process.returncode, out) == (0, "5.0\n")
    assert "not everything has been forwarded (json_log" in err
    wait_for_the_end(folder)
