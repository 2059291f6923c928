"""Around the optimizer: gradient clipping that never waits for the GPU, and the learning rate.

What is returned and what :class:`ClipStats` keeps are tensors on the gradients' device; they are
numbers only once somebody reads them. `Run.log` takes them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from epochal.errors import UsageError
from epochal.torch.checks import check, check_number

Parameters = Tensor | torch.nn.Module | Iterable[Tensor]

# As in torch.nn.utils: keeps the quotient finite, at a relative cost of a millionth.
_EPSILON = 1e-6
_NARROW = (torch.float16, torch.bfloat16)


class ClipStats:
    """The figures around clipping: before, after, and how often it acted.

    Everything stays on the device, in one tensor that is updated in place, so that it also counts
    inside a replayed CUDA graph. `metrics()` hands out tensors and waits for nothing; the
    properties are numbers and do wait.
    """

    def __init__(self) -> None:
        self._figures: Tensor | None = None

    def record(self, before: Tensor, *, limit: float) -> None:
        """Take the value before clipping and the limit it was clipped to.

        Args:
            before: The norm before clipping.
            limit: The largest norm.
        """
        before = before.detach().to(torch.float64)
        if self._figures is None:
            self._figures = torch.zeros(4, dtype=torch.float64, device=before.device)
        clipped = before.isfinite() & (before > limit)
        after = torch.where(clipped, torch.full_like(before, limit), before)
        self._figures[0].add_(1)
        self._figures[1].add_(clipped)
        self._figures[2].copy_(before)
        self._figures[3].copy_(after)

    def metrics(self) -> dict[str, Tensor]:
        """Return `norm`, `norm_clipped` and `clip_rate` for `log`; empty before the first step."""
        if self._figures is None:
            return {}
        # Copies: the figures change in place with the next step.
        steps, clipped, before, after = self._figures.clone().unbind()
        return {"norm": before, "norm_clipped": after, "clip_rate": clipped / steps}

    def reset(self) -> None:
        """Count the steps anew from here."""
        if self._figures is not None:
            self._figures.zero_()

    @property
    def clip_rate(self) -> float:
        """The share of clipped steps, nan before the first; waits for the GPU."""
        return math.nan if self._figures is None else float(self._figures[1] / self._figures[0])


def clip_grad_norm(
    params: Parameters, max_norm: float, *, stats: ClipStats | None = None
) -> Tensor:
    """Scale all gradients so that their joint L2 norm is at most `max_norm`.

    Returns the norm before clipping, 0-d, on the gradients' device. Half-precision gradients are
    summed up in float32. A norm that is not finite leaves the gradients as they are: a grad scaler
    or a search for the cause still sees them. Gradients on CPU and GPU in one call do wait for the
    GPU, and so do sparse ones.

    Args:
        params: The parameters, or one tensor.
        max_norm: The largest norm.
        stats: Counts how often and how much gradients are clipped.
    """
    _check(max_norm, name="max_norm")
    with torch.no_grad():
        groups = _gradient_groups(params)
        norms = [norm for group in groups for norm in _norms(group, 2.0)]
        total: Tensor = torch.linalg.vector_norm(_together(norms), 2.0)
        scale = (max_norm / (total + _EPSILON)).clamp(max=1.0)
        scale = torch.where(total.isfinite(), scale, torch.ones_like(scale))
        for group in groups:
            torch._foreach_mul_(group, scale.to(group[0].device))
        if stats is not None:
            stats.record(total, limit=max_norm)
    return total


def clip_grad_value(
    params: Parameters, max_value: float, *, stats: ClipStats | None = None
) -> Tensor:
    """Clamp every element of the gradients to between -`max_value` and `max_value`.

    Returns the largest absolute element before clipping, 0-d, on the gradients' device; nan if one
    is nan. A nan stays one, an infinity becomes the limit.

    Args:
        params: The parameters, or one tensor.
        max_value: The largest absolute value.
        stats: Counts how often and how much gradients are clipped.
    """
    _check(max_value, name="max_value")
    with torch.no_grad():
        groups = _gradient_groups(params)
        largest = _together([norm for group in groups for norm in _norms(group, math.inf)]).amax()
        for group in groups:
            torch._foreach_clamp_min_(group, -max_value)
            torch._foreach_clamp_max_(group, max_value)
        if stats is not None:
            stats.record(largest, limit=max_value)
    return largest


def _gradient_groups(params: Parameters) -> list[list[Tensor]]:
    """The gradients that there are, each once, in groups of one device and dtype."""
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    seen: set[int] = set()
    for param in _tensors(params):
        gradient = param.grad
        if gradient is None or id(param) in seen or not gradient.numel():
            continue
        seen.add(id(param))
        if gradient.is_sparse:
            # Only summed-up entries have a norm; the parameter keeps the summed form.
            param.grad = gradient.coalesce()
            gradient = param.grad.values()
        groups.setdefault((gradient.device, gradient.dtype), []).append(gradient)
    # A host value goes to the GPU without waiting, the other way round it cannot.
    return sorted(groups.values(), key=lambda group: group[0].device.type == "cpu")


def _tensors(params: Parameters) -> Iterable[Tensor]:
    if isinstance(params, torch.nn.Module):
        return params.parameters()
    return [params] if isinstance(params, Tensor) else params


def _norms(group: list[Tensor], order: float) -> Iterable[Tensor]:
    if group[0].dtype in _NARROW:
        return torch._foreach_norm(group, order, dtype=torch.float32)
    return torch._foreach_norm(group, order)


def _together(norms: list[Tensor]) -> Tensor:
    """Norms of several devices and dtypes in one tensor, on the first one's device."""
    if not norms:
        return torch.zeros(1)
    wide = torch.float64 if any(norm.dtype == torch.float64 for norm in norms) else torch.float32
    place = norms[0].device
    return torch.stack([norm.to(device=place, dtype=wide, non_blocking=True) for norm in norms])


