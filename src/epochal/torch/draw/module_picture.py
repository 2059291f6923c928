"""A picture of any module, from whichever of torch's ways to follow it works."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from epochal.errors import UsageError
from epochal.torch.draw.picture import Picture
from epochal.torch.draw.trail import Trail
from epochal.torch.graph.clocks import tensors_in
from epochal.torch.graph.graph import Graph
from epochal.torch.graph.leaves import is_leaf, leaf_of, leaves_of
from epochal.torch.structure import unwrapped

_MOST_NODES = 240
# What torch raises for a module it cannot trace; everything of its own derives from these.
_UNTRACEABLE = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)

Way = Callable[..., Picture]


def picture_of(
    module: nn.Module, example_inputs: Any = None, *, depth: int | None = None
) -> Picture:
    """Draw a module; `example_inputs` are its arguments: a tensor, a tuple, or a dict of names.

    A Graph is drawn as it was built. Any other module is read by torch.export (which needs inputs),
    by torch.fx, or by watching one forward (which needs inputs too), whichever works first. The
    picture's `note` says which. When nothing works, the parts are drawn without their order.
    `depth` draws modules that deep in the tree as one; without it that happens only when there
    would be more than 240 nodes.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    plain = unwrapped(module)
    if isinstance(plain, Graph):
        return plain.picture()
    args, named = _arguments(example_inputs)
    ways: list[Way] = [] if example_inputs is None else [_exported(plain, args, named)]
    ways.append(lambda depth: from_fx(plain, depth=depth))
    if example_inputs is not None:
        ways.append(lambda depth: from_forward(plain, args, named, depth=depth))
    reasons = []
    for way in ways:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _small_enough(plain, way, depth)
        except _UNTRACEABLE as error:
            lines = str(error).strip().splitlines() or [""]
            reasons.append(f"{type(error).__name__}: {lines[0]}"[:120])
    return replace(_parts(plain, depth), note=f"parts only; {reasons[-1]}")


def _exported(module: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> Way:
    return lambda depth: from_export(module, args, named, depth=depth)


def _small_enough(module: nn.Module, way: Way, depth: int | None) -> Picture:
    picture = way(depth)
    if depth is not None:
        return picture
    deepest = max((path.count(".") + 1 for path in leaves_of(module)), default=1)
    for level in range(deepest - 1, 0, -1):
        if len(picture.nodes) <= _MOST_NODES:
            break
        picture = way(level)
    return picture


def _parts(module: nn.Module, depth: int | None) -> Picture:
    trail = Trail(module)
    for path in leaves_of(module, depth=depth):
        trail.module(path, [])
    return trail.picture(note="parts only")


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if example_inputs is None:
        return (), {}
    if isinstance(example_inputs, Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    return tuple(example_inputs), {}


# Of a tensor in a symbolic trace, where nothing says what a call gives.
_FACTS = frozenset({"getattr", "size", "dim", "numel", "is_floating_point", "data_ptr"})


def from_export(
    root: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any], *, depth: int | None
) -> Picture:
    """Follow an exported program; which part a call belongs to is in its nodes."""
    # What it cannot export torch also prints, before it says so by raising.
    with contextlib.redirect_stderr(io.StringIO()):
        program = torch.export.export(root, args, dict(named), strict=False)
    inputs = set(program.graph_signature.user_inputs)
    return _followed(root, program.graph, inputs, depth=depth, note="from torch.export")


def from_fx(root: nn.Module, *, depth: int | None) -> Picture:
    """Follow a symbolic trace, which needs no inputs."""

    class Tracer(fx.Tracer):
        """Stops at the parts that are drawn as one."""

        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return is_leaf(module, path, depth=depth)

    graph = Tracer().trace(root)
    return _followed(root, graph, None, depth=depth, note="from torch.fx")


def _followed(
    root: nn.Module, graph: fx.Graph, inputs: set[Any] | None, *, depth: int | None, note: str
) -> Picture:
    trail = Trail(root)
    makers: dict[fx.Node, str] = {}
    running: tuple[str, str] | None = None  # the part whose calls come just now, and its key
    for node in graph.nodes:
        reads = [makers[source] for source in node.all_input_nodes if source in makers]
        if node.op == "placeholder":
            if inputs is None or node.name in inputs:
                makers[node] = trail.input(str(node.target))
        elif node.op == "output":
            trail.output(reads)
        elif node.op != "get_attr":
            path = _path(root, node, depth)
            if path is None:
                running = None
                maker = trail.function(_name(node), reads) if _is_drawn(node) else None
                if maker is not None:
                    makers[node] = maker
            elif running is not None and running[0] == path and node.op != "call_module":
                trail.read(running[1], reads)
                makers[node] = running[1]
            else:
                makers[node] = trail.module(path, reads)
                running = (path, makers[node])
    return trail.picture(note=note)


def _path(root: nn.Module, node: fx.Node, depth: int | None) -> str | None:
    """The part in which a call happens; None for one outside of all parts."""
    if node.op == "call_module":
        return str(node.target)
    stack = node.meta.get("nn_module_stack") or {}
    for path, _ in reversed(list(stack.values())):
        clean = str(path).split("@")[0]
        return leaf_of(root, clean, depth=depth) if clean else None
    return None


def _is_drawn(node: fx.Node) -> bool:
    """Whether a call gives tensors: sizes and assertions are not part of a picture."""
    if "val" in node.meta:
        return isinstance(node.meta["val"], (Tensor, list, tuple))
    return _name(node) not in _FACTS


def _name(node: fx.Node) -> str:
    if isinstance(node.target, str):
        return node.target
    return str(getattr(node.target, "__name__", node.target)).split(".")[0]


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
