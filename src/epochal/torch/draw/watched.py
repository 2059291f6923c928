"""A picture from a forward that is watched while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from epochal.torch.draw.leaves import leaves_of
from epochal.torch.draw.picture import Picture
from epochal.torch.draw.trail import Trail
from epochal.torch.graph.clocks import tensors_in


def from_forward(
    root: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any], *, depth: int | None
) -> Picture:
    """Run the module once and note which part made what others read.

    It runs in evaluation mode and without gradients; the modes, the statistics of normalisation
    and the random generators are afterwards as they were.
    """
    watcher = _Watcher(Trail(root))
    names = [f"input_{number}" for number in range(len(args))]
    for name, value in [*zip(names, args, strict=True), *named.items()]:
        watcher.give(value, watcher.trail.input(name if len(args) + len(named) > 1 else "input"))
    handles = []
    for path, module in leaves_of(root, depth=depth).items():
        handles.append(module.register_forward_pre_hook(watcher.enter))
        handles.append(module.register_forward_hook(partial(watcher.leave, path), with_kwargs=True))
    devices = {tensor.device for tensor in root.parameters() if tensor.is_cuda}
    try:
        with _evaluating(root), torch.no_grad(), torch.random.fork_rng(list(devices)), watcher:
            output = root(*args, **named)
    finally:
        for handle in handles:
            handle.remove()
    watcher.trail.output(watcher.makers(output))
    return watcher.trail.picture(note="from a recorded forward")


class _Watcher(TorchFunctionMode):
    """Knows who made each tensor; inside a part nothing is noted."""

    def __init__(self, trail: Trail) -> None:
        super().__init__()
        self.trail = trail
        self._makers: Any = WeakTensorKeyDictionary()
        self._inside = 0

    def give(self, value: Any, maker: str) -> None:
        """Note who made a value."""
        for tensor in tensors_in(value):
            self._makers[tensor] = maker

    def makers(self, *values: Any) -> list[str]:
        """Who made the tensors in these values."""
        found = [self._makers.get(tensor) for value in values for tensor in tensors_in(value)]
        return [maker for maker in found if maker is not None]

    def enter(self, module: nn.Module, inputs: Any) -> None:
        """A part begins."""
        self._inside += 1

    def leave(self, path: str, module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
        """A part is done."""
        self._inside -= 1
        if not self._inside:
            self.give(output, self.trail.module(path, self.makers(list(inputs), dict(named))))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if not self._inside and tensors_in(value):
            reads = self.makers(list(args), dict(kwargs or {}))
            maker = self.trail.function(getattr(func, "__name__", str(func)).strip("_"), reads)
            if maker is not None:
                self.give(value, maker)
        return value


@contextmanager
def _evaluating(root: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in root.modules()]
    root.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
