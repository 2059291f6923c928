from __future__ import annotations

import subprocess
import sys

import pytest

from epochal.records import Axis
from epochal.series.importance import Importance, importance


@pytest.mark.parametrize(
    ("name", "role", "is_declared", "axis", "expected"),
    [
        ("hellaswag_accuracy", None, True, "step", "GOAL"),
        ("grads/w/norm", None, True, "step", "GOAL"),
        ("cost", "loss", False, "step", "LOSS"),
        ("loss", None, False, "none", "LOSS"),
        ("cost", "unknown", False, "step", "OWN"),
        ("val/loss", "eval_loss", False, "step", "EVAL_LOSS"),
        ("lr", None, False, "step", "LR"),
        ("train/norm", "norm", False, "step", "NORM"),
        ("norm", None, False, "step", "NORM"),
        ("tokens_per_second", "throughput", False, "step", "THROUGHPUT"),
        ("score", None, False, "none", "SET"),
        ("test/accuracy", None, False, "none", "SET"),
        ("train_time_s", None, False, "none", "TIMING"),
        ("val_acc", None, False, "step", "EVALUATION"),
        ("test.spread", None, False, "epoch", "EVALUATION"),
        ("hellaswag_accuracy", None, False, "step", "EVALUATION"),
        ("reward", None, False, "step", "EVALUATION"),
        ("moe/aux_loss", None, False, "step", "OWN"),
        ("train/accuracy", None, False, "step", "OWN"),
        ("train_loss_epoch", None, False, "step", "OWN"),
        ("train/norm_clipped", None, False, "step", "OWN"),
        ("eval/tokens_per_second", None, False, "step", "TIMING"),
        ("train/duration_ms", None, False, "step", "TIMING"),
        ("epoch/duration_s", None, False, "epoch", "TIMING"),
        ("eval/eval_tokens", None, False, "step", "TIMING"),
        ("train/sol", None, False, "step", "TIMING"),
        ("train/epoch", None, False, "step", "TIMING"),
        ("gpu/0/util", None, False, "time", "MACHINE"),
        ("phase/forward", None, False, "step", "MACHINE"),
        ("params/wte.weight/norm", None, False, "step", "TENSOR"),
        ("update_ratio/head", None, False, "step", "TENSOR"),
    ],
)
def test_the_order_of_metrics(
    name: str, role: str | None, is_declared: bool, axis: Axis, expected: str
) -> None:
    found = importance(name, role=role, is_declared=is_declared, axis=axis)
    assert found is Importance[expected]


def test_the_order_of_metrics_needs_no_numpy() -> None:
    code = "import sys, epochal.series.importance; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
