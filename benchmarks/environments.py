"""The contenders' environments: one folder each under .bench/, built on first use and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import Contender

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench"
BUILD_LIMIT_S = 1800


@dataclass(frozen=True, slots=True)
class Entrant:
    """A contender with the Python that can run it, or the reason why there is none."""

    contender: Contender
    python: Path | None
    versions: tuple[str, ...] = ()
    absence: str = ""

    @property
    def name(self) -> str:
        return self.contender.name


def prepare(contender: Contender) -> Entrant:
    """Make the contender's environment ready; a failure is an answer, not an exception."""
    python = Path(sys.executable)
    if contender.requirements:
        python = BENCH / _folder(contender) / "bin" / "python"
        absence = _build(python.parent.parent, contender.requirements)
        if absence:
            return Entrant(contender, None, absence=f"not installed: {absence}")
    probe = _run([str(python), "-c", _probe(contender)])
    if probe.returncode:
        return Entrant(contender, None, absence=f"not importable: {_last_line(probe.stderr)}")
    return Entrant(contender, python, versions=tuple(probe.stdout.splitlines()))


def tool_python(*requirements: str) -> Path | None:
    """The Python of a tool that only reads, in an environment of its own; None without one."""
    folder = BENCH / f"{requirements[0]}-reader"
    return None if _build(folder, requirements) else folder / "bin" / "python"


def clean_environment() -> dict[str, str]:
    """The variables a worker sees: bytecode is cached as by default, no import path is added."""
    unwanted = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def _folder(contender: Contender) -> str:
    return contender.requirements[0].partition("==")[0].lower()


def _build(folder: Path, requirements: tuple[str, ...]) -> str:
    """Returns the reason of a failure, or nothing."""
    stamp = folder / "ready.txt"
    wanted = "\n".join(requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return ""
    print(f"building {folder.name} …", file=sys.stderr, flush=True)
    steps = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements],
    )
    for step in steps:
        done = _run(_politely(step), limit_s=BUILD_LIMIT_S)
        if done.returncode:
            return _last_line(done.stderr)
    stamp.write_text(wanted)
    return ""


def _politely(command: list[str]) -> list[str]:
    nice = shutil.which("nice")
    return [nice, "-n", "10", *command] if nice else command


def _probe(contender: Contender) -> str:
    """A script that imports the tool and prints which versions are there."""
    names = [requirement.partition("==")[0] for requirement in contender.requirements]
    return (
        f"{contender.import_statement}\n"
        "from importlib.metadata import version\n"
        f"for name in {names}: print(name, version(name))"
    )


def _run(command: Sequence[str], *, limit_s: float = 300) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=clean_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _last_line(text: str) -> str:
    """The line that names the trouble: pip's own ERROR lines before its closing advice."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no reason given"])[-1]
