"""Graphs that observe themselves: building, recording, drawing and timing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.graph.builder import FlowBuilder, MergeOp
    from epochal.torch.graph.graph import Graph
    from epochal.torch.graph.picture import picture_of
    from epochal.torch.graph.profile import profile_module

__all__ = ["FlowBuilder", "Graph", "MergeOp", "picture_of", "profile_module"]

__getattr__ = on_first_use(
    __name__,
    {
        "builder": ["FlowBuilder", "MergeOp"],
        "graph": ["Graph"],
        "picture": ["picture_of"],
        "profile": ["profile_module"],
    },
)
