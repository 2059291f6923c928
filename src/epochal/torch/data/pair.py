"""The inputs and the targets of a batch, where it is a pair of them, as arrays of the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from epochal.torch.data.sample_hash import leaves

LABELS = ("label", "labels", "target", "targets", "y")
_INPUTS = ("input_ids", "inputs", "input", "pixel_values", "x", "tokens")
# Rows and columns that figures are made of; a column keeps its place in every batch.
MOST_ROWS, _MOST_COLUMNS = 256, 128

Array = np.ndarray[Any, Any]


def pair_of(batch: Any, count: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Inputs and targets with a row for each sample; None where a batch is something else.

    A tuple of more than two says not which of them the targets are.
    """
    if isinstance(batch, Mapping):
        targets = next((batch[name] for name in LABELS if name in batch), None)
        named = [batch[name] for name in _INPUTS if name in batch]
        inputs = next((one for one in [*named, *batch.values()] if one is not targets), None)
    elif isinstance(batch, (tuple, list)) and len(batch) == 2:
        inputs, targets = batch
    else:
        return None
    inputs = next((one for one in leaves(inputs) if isinstance(one, torch.Tensor)), None)
    if not isinstance(inputs, torch.Tensor) or not isinstance(targets, torch.Tensor):
        return None
    for one in (inputs, targets):
        if one.device.type != "cpu" or one.is_complex() or one.layout != torch.strided:
            return None
        if not one.dim() or one.shape[0] != count or not one.numel():
            return None
    return inputs.detach(), targets.detach()


def some_columns(tensor: torch.Tensor) -> Array:
    """Rows of at most so many columns, evenly spread over the elements of a sample."""
    rows = tensor[:MOST_ROWS].reshape(min(len(tensor), MOST_ROWS), -1)
    rows = rows[:, :: -(-rows.shape[1] // _MOST_COLUMNS)]
    kept = rows.to(torch.float32 if tensor.is_floating_point() else torch.int64)
    return kept.contiguous().numpy()
