"""The running statistics of BatchNorm, as far as they should move while a model trains."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from epochal.torch.measure import local
from epochal.torch.names import plain_name


class RunningStats:
    """The BatchNorms of a model that keep statistics for evaluation."""

    def __init__(self, model: nn.Module) -> None:
        self._norms = [
            (plain_name(name), one)
            for name, one in model.named_modules()
            if isinstance(one, _BatchNorm) and one.track_running_stats
        ]

    def norms(self) -> tuple[tuple[str, ...], Tensor | None]:
        """Names and norms, one row each, of those in training mode; None without any.

        Others are frozen on purpose. The norm is of mean and variance together, in the precision
        of the statistics: it stays equal only if they do.
        """
        active = [(name, one) for name, one in self._norms if one.training and _is_ready(one)]
        if not active:
            return (), None
        with torch.no_grad():
            pairs = [local(one) for _, norm in active for one in _statistics(norm)]
            device = pairs[0].device
            each = [norm.to(device, torch.float64) for norm in torch._foreach_norm(pairs)]
            rows = torch.stack(each).view(-1, 2).square().sum(1, keepdim=True).sqrt()
        return tuple(name for name, _ in active), rows


def _is_ready(norm: _BatchNorm) -> bool:
    """Whether it has its statistics: a lazy one gets them in its first pass."""
    known = (norm.running_mean, norm.running_var)
    return all(isinstance(one, Tensor) and not nn.parameter.is_lazy(one) for one in known)


def _statistics(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return norm.running_mean, norm.running_var
