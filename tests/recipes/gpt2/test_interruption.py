from __future__ import annotations

import os
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from epochal.recipes.gpt2.flags import Flags
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.resuming import find_origin
from epochal.recipes.gpt2.setup import Training, set_up
from epochal.recipes.gpt2.train import train
from epochal.torch.manifest import Manifest, list_manifests
from tests.recipes.gpt2.trainings import SMALL, losses

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of Unix")
# The passes of the training itself: 4 to a step; evaluations run without gradients.
PASSES = 4


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


def prepared(folder: Path, name: str, **more: Any) -> Training:
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 60, encoding="utf-8")
    given = {**SMALL, "data": str(text), "dir": str(folder / "runs"), "run_name": name, **more}
    known = {entry.name for entry in fields(Flags)}
    flags = Flags(**{k: v for k, v in given.items() if k in known})
    return set_up(flags, Place(torch.device("cpu")))


def interrupt(training: Training, number: int, *, step: int, after: int) -> None:
    """Have a signal come while a pass of a step is under way."""
    passes = iter(range(1, 1_000_000))

    def hook(module: Any, inputs: Any, output: Any) -> None:
        if torch.is_grad_enabled() and next(passes) == step * PASSES + after:
            os.kill(os.getpid(), number)

    training.model.register_forward_hook(hook)


def checkpoints(folder: Path, name: str) -> list[Manifest]:
    return list_manifests(folder / "runs" / "gpt2" / name / "checkpoints")


def test_a_step_is_not_awaited_and_the_last_whole_one_is_gone_on_from(tmp_path: Path) -> None:
    train(prepared(tmp_path, "whole", max_steps=9))
    training = prepared(tmp_path, "run", max_steps=9, checkpoint_freq=100)
    interrupt(training, signal.SIGINT, step=6, after=2)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    assert max(losses(tmp_path, "run")) == 5
    assert [(m.step, m.kind) for m in checkpoints(tmp_path, "run")][-1] == (5, "emergency")
    again = prepared(tmp_path, "run", max_steps=9)
    train(again, origin=find_origin("latest", again.flags), goes_on=True)
    assert losses(tmp_path, "run") == losses(tmp_path, "whole")


def test_a_request_to_save_disturbs_nothing(tmp_path: Path) -> None:
    train(prepared(tmp_path, "whole", max_steps=9))
    training = prepared(tmp_path, "run", max_steps=9, checkpoint_freq=100)
    interrupt(training, signal.SIGUSR1, step=6, after=2)
    train(training)
    assert (5, "emergency") in [(m.step, m.kind) for m in checkpoints(tmp_path, "run")]
    assert losses(tmp_path, "run") == losses(tmp_path, "whole")


def test_what_is_saved_already_is_not_saved_again(tmp_path: Path) -> None:
    training = prepared(tmp_path, "run", max_steps=9, checkpoint_freq=6, eval_freq=100)
    interrupt(training, signal.SIGINT, step=6, after=1)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    assert [(m.step, m.kind) for m in checkpoints(tmp_path, "run")] == [(5, "rolling")]


def test_in_the_first_step_there_is_nothing_to_save(tmp_path: Path) -> None:
    training = prepared(tmp_path, "run", max_steps=9)
    interrupt(training, signal.SIGINT, step=0, after=1)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    assert checkpoints(tmp_path, "run") == []
