"""What the terminal says of findings at the end of a run, with a real companion beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from epochal.base.invocation import invocation

PROGRAM = """
import sys, time, epochal
from epochal.run import companion
# What is said, not how long finish() may take for it, is tested here.
companion._DIAGNOSE_FOR_S = companion._LEAST_HANGS_S = 60.0
run = epochal.init("p", "a", dir=sys.argv[1], line_every_s=60)
for step in range(40):
    run.log({"loss": float("nan") if sys.argv[2] == "nan" and step > 20 else 1.0}, step=step)
deadline = time.monotonic() + 120
findings = run.dir / "journal"
while sys.argv[2] == "nan" and "hurried" not in sys.argv and time.monotonic() < deadline:
    if any(b'"nonfinite"' in p.read_bytes() for p in findings.glob("findings*")):
        break
    time.sleep(0.05)
run.finish()
"""


def said(folder: Path, *kind: str) -> str:
    command = [sys.executable, "-c", PROGRAM, str(folder), *kind]
    environment = {**os.environ, "EPOCHAL_COMPANION": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stderr


def test_the_last_line_says_how_the_run_is(tmp_path: Path) -> None:
    last = said(tmp_path, "nan").splitlines()[-1]
    command = f"{invocation()} doctor {tmp_path / 'p' / 'a'}"
    assert last == f"epochal: broken: values that are not finite: {command}"


def test_a_run_that_is_over_before_its_companion_looks_is_told_as_well(tmp_path: Path) -> None:
    lines = said(tmp_path, "nan", "hurried").splitlines()
    assert sum("The loss became NaN at step 21" in line for line in lines) == 1
    command = f"{invocation()} doctor {tmp_path / 'p' / 'a'}"
    assert lines[-1] == f"epochal: broken: values that are not finite: {command}"


def test_nothing_is_said_where_nothing_was_found(tmp_path: Path) -> None:
    assert "doctor" not in said(tmp_path, "well")
