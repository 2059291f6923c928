"""Advice from the loss: when to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.control.early_stopping import EarlyStopping

__all__ = ["EarlyStopping"]

__getattr__ = on_first_use(__name__, {"early_stopping": ["EarlyStopping"]})
