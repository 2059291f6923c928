"""Reduces tensors to a few numbers and histograms, where they are, without waiting for a GPU.

One row per tensor: norm, smallest, largest, mean, share of zeros, count of non-finite values, and
the counts of a histogram between smallest and largest. All rows leave the device in one copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from epochal.records.values import MAX_COUNTED, SAMPLE_SIZE, DeviceParts

# Tensors copied to main memory while the GPU goes on.


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Copies that nothing else changes; those from a GPU may still be on their way."""

    _tensors: dict[str, Tensor]
    _events: tuple[Any, ...]

    def has_arrived(self) -> bool:
        """Return whether `ready` would return without waiting."""
        return all(event.query() for event in self._events)

    def ready(self) -> dict[str, Tensor]:
        """Wait until every copy has arrived, and return them. Any thread may call it."""
        for event in self._events:
            event.synchronize()
        return self._tensors


def copied_to_host(tensors: Mapping[str, Tensor]) -> HostCopy:
    """Copy tensors to main memory; from a GPU into pinned memory, without waiting for it.

    The copies are ordered on the stream in use: later work on that stream may change the
    originals. For work on another stream, call `ready()` first.
    """
    copies = {name: _copied(tensor) for name, tensor in tensors.items()}
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    return HostCopy(copies, tuple(_recorded(device) for device in sorted(devices, key=str)))


def _copied(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if not tensor.is_cuda:
        return tensor.clone(memory_format=torch.contiguous_format).cpu()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor, non_blocking=True)


def _recorded(device: torch.device) -> Any:
    cuda: Any = torch.cuda
    event = cuda.Event()
    event.record(cuda.current_stream(device))
    return event


FIELDS = ("norm", "min", "max", "mean", "std", "zeros", "nonfinite", "count")
# A histogram of every element would cost a third of a training step on a CPU, and ten steps of
# GPT-2 on a GPU, whose threads wait for one another at a bin. Norms are of everything.
SAMPLE = 65_536


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is known of one tensor; ``counts`` are of the finite values, in equal bins."""

    norm: float
    min: float
    max: float
    mean: float
    std: float
    zeros: float
    nonfinite: int
    count: int
    counts: list[int]


class Rows:
    """The rows of several tensors on their way to the host."""

    def __init__(self, packed: torch.Tensor) -> None:
        self._copy = copied_to_host({"rows": packed})

    def have_arrived(self) -> bool:
        """Return whether reading them would not wait."""
        return self._copy.has_arrived()

    def read_column(self) -> list[float]:
        """The first number of each row; waits for those still on their way."""
        return [float(row[0]) for row in self._copy.ready()["rows"].tolist()]

    def read(self) -> list[Reduced]:
        """The rows; waits for those still on their way."""
        width = len(FIELDS)
        rows = []
        for numbers in self._copy.ready()["rows"].tolist():
            facts = dict.fromkeys(FIELDS, 0.0) | dict(zip(FIELDS, numbers, strict=False))
            facts["nonfinite"], facts["count"] = int(facts["nonfinite"]), int(facts["count"])
            rows.append(Reduced(**facts, counts=[int(n) for n in numbers[width:]]))
        return rows


@torch.no_grad()
def reduce_tensors(tensors: Sequence[torch.Tensor], *, bins: int) -> torch.Tensor:
    """One row per tensor, float64, on the tensors' device; ``bins`` 0 leaves histograms out."""
    parts = [local(tensor) for tensor in tensors]
    device = parts[0].device  # a model may be spread over several; its rows meet on one
    each = torch._foreach_norm(parts)
    norms = torch.stack([norm.to(device, torch.float64, non_blocking=True) for norm in each])
    samples = [sampled(part) for part in parts]
    table = _table(samples)
    lengths = _on_device([sample.numel() for sample in samples], table.device)
    totals = _on_device([part.numel() for part in parts], table.device)
    return _reduce_rows(table, norms, lengths, totals / lengths, bins=bins)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's own part of a tensor."""
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part.detach()


