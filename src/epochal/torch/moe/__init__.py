"""Mixtures of experts: statistics of the routers, and a watch that records them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.moe.stats import MoeAccumulator, moe_stats
    from epochal.torch.moe.watch import watch_moe

__all__ = ["MoeAccumulator", "moe_stats", "watch_moe"]

__getattr__ = on_first_use(
    __name__, {"stats": ["MoeAccumulator", "moe_stats"], "watch": ["watch_moe"]}
)
