"""Mixtures of experts: statistics of the routers, and a watch that records them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.moe.stats import MoeAccumulator, MoeStats, moe_stats
    from epochal.torch.moe.watch import MoeWatch, watch_moe

__all__ = ["MoeAccumulator", "MoeStats", "MoeWatch", "moe_stats", "watch_moe"]

__getattr__ = on_first_use(
    __name__,
    {"stats": ["MoeAccumulator", "MoeStats", "moe_stats"], "watch": ["MoeWatch", "watch_moe"]},
)
