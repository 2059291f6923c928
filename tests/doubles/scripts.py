"""Runs a training script in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_PRELUDE = """
import os, signal, sys, time
from epochal.run.start import init

def start(name="run", **arguments):
    return init("tests", name, dir=os.environ["FOLDER"], **{"console": False, **arguments})
"""


def start_script(folder: Path, source: str, **environment: str) -> subprocess.Popen[str]:
    """Start a script in which ``start()`` starts a run below a folder; warnings are errors."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _PRELUDE + textwrap.dedent(source)],
        env={**os.environ, "FOLDER": str(folder), "EPOCHAL_GIT": "0", **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(folder: Path, source: str, **environment: str) -> tuple[int, str, str]:
    """Run a script to its end: exit status (negative for a signal), stdout and stderr."""
    with start_script(folder, source, **environment) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


def run_folder(folder: Path, name: str = "run") -> Path:
    """Where ``start(name)`` of a script put its run."""
    return folder / "tests" / name
