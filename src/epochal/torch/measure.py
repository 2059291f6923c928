"""Reduces many tensors to a few numbers each, where the tensors are, without waiting for a GPU.

One row per tensor: norm, smallest, largest, mean, share of zeros, count of non-finite values, and
the counts of a histogram between smallest and largest. All rows leave the device in one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FIELDS = ("norm", "min", "max", "mean", "std", "zeros", "nonfinite", "count")
# On a CPU a histogram of every element would cost a third of a training step.
CPU_SAMPLE = 65_536


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
        self._event: torch.cuda.Event | None = None
        if packed.is_cuda:
            self._host = torch.empty_like(packed, device="cpu", pin_memory=True)
            with torch.cuda.device(packed.device):
                self._host.copy_(packed, non_blocking=True)
                self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._event.record()
        else:
            self._host = packed

    def have_arrived(self) -> bool:
        """Whether reading them would not wait."""
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def read_column(self) -> list[float]:
        """The first number of each row; waits for those still on their way."""
        if self._event is not None:
            self._event.synchronize()
        return [float(row[0]) for row in self._host.tolist()]

    def read(self) -> list[Reduced]:
        """The rows; waits for those still on their way."""
        if self._event is not None:
            self._event.synchronize()
        width = len(FIELDS)
        rows = []
        for numbers in self._host.tolist():
            facts = dict(zip(FIELDS, numbers, strict=False))
            facts["nonfinite"], facts["count"] = int(facts["nonfinite"]), int(facts["count"])
            rows.append(Reduced(**facts, counts=[int(n) for n in numbers[width:]]))
        return rows


@torch.no_grad()
def reduce_tensors(tensors: Sequence[torch.Tensor], *, bins: int) -> torch.Tensor:
    """One row per tensor, float64, on the tensors' device; ``bins`` 0 leaves histograms out."""
    norms = torch._foreach_norm([local(tensor) for tensor in tensors])
    rows = []
    for tensor, norm in zip(tensors, norms, strict=True):
        values = _sampled(local(tensor)).float()
        rows.append(_row(values, norm, total=tensor.numel(), bins=bins))
    return torch.stack(rows)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's own part of a tensor."""
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part.detach()


def _row(values: torch.Tensor, norm: torch.Tensor, *, total: int, bins: int) -> torch.Tensor:
    finite = values.isfinite()
    count = finite.sum()
    safe = torch.where(finite, values, torch.zeros_like(values))
    low = torch.where(finite, values, torch.full_like(values, torch.inf)).amin()
    high = torch.where(finite, values, torch.full_like(values, -torch.inf)).amax()
    some = count.clamp(min=1)
    mean = safe.sum() / some
    spread = torch.where(finite, values - mean, torch.zeros_like(values)).square().sum() / some
    scale = total / max(values.numel(), 1)
    facts = [
        norm,
        low,
        high,
        mean,
        spread.sqrt(),
        (safe == 0).logical_and(finite).sum() / some,
        (values.numel() - count) * scale,
        count * scale,
    ]
    row = torch.stack([fact.to(torch.float64) for fact in facts])
    if not bins:
        return row
    return torch.cat([row, _histogram(safe, finite, low, high, bins=bins) * scale])


def _histogram(
    values: torch.Tensor,
    finite: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    *,
    bins: int,
) -> torch.Tensor:
    """Counts by scattering: torch's own histograms wait for the device to learn the range."""
    width = (high - low).clamp(min=torch.finfo(torch.float32).tiny)
    places = ((values - low) / width * bins).clamp(0, bins - 1).nan_to_num().long()
    counts = torch.zeros(bins, dtype=torch.float64, device=values.device)
    return counts.scatter_add_(0, places.view(-1), finite.view(-1).to(torch.float64))


def _sampled(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    if tensor.is_cuda or flat.numel() <= CPU_SAMPLE:
        return flat
    # A stride that is odd does not fall into step with rows of a power of two.
    stride = flat.numel() // CPU_SAMPLE | 1
    return flat[::stride]
