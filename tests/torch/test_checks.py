"""A mistake in a call is answered by one sentence that says what is accepted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import epochal.torch as tools
from epochal import Checkpoints, FlowBuilder, Retention, TrainingState, UsageError, watch

MODEL: Any = nn.Linear(2, 2)
TEXT: Any = "x"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tools.set_lr(MODEL, 0.1), "as in set_lr(optimizer, 3e-4), got Linear."),
        (
            lambda: tools.Rng(1).shuffle((1, 2)),
            "a list, a tensor or an array, which can be changed",
        ),
        (lambda: FlowBuilder(MODEL), "Begin a graph with FlowBuilder.start(part)"),
        (lambda: tools.freeze("a", "b"), "a module or a parameter, such as model.encoder, got 'a'"),  # type: ignore[arg-type]
        (lambda: tools.freeze(), "at least one module or parameter"),
        (lambda: tools.clip_grad_norm(TEXT, 1.0), "as in clip_grad_norm(model, 1.0), got 'x'."),
        (lambda: tools.clip_grad_norm(MODEL, 1.0, stats=TEXT), "stats must be a ClipStats()"),
        (lambda: tools.set_data(MODEL, torch.ones(2)), "param must be a tensor, got Linear."),
        (lambda: tools.uniform(TEXT, 0, 1), "such as (64, 32), got 'x'."),
        (lambda: tools.uniform_bias(TEXT, (2,)), "fan_in must be a whole number, got 'x'."),
        (lambda: tools.manual_seed(TEXT), "seed must be a whole number, got 'x'."),
        (lambda: tools.manual_seed(2**70), "seed must fit into 64 bits"),
        (lambda: tools.CosineScheduler(MODEL, 0, 1), "of at least 0, got Linear."),
        (lambda: tools.CosineScheduler(1, 0, 1).lr(TEXT), "step must be a whole number, got 'x'."),
        (lambda: tools.MultiStepLR(1, MODEL, 0.5), "milestones must be a list of steps"),
        (lambda: tools.Rng(1).bernoulli(TEXT), "p must be a finite number"),
        (lambda: watch(TEXT), "model must be a torch module, got 'x'."),
        (lambda: watch(MODEL, every=TEXT), "every must be a whole number, got 'x'."),
        (lambda: Checkpoints("folder", MODEL), "TrainingState(model, optimizer)), got Linear."),
        (lambda: Checkpoints(MODEL, TrainingState(MODEL)), "a run of epochal.init() or a folder"),
        (lambda: Retention(TEXT), "rolling must be a whole number or None, got 'x'."),
        (lambda: FlowBuilder.start(MODEL).build().trend(MODEL), "tag must be a text, got Linear."),
        (lambda: FlowBuilder.start(MODEL).build().collect(MODEL), "a name or a list of names"),
    ],
)
def test_a_mistake_names_what_is_accepted(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["junk.fdl", "junk.safetensors", "empty.fdl"])
def test_a_junk_file_is_named_without_the_words_of_a_library(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"" if name == "empty.fdl" else b"no checkpoint " * 20)
    with pytest.raises(
        ValueError, match=rf"{name} is neither a safetensors file nor an \.fdl"
    ) as e:
        tools.load_checkpoint_file(tmp_path / name, MODEL)
    assert "header" not in str(e.value)
