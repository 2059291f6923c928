"""Trainings in processes of their own that are stopped while they judge themselves."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import torch.distributed as dist

from epochal.cli.main import main as epochal_command
from epochal.torch.checkpoint.manifest import Manifest, list_manifests
from tests.recipes.gpt2.trainings import finish, losses, records, start, wait_for

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of Unix")
needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")
# Minutes of choosing, which no test waits for.
ENDLESS = 200_000
# Two batches for the first of two ranks, one for the second.
UNEVEN = 17


def endless_questions(folder: Path) -> Path:
    """A HellaSwag that takes longer than anybody waits."""
    row = {"ctx": "the quick brown", "endings": ["fox", "dog", "cat", "hen"], "label": 0}
    path = folder / "questions.jsonl"
    path.write_text(f"{json.dumps(row)}\n" * ENDLESS, encoding="utf-8")
    return path


def saved(folder: Path) -> Manifest:
    return list_manifests(folder / "runs" / "gpt2" / "run" / "checkpoints")[-1]


def judged_steps(folder: Path) -> list[int]:
    return [record["step"] for record in records(folder, "run", "eval")]


def test_sigterm_ends_a_long_evaluation_which_is_made_anew(tmp_path: Path) -> None:
    questions = endless_questions(tmp_path)
    with start(tmp_path, run_name="run", checkpoint_freq=100, hellaswag=questions) as process:
        wait_for(process, tmp_path, step=4)
        process.send_signal(signal.SIGTERM)
        shown, _ = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    assert shown.count("the evaluation after step 4 is left unfinished and not reported") == 1
    assert judged_steps(tmp_path) == [0]
    assert (saved(tmp_path).step, saved(tmp_path).kind) == (4, "emergency")
    (end,) = records(tmp_path, "run", "finish")
    assert (end["status"], end["reason"]) == ("terminated", "SIGTERM")
    finish(tmp_path, "--resume", "latest", run_name="run", max_steps=7, hellaswag_examples=UNEVEN)
    assert judged_steps(tmp_path) == [0, 4, 6]
    assert sorted(losses(tmp_path, "run")) == list(range(7))


def test_epochal_stop_ends_a_long_evaluation(tmp_path: Path) -> None:
    questions = endless_questions(tmp_path)
    with start(tmp_path, run_name="run", checkpoint_freq=100, hellaswag=questions) as process:
        wait_for(process, tmp_path, step=4)
        stop = ["stop", "run", "--wait", "60", "--dir", str(tmp_path / "runs")]
        assert epochal_command(stop) == 0
        process.communicate(timeout=120)
    assert judged_steps(tmp_path) == [0]
    assert saved(tmp_path).step == 4


@needs_gloo
def test_ranks_with_unlike_shares_end_and_finish_together(tmp_path: Path) -> None:
    questions = endless_questions(tmp_path)
    some = {"run_name": "run", "checkpoint_freq": 100, "hellaswag": questions}
    with start(tmp_path, ranks=2, **some) as process:
        wait_for(process, tmp_path, step=4)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert judged_steps(tmp_path) == [0]
    assert (saved(tmp_path).step, saved(tmp_path).world_size) == (4, 2)
    more = {**some, "max_steps": 7, "hellaswag_examples": UNEVEN}
    finish(tmp_path, "--resume", "latest", ranks=2, **more)
    assert judged_steps(tmp_path) == [0, 4, 6]
