"""Asks a training, and proves that nothing but the answers is left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import epochal
from epochal.torch.preflight.answer import Preflight
from tests.torch.preflight.trainings import Training


def asked(training: Training) -> Preflight:
    """The answers; fails if the training is not exactly as it was before."""
    model = training.model
    first = next(p for p in model.parameters() if p.requires_grad)
    first.grad = torch.full_like(first, 3.0)
    before = dict(traces(training))
    result = epochal.preflight(model, training.batch, training.loss_fn, **training.options)
    after = dict(traces(training))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    assert changed == [], changed
    return result


def traces(training: Training) -> Iterator[tuple[str, Any]]:
    for name, module in training.model.named_modules():
        for key, value in vars(module).items():
            yield f"{name}.{key}", trace(value)
    for name, parameter in training.model.named_parameters():
        yield f"{name}.grad", trace(parameter.grad)
        yield f"{name}.requires_grad", parameter.requires_grad
    yield "batch", trace(training.batch)
    optimizer = training.options.get("optimizer")
    if optimizer is not None:
        yield "optimizer", (repr(optimizer.state_dict()), len(optimizer.state))
    yield "torch", torch.get_rng_state().tolist()
    yield "numpy", repr(np.random.get_state())
    yield "python", random.getstate()


def trace(value: Any) -> Any:
    if isinstance(value, Tensor):
        bits = value.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
        return (id(value), bits)
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, dict):
        return {key: trace(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [trace(item) for item in value]
    if isinstance(value, nn.Module) or not isinstance(value, (bool, int, float, str)):
        return id(value)
    return value
