"""Branches of which a router takes one, or mixes all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from epochal.errors import UsageError


class Switch(nn.Module):
    """Runs the one branch whose number the router gives for the whole batch.

    The router answers with an int or a tensor of one element, and reading one on a GPU waits for
    it. The other branches get no gradients, which DistributedDataParallel must be told
    (`find_unused_parameters=True`).
    """

    def __init__(self, router: nn.Module, branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.router = router
        self.branches = nn.ModuleList(branches)

    def forward(self, stream: Any, *references: Any) -> Any:
        """Return what the chosen branch gives."""
        chosen = int(self.router(stream, *references))
        if not 0 <= chosen < len(self.branches):
            raise UsageError(
                f"The router of a switch chose branch {chosen}; there are branches 0 to "
                f"{len(self.branches) - 1}."
            )
        return self.branches[chosen](stream)

    def extra_repr(self) -> str:
        """How many branches there are."""
        return f"1 of {len(self.branches)}"


class Gate(nn.Module):
    """Mixes what all experts give, weighted by the router: one weight each in its last dimension.

    The weights are used as they come; a softmax belongs to the router.
    """

    def __init__(self, router: nn.Module, experts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.router = router
        self.experts = nn.ModuleList(experts)

    def forward(self, stream: Any, *references: Any) -> Any:
        """Return the weighted sum."""
        weights: Tensor = self.router(stream, *references)
        if weights.shape[-1] != len(self.experts):
            raise UsageError(
                f"The router of a gate gave {weights.shape[-1]} weights in its last dimension; "
                f"there are {len(self.experts)} experts."
            )
        mixed: Any = 0
        for number, expert in enumerate(self.experts):
            given = expert(stream)
            weight = weights[..., number]
            missing = given.dim() - weight.dim()
            mixed = mixed + given * weight.reshape(weight.shape + (1,) * missing)
        return mixed

    def extra_repr(self) -> str:
        """How many experts there are."""
        return f"{len(self.experts)} experts"
