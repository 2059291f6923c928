"""Advice from the loss: when to stop, and when to lower the learning rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.control.early_stopping import EarlyStopping
    from epochal.torch.control.loss_guard import LossGuard

__all__ = ["EarlyStopping", "LossGuard"]

__getattr__ = on_first_use(
    __name__, {"early_stopping": ["EarlyStopping"], "loss_guard": ["LossGuard"]}
)
