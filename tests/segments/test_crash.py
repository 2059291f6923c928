"""Sealing is killed at every system call that changes the folder; no record is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epochal.segments.seal import seal_part
from tests.segments.parts import NAME, finished_part, metrics, read_run

_CHILD = """
import os, signal, sys
from pathlib import Path
from epochal.journal.layout import PartName, RunFolder
from epochal.segments.seal import seal_part

left = int(sys.argv[2])

def die_at(event, arguments):
    global left
    if event in ("open", "os.rename", "os.remove", "os.mkdir") and sys.argv[1] in str(arguments):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die_at)
seal_part(RunFolder(Path(sys.argv[1])), PartName("loop", 1, 0))
"""
_CALLS_AT_MOST = 40


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_at_any_moment_leaves_every_record_once(tmp_path: Path) -> None:
    for calls in range(_CALLS_AT_MOST):
        folder = finished_part(tmp_path / f"run{calls}", *(metrics(s, a=s / 3) for s in range(50)))
        written = read_run(folder)
        ended = subprocess.run([sys.executable, "-c", _CHILD, folder.path, str(calls)], check=False)
        assert read_run(folder) == written, calls
        if ended.returncode == 0:
            break
        if folder.parts():
            seal_part(folder, NAME)
        assert read_run(folder) == written, calls
    assert ended.returncode == 0
    assert calls > 5
