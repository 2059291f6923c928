"""Counts values into equal bins where they are, without waiting for a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from epochal.torch.measure import local
from epochal.values import MAX_COUNTED, SAMPLE_SIZE, DeviceParts

_LARGEST = torch.finfo(torch.float64).max
# The width of the widest range must still be a float.
_SCALE = 0.125


@torch.no_grad()
def distribution(values: Any, *, bins: int) -> Tensor:
    """What ``run.samples.with_distribution`` takes, as one row of float64 on the values' device.

    By sorting: torch's own histograms wait for the device to learn the range, and sums into few
    bins have its threads wait for one another.
    """
    row, there = _row(values)
    finite = row.isfinite()
    count = finite.sum()
    ordered = torch.where(finite, row, torch.inf).sort().values  # what is not finite comes last
    low, high = ordered[0], ordered.gather(0, (count - 1).clamp(min=0).reshape(1))[0]
    some = count.clamp(min=1)
    mean = torch.where(finite, row, 0.0).sum() / some
    std = (torch.where(finite, row - mean, 0.0).square().sum() / some).sqrt()
    first, last = _range(low, high, bins)
    shares = torch.arange(1, bins, dtype=row.dtype, device=row.device) / bins
    inner = first + (last - first) * shares
    below = torch.searchsorted(ordered, inner / _SCALE)
    ends = torch.stack([torch.zeros_like(count), count])
    counts = torch.cat([ends[:1], below, ends[1:]]).diff()
    edges = [(edge / _SCALE).clamp(-_LARGEST, _LARGEST) for edge in (first, last)]
    sizes = [count, _number(row.numel(), row.device), _number(there, row.device)]
    facts = [*sizes, *edges, low, high, mean, std]
    return torch.cat([torch.stack([fact.to(row.dtype) for fact in facts]), counts.to(row.dtype)])


def _range(low: Tensor, high: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The edges, scaled; values that hardly differ get bins that floats can tell apart."""
    first, last = low * _SCALE, high * _SCALE
    alone = (first == last) * (0.5 * _SCALE)
    first, last = first - alone, last + alone
    largest = torch.maximum(first.abs(), last.abs())
    spacing = torch.nextafter(largest, torch.full_like(largest, torch.inf)) - largest
    narrowest = 2.0 * bins * spacing
    wider = torch.where(last - first < narrowest, narrowest, 0.0)
    return first - wider, last + wider


def _row(values: Any) -> tuple[Tensor, int]:
    """The values in one row of float64, at most as many as are counted, and how many there are."""
    if not isinstance(values, DeviceParts):
        tensor = local(values)
        return _sampled(tensor), tensor.numel()
    tensors = [part for part in values.parts if isinstance(part, Tensor)]
    device = next((one.device for one in tensors if one.is_cuda), tensors[0].device)
    rows = [_part(part, device) for part in values.parts]
    row = torch.cat(rows)
    return _sampled(row), row.numel()


def _part(value: Any, device: torch.device) -> Tensor:
    tensor = local(value) if isinstance(value, Tensor) else torch.as_tensor(value)
    if tensor.device != device and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.reshape(-1).to(device, torch.float64, non_blocking=True)


def _sampled(tensor: Tensor) -> Tensor:
    total = tensor.numel()
    if total > MAX_COUNTED:
        places = torch.arange(SAMPLE_SIZE, device=tensor.device) * total // SAMPLE_SIZE
        tensor = tensor.take(places)
    return tensor.reshape(-1).to(torch.float64)


def _number(value: int, device: torch.device) -> Tensor:
    """A number of the host on a device; filled there, so that nothing waits."""
    return torch.full((), value, dtype=torch.float64, device=device)
