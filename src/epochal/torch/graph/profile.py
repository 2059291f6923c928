"""Times the parts of a module in its forward passes, through hooks.

On a GPU the marks are events in its stream, so a step never waits for them. A compiled module is a
single part: profile before `torch.compile`.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from epochal.errors import UsageError
from epochal.torch.guarded import guarded_hook
from epochal.torch.structure import tensors_in

_MOST_PASSES = 32
# Of torch's own modules these are made of parts worth seeing; the others are parts themselves.
_CONTAINERS = (
    nn.Sequential,
    nn.ModuleList,
    nn.ModuleDict,
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


@dataclass(frozen=True, slots=True)
class Profile:
    """Median milliseconds of each part and of the whole forward pass.

    Of several passes the first is left out: in it libraries set themselves up.
    """

    nodes: Mapping[str, float]
    forward_ms: float
    passes: int
    device: str

    def text(self) -> str:
        """Return a table, the slowest part first."""
        width = max([4, *(len(name) for name in self.nodes)])
        whole = sum(self.nodes.values()) or math.nan
        lines = [f"{'node':<{width}}  {'forward':>10}  {'share':>6}"]
        lines += [
            f"{name:<{width}}  {format_time(ms):>10}  {100 * ms / whole:5.1f}%"
            for name, ms in sorted(self.nodes.items(), key=lambda item: -item[1])
        ]
        forward = format_time(self.forward_ms)
        return "\n".join([*lines, f"forward {forward}, median of {self.passes} on {self.device}"])


@dataclass(slots=True, eq=False)
class _Pass:
    """The marks of one forward pass; `device` is None where the host's clock is used."""

    device: torch.device | None
    begun: Any = None
    ended: Any = None
    starts: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, Any, Any]] = field(default_factory=list)

    def mark(self) -> Any:
        """Mark this moment, without waiting."""
        if self.device is None:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def milliseconds(self, start: Any, end: Any) -> float:
        """Return the time between two marks; waits for them."""
        if self.device is None:
            return float(end - start) / 1e6
        end.synchronize()
        return float(start.elapsed_time(end))

    def times(self) -> dict[str, float]:
        """Return the milliseconds of each part, over all its calls."""
        times: dict[str, float] = {}
        for name, start, end in self.calls:
            times[name] = times.get(name, 0.0) + self.milliseconds(start, end)
        return times


class Profiler:
    """Hooks on a module and on its parts, by name, while it is installed."""

    def __init__(self, root: nn.Module, parts: Mapping[str, nn.Module]) -> None:
        self._root = root
        first = {id(module): name for name, module in reversed(list(parts.items()))}
        # A shared module is timed under its first name: its hooks cannot tell who calls.
        self._parts = {name: one for name, one in parts.items() if first[id(one)] == name}
        self._handles: list[RemovableHandle] = []
        self._current: _Pass | None = None
        self._passes: deque[_Pass] = deque(maxlen=_MOST_PASSES)

    @property
    def has_passes(self) -> bool:
        """Whether a pass was timed."""
        return bool(self._passes)

    def install(self) -> None:
        """Add the hooks, unless they are there."""
        if self._handles:
            return
        self._handles = [self._root.register_forward_pre_hook(self._begin, with_kwargs=True)]
        for name, module in self._parts.items():
            self._handles += [
                module.register_forward_pre_hook(partial(self._before, name)),
                module.register_forward_hook(partial(self._after, name)),
            ]
        # Last, because the whole may be its own only part.
        self._handles.append(self._root.register_forward_hook(self._end, always_call=True))

    def remove(self) -> None:
        """Remove every hook; what was measured stays."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._current = [], None

    def profile(self) -> Profile:
        """Return the median times; raises UsageError without a finished pass."""
        passes = list(self._passes)
        if not passes:
            raise UsageError("No pass was timed: enable profiling, and run the module uncompiled.")
        counted = passes[1:] or passes
        times = [one.times() for one in counted]
        measured = {name: [one[name] for one in times if name in one] for name in self._parts}
        return Profile(
            {name: statistics.median(found) for name, found in measured.items() if found},
            statistics.median(one.milliseconds(one.begun, one.ended) for one in counted),
            len(counted),
            "cpu" if counted[-1].device is None else "cuda",
        )

    def __getstate__(self) -> dict[str, Any]:
        # Events belong to their process; a copy starts without measurements.
        return {**self.__dict__, "_passes": deque(maxlen=_MOST_PASSES), "_current": None}

    @guarded_hook("profile")
    def _begin(self, module: nn.Module, inputs: Any, named: Any) -> None:
        if self._current is None:
            tensors = [*tensors_in(inputs), *tensors_in(named), *self._root.parameters()]
            current = _Pass(next((one.device for one in tensors if one.is_cuda), None))
            current.begun = current.mark()
            self._current = current

    @guarded_hook("profile")
    def _end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        current, self._current = self._current, None
        if current is not None and output is not None:  # None: the forward raised
            current.ended = current.mark()
            self._passes.append(current)

    @guarded_hook("profile")
    def _before(self, name: str, module: nn.Module, inputs: Any) -> None:
        if self._current is not None:
            self._current.starts[name] = self._current.mark()

    @guarded_hook("profile")
    def _after(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        current = self._current
        if current is not None and name in current.starts:
            current.calls.append((name, current.starts.pop(name), current.mark()))


def is_part(module: nn.Module, path: str, *, depth: int | None) -> bool:
    """Return whether a module is drawn and timed as one; at `depth` names every module is."""
    if depth is not None and path and path.count(".") + 1 >= depth:
        return True
    own = type(module).__module__.startswith("torch.nn") and not isinstance(module, _CONTAINERS)
    return own or next(module.children(), None) is None


def parts_of(root: nn.Module, *, depth: int | None = None) -> dict[str, nn.Module]:
    """Return the parts of a module by path, in the order of its children, a shared one once."""
    seen: set[int] = set()
    found: dict[str, nn.Module] = {}
    for path, module in _walk(root, "", depth):
        if id(module) not in seen:
            seen.add(id(module))
            found[path] = module
    return found


def format_time(milliseconds: float) -> str:
    """Write a short time as ``312 µs`` or ``1.24 ms``."""
    if round(milliseconds * 1000) < 1000:
        return f"{milliseconds * 1000:.0f} µs"
    return f"{milliseconds:.2f} ms"


def _walk(module: nn.Module, path: str, depth: int | None) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        inner = f"{path}.{name}" if path else name
        if is_part(child, inner, depth=depth):
            yield inner, child
        else:
            yield from _walk(child, inner, depth)
