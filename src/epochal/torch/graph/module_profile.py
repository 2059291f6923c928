"""Timing a plain module, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from epochal.errors import UsageError
from epochal.torch.graph.drawing import drawing
from epochal.torch.graph.leaves import leaves_of
from epochal.torch.graph.profile_report import Profile, profile_of
from epochal.torch.graph.profiler import Profiler

if TYPE_CHECKING:
    from epochal.torch.draw.picture import Picture


class ModuleProfile:
    """The hooks on a module and what they measured; made by `profile_module`.

    As a context manager it takes the hooks off at the end. Afterwards the module has none.
    """

    def __init__(self, module: nn.Module, *, depth: int | None) -> None:
        self._module = module
        self._depth = depth
        self._parts = leaves_of(module, depth=depth) or {type(module).__name__.lower(): module}
        self._profiler = Profiler(module, self._parts)
        self._profiler.install()

    @property
    def module(self) -> nn.Module:
        """The module that is timed."""
        return self._module

    @property
    def has_profile(self) -> bool:
        """Whether a pass was timed, so that there is a profile."""
        return any(one.ended is not None for one in self._profiler.passes)

    def profile(self) -> Profile:
        """The times of the median pass so far; waits for a GPU that is still at one."""
        return profile_of(list(self._profiler.passes), levels={}, names=list(self._parts))

    def picture(self, example_inputs: Any = None) -> Picture:
        """The module's picture, coloured by time."""
        picture = drawing().picture_of(self._module, example_inputs, depth=self._depth)
        return picture.timed(self.profile())

    def remove(self) -> None:
        """Take the hooks off; what was measured can still be asked for."""
        self._profiler.remove()

    def __enter__(self) -> ModuleProfile:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def profile_module(module: nn.Module, *, depth: int | None = None) -> ModuleProfile:
    """Time every part of a module, forward and backward, until `remove()`.

    Parts are the modules without children and torch's own ones, or those `depth` names deep. On a
    GPU the time is the GPU's, and a step waits for nothing.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    if depth is not None and depth < 1:
        raise UsageError(f"depth must be at least 1, got {depth}.")
    return ModuleProfile(module, depth=depth)
