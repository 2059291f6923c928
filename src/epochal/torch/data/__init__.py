"""What a data loader gives: identities of its samples, labels, padding, values that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.data.watch import watch_data

__all__ = ["watch_data"]

__getattr__ = on_first_use(__name__, {"watch": __all__})
