"""A mistake in a call is answered by one sentence that says what is accepted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import epochal.torch as tools
from epochal import Checkpoints, FlowBuilder, Retention, TrainingState, UsageError, watch

MODEL: Any = nn.Linear(2, 2)
TEXT: Any = "x"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: FlowBuilder(MODEL), "Begin a graph with FlowBuilder.start(part)"),
        (lambda: tools.CosineScheduler(MODEL, 0, 1), "of at least 0, got Linear."),
        (lambda: tools.CosineScheduler(1, 0, 1).lr(TEXT), "step must be a whole number, got 'x'."),
        (lambda: tools.Rng(1).bernoulli(TEXT), "p must be a finite number"),
        (lambda: watch(TEXT), "model must be a torch module, got 'x'."),
        (lambda: watch(MODEL, every=TEXT), "every must be a whole number, got 'x'."),
        (lambda: Checkpoints("folder", MODEL), "TrainingState(model, optimizer)), got Linear."),
        (lambda: Checkpoints(MODEL, TrainingState(MODEL)), "a run of epochal.init() or a folder"),
        (lambda: Retention(TEXT), "rolling must be a whole number or None, got 'x'."),
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
