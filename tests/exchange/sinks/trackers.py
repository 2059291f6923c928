"""Runs a sink, or a tracker's own reader, in an environment that has the tracker.

That is this one where the tracker's package is installed, else one that the benchmarks have built
under ``.bench``; where there is neither, the test is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SINK_SCRIPT = Path(__file__).with_name("sink_script.py")
_LIMIT_S = 240
# What the package itself needs comes last, so that a tracker's own versions win.
_FIND = f"""
import sys
sys.path[:0] = [{str(ROOT / "src")!r}]
sys.path.append({sysconfig.get_path("purelib")!r})
"""
_SEND = """
import runpy
runpy.run_path({!r}, run_name="__main__")
"""


def python_with(package: str) -> str:
    """A Python that has a package."""
    if importlib.util.find_spec(package) is not None:
        return sys.executable
    python = ROOT / ".bench" / package / "bin" / "python"
    has_it = python.exists() and any(python.parent.parent.glob(f"lib/python*/*/{package}"))
    if not has_it:
        pytest.skip(f"{package} is installed neither here nor under .bench")
    if not any(python.parent.parent.glob(f"lib/python{sys.version_info[0]}.{sys.version_info[1]}")):
        pytest.skip(f".bench/{package} is of another Python")
    return str(python)


def ask(python: str, script: str, *arguments: str, **environment: str) -> Any:
    """What a script prints last, read as JSON; the script fails the test when it fails."""
    done = run_script(python, script, *arguments, **environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_script(
    python: str, script: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script that can import both Epochal and the tracker."""
    return subprocess.run(
        [python, "-c", _FIND + script, *arguments],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        env={**os.environ, **environment},
        check=False,
    )


def send(
    python: str,
    folder: Path,
    sink: str,
    *,
    options: Mapping[str, str] = MappingProxyType({}),
    crash: bool = False,
) -> dict[str, Any]:
    """Send a run to a sink in a process of its own; how the sink stands then.

    With ``crash`` the process ends at once after the sink took the first batch.
    """
    asked = {"folder": str(folder), "sink": sink, "options": dict(options), "crash": crash}
    done = run_script(python, _SEND.format(str(SINK_SCRIPT)), json.dumps(asked))
    if crash:
        assert done.returncode == 9, done.stderr[-4000:]
        return {}
    assert done.returncode == 0, done.stderr[-4000:]
    progress = json.loads(done.stdout.strip().splitlines()[-1])
    assert progress["error"] is None, progress
    return dict(progress)
