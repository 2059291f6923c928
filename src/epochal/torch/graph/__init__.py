"""Graphs that observe themselves: building, recording and timing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.graph.builder import FlowBuilder
    from epochal.torch.graph.graph import Graph
    from epochal.torch.graph.metrics import Reduce
    from epochal.torch.graph.module_profile import ModuleProfile, profile_module
    from epochal.torch.graph.node_modules import MergeOp
    from epochal.torch.graph.profile_report import Profile
    from epochal.torch.graph.recorded import ScalarSum

__all__ = [
    "FlowBuilder",
    "Graph",
    "MergeOp",
    "ModuleProfile",
    "Profile",
    "Reduce",
    "ScalarSum",
    "profile_module",
]

__getattr__ = on_first_use(
    __name__,
    {
        "builder": ["FlowBuilder"],
        "graph": ["Graph"],
        "metrics": ["Reduce"],
        "module_profile": ["ModuleProfile", "profile_module"],
        "node_modules": ["MergeOp"],
        "profile_report": ["Profile"],
        "recorded": ["ScalarSum"],
    },
)