def _check(limit: float, *, name: str) -> None:
    # A tensor is refused because comparing it would wait for the GPU at every step.
    check(isinstance(limit, (int, float)), limit, "a plain number", name=name)
    if not limit > 0:
        raise UsageError(f"{name} must be above 0, got {limit!r}.")


# -- the learning rate -----------------------------------------------------------------------------


def set_lr(optimizer: Optimizer, lr: float, group: int | None = None) -> None:
    """Set the rate of every parameter group, or of one by its index.

    A rate that the optimizer keeps as a tensor (for CUDA graphs, `torch.compile`) is filled in
    place, without waiting for the GPU.

    Args:
        optimizer: The optimizer.
        lr: The learning rate.
        group: The index of the parameter group; all of them if you give none.
    """
    check_number(lr, name="lr")
    groups = optimizer.param_groups
    for chosen in groups if group is None else [groups[group]]:
        if isinstance(chosen["lr"], Tensor):
            chosen["lr"].fill_(lr)
        else:
            chosen["lr"] = lr


class Schedule(Protocol):
    """What gives the learning rate of each step; every :class:`~epochal.torch.Scheduler` is one."""

    def lr(self, step: int) -> float:
        """Return the rate of one step, counted from 0."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must keep."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict()`."""


class TorchSchedule(LRScheduler):
    """Sets every parameter group to `schedule.lr(steps so far)`; call `step()` after the optimizer.

    `state_dict()` has the number of steps and the state of the schedule. The arguments of the
    schedule are those in your program.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self.schedule = schedule
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rate of each group at the present step."""
        return [self.schedule.lr(self.last_epoch)] * len(self.optimizer.param_groups)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {**super().state_dict(), "schedule": self.schedule.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict()`."""
        self.schedule.load_state_dict(state_dict["schedule"])
        super().load_state_dict({**state_dict, "schedule": self.schedule})
