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
from epochal.torch.checkpoint.manifest import Manifest, list_manifests
from tests.recipes.gpt2.trainings import SMALL, losses, records, run_here

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


def interrupt_evaluation(training: Training, number: int, *, batch: int) -> None:
    """Have a signal come in the so manieth batch of all evaluations, of two batches each."""
    passes = iter(range(1, 1_000_000))

    def hook(module: Any, inputs: Any, output: Any) -> None:
        if not torch.is_grad_enabled() and next(passes) == batch:
            os.kill(os.getpid(), number)

    training.model.register_forward_hook(hook)


def evaluations(folder: Path, name: str) -> dict[int, list[float]]:
    """The losses found at each step."""
    found: dict[int, list[float]] = {}
    for record in records(folder, name, "eval"):
        found.setdefault(record["step"], []).append(record["loss"])
    return found


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


def test_an_evaluation_is_not_awaited_and_is_made_anew(tmp_path: Path) -> None:
    train(prepared(tmp_path, "whole", max_steps=9))
    training = prepared(tmp_path, "run", max_steps=9, checkpoint_freq=100)
    interrupt_evaluation(training, signal.SIGINT, batch=3)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    assert list(evaluations(tmp_path, "run")) == [0]
    (saved,) = checkpoints(tmp_path, "run")
    assert (saved.step, saved.kind, saved.metric) == (4, "emergency", None)
    told = [record["text"] for record in records(tmp_path, "run", "message")]
    assert any("evaluation after step 4 is left unfinished and not reported" in t for t in told)
    again = prepared(tmp_path, "run", max_steps=9)
    train(again, origin=find_origin("latest", again.flags), goes_on=True)
    assert losses(tmp_path, "run") == losses(tmp_path, "whole")
    assert evaluations(tmp_path, "run") == evaluations(tmp_path, "whole")


def test_the_last_evaluation_is_made_when_there_is_nothing_else_left(tmp_path: Path) -> None:
    training = prepared(tmp_path, "run", max_steps=5)
    interrupt_evaluation(training, signal.SIGINT, batch=3)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    again = ["--run_name", "run", "--dir", str(tmp_path / "runs"), "--resume", "latest"]
    assert run_here(tmp_path, again)[0] == 0
    ((loss,), saved) = evaluations(tmp_path, "run")[4], checkpoints(tmp_path, "run")[-1]
    assert (saved.step, saved.metric) == (4, loss)
    assert "there is nothing left to train" in run_here(tmp_path, again)[1]


def test_in_the_first_evaluation_there_is_nothing_to_save(tmp_path: Path) -> None:
    training = prepared(tmp_path, "run", max_steps=9)
    interrupt_evaluation(training, signal.SIGINT, batch=1)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    assert checkpoints(tmp_path, "run") == []
    assert evaluations(tmp_path, "run") == {}


def test_an_evaluation_goes_on_after_a_request_to_save(tmp_path: Path) -> None:
    training = prepared(tmp_path, "run", max_steps=9, checkpoint_freq=100)
    interrupt_evaluation(training, signal.SIGUSR1, batch=3)
    train(training)
    assert list(evaluations(tmp_path, "run")) == [0, 4, 8]
    assert not [r for r in records(tmp_path, "run", "message") if "unfinished" in r["text"]]
    saved = {m.step: m.metric for m in checkpoints(tmp_path, "run")}
    assert saved[4] == evaluations(tmp_path, "run")[4][0]


def test_a_judged_step_that_is_saved_later_keeps_its_metric(tmp_path: Path) -> None:
    # With a rate that high no evaluation beats the first, so that none is saved for it.
    training = prepared(tmp_path, "run", max_steps=19, checkpoint_freq=100, max_lr=1.0)
    interrupt(training, signal.SIGINT, step=10, after=1)
    with pytest.raises(KeyboardInterrupt):
        train(training)
    saved = checkpoints(tmp_path, "run")[-1]
    assert (saved.step, saved.metric) == (9, evaluations(tmp_path, "run")[9][0])
