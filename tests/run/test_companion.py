"""How a run starts its companion, and when it does not; the rest is in tests/companion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epochal.errors import UsageError
from epochal.exchange.sinks.unsent import unsent
from epochal.journal.layout import RunFolder, write_json
from epochal.settings import child_environment
from tests.conftest import StartRun
from tests.doubles.companions import companions, wait_for, wait_for_the_end
from tests.doubles.scripts import run_folder, run_script, start_script


def test_a_companion_is_asked_for_by_argument_or_environment(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_COMPANION", "1")
    off = start_run("off", companion=False)
    assert companions(off.dir) == []
    on = start_run("on")
    assert len(wait_for(lambda: companions(on.dir))) == 1
    on.finish()
    wait_for_the_end(on.dir)


def test_a_run_that_is_switched_off_has_none(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    run = start_run(companion=True)
    assert companions(run.dir) == []


def test_only_the_first_rank_of_a_node_has_one(tmp_path: Path) -> None:
    ranks = {"WORLD_SIZE": "2", "MASTER_PORT": "1", "EPOCHAL_COMPANION": "1"}
    source = """
    import subprocess
    run = start()
    rank_one = '''
    import os, epochal
    epochal.init("tests", "run", dir=os.environ["FOLDER"]).log({"a": 1})
    '''
    import textwrap
    environ = {**os.environ, "RANK": "1", "LOCAL_RANK": "1"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(rank_one)], env=environ, check=True)
    """
    code, _, err = run_script(tmp_path, source, RANK="0", LOCAL_RANK="0", **ranks)
    assert (code, err) == (0, "")
    wait_for_the_end(run_folder(tmp_path))
    writers = sorted({part.writer for part in RunFolder(run_folder(tmp_path)).parts()})
    assert [writer.partition("-")[0] for writer in writers] == [
        "findings",
        "loop",
        "rank",
        "telemetry",
    ]


def test_a_companion_that_cannot_be_started_is_said_and_the_run_goes_on(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    run = start_run(companion=True)
    run.log({"a": 1})
    run.finish()
    assert "could not be started" in capsys.readouterr().err


def test_modules_in_the_working_folder_are_not_taken_for_pythons(tmp_path: Path) -> None:
    (tmp_path / "selectors.py").write_text("raise SystemExit(9)")
    source = f"os.chdir({str(tmp_path)!r})\nrun = start()\nprint(flush=True)\nsys.stdin.readline()"
    with start_script(tmp_path, source, EPOCHAL_COMPANION="1") as process:
        assert process.stdout is not None
        process.stdout.readline()
        folder = RunFolder(run_folder(tmp_path))
        wait_for(lambda: any(part.writer.startswith("telemetry") for part in folder.parts()))
        process.communicate("\n", timeout=120)
    wait_for_the_end(folder.path)


@pytest.mark.parametrize("wait", [-1.0, float("inf"), float("nan"), "5", True])
def test_a_wait_that_is_none_is_refused(start_run: StartRun, wait: Any) -> None:
    with pytest.raises(UsageError, match="finish_wait_s"):
        start_run(finish_wait_s=wait)


def test_relative_folders_of_modules_are_found_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}/abs")
    found = child_environment(Path("/x/src"))["PYTHONPATH"].split(os.pathsep)
    assert found == ["/x/src", str(tmp_path / "src"), "/abs"]
    found = child_environment(Path("/x/site-packages"))["PYTHONPATH"].split(os.pathsep)
    assert found == [str(tmp_path / "src"), "/abs"]


OWNER = {"pid": 7}


@pytest.mark.parametrize(
    ("progress", "why", "is_hopeless"),
    [
        ({}, "not begun", False),
        ({"owner": {"pid": 6}, "phase": "closed"}, "not begun", False),
        ({"owner": OWNER, "phase": "sending", "behind": 12}, "12 records behind", False),
        ({"owner": OWNER, "phase": "waiting"}, "not closed yet", False),
        ({"owner": OWNER, "phase": "stopped", "error": "no such package"}, "no such package", True),
    ],
)
def test_what_is_unsent_is_told(
    tmp_path: Path, progress: dict[str, Any], why: str, is_hopeless: bool
) -> None:
    kept = {"v": 1, "report_to": ["wandb"], "sinks": {"wandb": progress}}
    write_json(tmp_path / "sinks.json", kept)
    (one,) = unsent(RunFolder(tmp_path), sender=7)
    assert (one.name, one.why, one.is_hopeless) == ("wandb", why, is_hopeless)


def test_a_closed_sink_and_no_sink_are_done(tmp_path: Path) -> None:
    assert unsent(RunFolder(tmp_path), sender=7) == []
    kept = {"v": 1, "report_to": ["a"], "sinks": {"a": {"owner": OWNER, "phase": "closed"}}}
    write_json(tmp_path / "sinks.json", kept)
    assert unsent(RunFolder(tmp_path), sender=7) == []


def test_a_companion_still_running_is_no_warning(start_run: StartRun) -> None:
    script = "import epochal, sys; epochal.init(dir=sys.argv[1], console=False, companion=True)"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script, str(start_run().dir.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
