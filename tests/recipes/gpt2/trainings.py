"""Trainings of the recipe in processes of their own, as small as they can be."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from epochal.recipes.gpt2.command import main

OWN = {"OMP_NUM_THREADS": "1", "EPOCHAL_GIT": "0", "EPOCHAL_COMPANION": "0"}
# 2 layers, 8 wide, 32 tokens in a step: what is tested is what happens around the model.
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


def command(folder: Path, *more: str, ranks: int = 1, **flags: Any) -> list[str]:
    """The command of a small training whose text lies in a folder."""
    text = folder / "text.txt"
    if not text.exists():
        text.write_text("the quick brown fox jumps over the lazy dog. " * 60, encoding="utf-8")
    chosen = {**SMALL, "data": str(text), "dir": str(folder / "runs"), **flags}
    words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    launcher = ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "-m"]
    module = [*(launcher if ranks > 1 else ()), "epochal.recipes.gpt2"]
    return [sys.executable, "-m", *module, *words, *more]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """One thread, no git, a cache of the test's own."""
    own = {**OWN, "EPOCHAL_CACHE_DIR": str(folder / "cache"), **more}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **own}


def start(folder: Path, *more: str, ranks: int = 1, **flags: Any) -> subprocess.Popen[str]:
    """Start a small training."""
    return subprocess.Popen(
        command(folder, *more, ranks=ranks, **flags),
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(folder: Path, *more: str, ranks: int = 1, **flags: Any) -> str:
    """Train to the end; what was printed."""
    if ranks == 1:
        module = command(folder, *more, **flags).index("epochal.recipes.gpt2")
        code, shown = run_here(folder, command(folder, *more, **flags)[module + 1 :])
        assert code == 0, shown
        return shown
    with start(folder, *more, ranks=ranks, **flags) as process:
        shown, _ = process.communicate(timeout=240)
    assert process.returncode == 0, shown
    return shown


def run_here(folder: Path, words: Sequence[str]) -> tuple[int, str]:
    """A command in this process, where torch is loaded already: exit code, and what was printed."""
    shown = io.StringIO()
    num_threads = torch.get_num_threads()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
    ):
        for name, value in OWN.items():
            patch.setenv(name, value)
        patch.setenv("EPOCHAL_CACHE_DIR", str(folder / "cache"))
        torch.set_num_threads(1)
        try:
            code = main(words)
        finally:
            torch.set_num_threads(num_threads)
    return code, shown.getvalue()


def records(folder: Path, name: str, kind: str, *, writer: str = "loop") -> list[dict[str, Any]]:
    """The records of a run, of all its attempts in order."""
    run = RunFolder(folder / "runs" / "gpt2" / name)
    found = [(e, r) for e, r in read_journal(run) if r["log"] == kind]
    return [record for where, record in found if where.writer == writer]


def losses(folder: Path, name: str, *, writer: str = "loop") -> dict[int, float]:
    """Each step's loss; of a step that was trained twice the last."""
    return {r["step"]: r["loss"] for r in records(folder, name, "step", writer=writer)}


def wait_for(process: Any, folder: Path, *, step: int, name: str = "run") -> None:
    """Wait until a training has logged a step."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if step in losses(folder, name):
                return
        time.sleep(0.02)
    raise AssertionError(f"step {step} was not seen: {process.stdout.read()}")
