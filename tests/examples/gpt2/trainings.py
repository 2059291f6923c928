"""Trainings of the example, as small as they can be."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from train import main

SCRIPT = Path(__file__).parents[3] / "examples" / "gpt2" / "train.py"
OWN = {"OMP_NUM_THREADS": "1", "EPOCHAL_GIT": "0", "EPOCHAL_COMPANION": "0"}
# 2 layers, 8 wide, 64 tokens in a step: the tests are about what happens around the model.
SMALL = {
    "total_batch_size": 64,
    "mini_batch_size": 1,
    "context_length": 16,
    "num_layers": 2,
    "embd_size": 8,
    "num_heads": 2,
    "warmup_steps": 2,
    "num_epochs": 2,
    "steps_per_epoch": 10,
    "eval_freq": 5,
    "eval_batches": 2,
    "checkpoint_freq": 4,
    "histogram_freq": 8,
    "device": "cpu",
}


def flags(folder: Path, *more: str, **given: Any) -> list[str]:
    """The flags of a small training whose text is in the folder."""
    text = folder / "text.txt"
    if not text.exists():
        text.write_text("the quick brown fox jumps over the lazy dog. " * 60, encoding="utf-8")
    chosen = {**SMALL, "data": str(text), "dir": str(folder / "runs"), **given}
    return [*(word for name, value in chosen.items() for word in (f"--{name}", str(value))), *more]


def command(folder: Path, *more: str, ranks: int = 1, **given: Any) -> list[str]:
    """The command that starts it as a script."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    words = [*(launcher if ranks > 1 else ()), str(SCRIPT), *flags(folder, *more, **given)]
    return [sys.executable, *words]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """One thread, no git, and a cache of the test's own."""
    own = {**OWN, "EPOCHAL_CACHE_DIR": str(folder / "cache"), **more}
    return {**os.environ, **own}


def start(folder: Path, *more: str, ranks: int = 1, **given: Any) -> subprocess.Popen[str]:
    """Start a small training in a process of its own."""
    return subprocess.Popen(
        command(folder, *more, ranks=ranks, **given),
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run_here(
    folder: Path, words: Sequence[str], script: Callable[[Sequence[str]], int] = main
) -> tuple[int, str]:
    """Run a script in this process, which has loaded torch; returns exit code and output."""
    shown = io.StringIO()
    num_threads = torch.get_num_threads()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
    ):
        for name, value in {**OWN, "EPOCHAL_CACHE_DIR": str(folder / "cache")}.items():
            patch.setenv(name, value)
        torch.set_num_threads(1)
        try:
            code = script(words)
        finally:
            torch.set_num_threads(num_threads)
    return code, shown.getvalue()


def finish(folder: Path, *more: str, **given: Any) -> str:
    """Train to the end in this process; returns what was printed."""
    code, shown = run_here(folder, flags(folder, *more, **given))
    assert code == 0, shown
    return shown


def records(folder: Path, name: str, kind: str, *, writer: str = "loop") -> list[dict[str, Any]]:
    """The records of a run, of all its attempts in order."""
    run = RunFolder(folder / "runs" / "gpt2" / name)
    entries = [(entry, record) for entry, record in read_journal(run) if record["log"] == kind]
    return [record for entry, record in entries if entry.writer == writer]


def losses(folder: Path, name: str, *, writer: str = "loop") -> dict[int, float]:
    """The loss of each step; the last one of a step that was trained twice."""
    return {r["step"]: r["loss"] for r in records(folder, name, "step", writer=writer)}


def wait_for(process: Any, folder: Path, *, step: int, name: str = "run") -> None:
    """Wait until a training has logged a step."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if step in losses(folder, name):
                return
        time.sleep(0.02)
    raise AssertionError(f"step {step} was not seen: {process.stdout.read()}")