def _reduce_rows(
    table: torch.Tensor,
    norms: torch.Tensor,
    lengths: torch.Tensor,
    scale: torch.Tensor,
    *,
    bins: int,
) -> torch.Tensor:
    """All rows at once: a handful of kernels, however many tensors there are."""
    finite = table.isfinite()
    count = finite.sum(1).to(torch.float64)
    some = count.clamp(min=1)
    safe = torch.where(finite, table, 0.0)
    low = torch.where(finite, table, torch.inf).amin(1)
    high = torch.where(finite, table, -torch.inf).amax(1)
    mean = safe.sum(1, dtype=torch.float64) / some
    away = torch.where(finite, table - mean.unsqueeze(1).float(), 0.0)
    facts = [
        norms,
        low.to(torch.float64),
        high.to(torch.float64),
        mean,
        (away.square().sum(1, dtype=torch.float64) / some).sqrt(),
        ((table == 0).sum(1) / some),
        (lengths - count) * scale,
        count * scale,
    ]
    rows = torch.stack(facts, dim=1)
    if not bins:
        return rows
    counts = _histograms(safe, finite, low, high, bins=bins)
    return torch.cat([rows, counts * scale.unsqueeze(1)], dim=1)


def _histograms(
    values: torch.Tensor, finite: torch.Tensor, low: torch.Tensor, high: torch.Tensor, *, bins: int
) -> torch.Tensor:
    """Counts by scattering: torch's own histograms wait for the device to learn the range."""
    # Halved, so that the width of the widest range is still a float.
    first, last = low * 0.5, high * 0.5
    shares = (values * 0.5).sub_(first.unsqueeze(1)).div_((last - first).unsqueeze(1))
    places = shares.mul_(bins).nan_to_num_(0.0, 0.0, 0.0).clamp_(0, bins - 1).long()
    counts = torch.zeros(len(values), bins, dtype=torch.float32, device=values.device)
    return counts.scatter_add_(1, places, finite.to(torch.float32)).to(torch.float64)


def _table(samples: Sequence[torch.Tensor]) -> torch.Tensor:
    """One row per sample, filled up with NaN, which nothing below counts."""
    longest = max(sample.numel() for sample in samples)
    table = torch.full((len(samples), longest), torch.nan, device=samples[0].device)
    for row, sample in zip(table, samples, strict=True):
        row[: sample.numel()].copy_(sample)
    return table


def _on_device(numbers: Sequence[int], device: torch.device) -> torch.Tensor:
    """Numbers of the host on a device, without waiting for it."""
    column = torch.tensor(numbers, dtype=torch.float64)
    if device.type != "cuda":
        return column
    return column.pin_memory().to(device, non_blocking=True)


def sampled(tensor: torch.Tensor, most: int = SAMPLE) -> torch.Tensor:
    """About ``most`` elements at equal distances, or all where there are no more."""
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= most:
        return flat
    # A stride that is odd does not fall into step with rows of a power of two.
    return flat[:: flat.numel() // most | 1]


# -- the distribution of one tensor ----------------------------------------------------------------


_LARGEST = torch.finfo(torch.float64).max
# The width of the widest range must still be a float.
_SCALE = 0.125


@torch.no_grad()
def distribution(values: Any, *, bins: int) -> Tensor:
    """What ``run.histogram.with_distribution`` takes, as one row of float64 on the values' device.

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
        return _counted(tensor), tensor.numel()
    tensors = [part for part in values.parts if isinstance(part, Tensor)]
    device = next((one.device for one in tensors if one.is_cuda), tensors[0].device)
    rows = [_part(part, device) for part in values.parts]
    row = torch.cat(rows)
    return _counted(row), row.numel()


def _part(value: Any, device: torch.device) -> Tensor:
    tensor = local(value) if isinstance(value, Tensor) else torch.as_tensor(value)
    if tensor.device != device and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.reshape(-1).to(device, torch.float64, non_blocking=True)


def _counted(tensor: Tensor) -> Tensor:
    total = tensor.numel()
    if total > MAX_COUNTED:
        places = torch.arange(SAMPLE_SIZE, device=tensor.device) * total // SAMPLE_SIZE
        tensor = tensor.take(places)
    return tensor.reshape(-1).to(torch.float64)


def _number(value: int, device: torch.device) -> Tensor:
    """A number of the host on a device; filled there, so that nothing waits."""
    return torch.full((), value, dtype=torch.float64, device=device)
