"""What a training's memory is used for: weights, gradients, optimizer, activations and the rest.

On a GPU the segments add up to the memory of the device. Besides the tensors of the model and its
optimizer there are ``activations`` (what the peak had beyond them), ``reserved`` (cached by torch
beyond the peak), ``other`` (the CUDA context, libraries, other processes) and ``free``. On a CPU
they add up to the memory of the machine. There ``activations`` are the other tensors that Python
can reach at the moment, and ``other`` is the rest of the process. ``system`` is what other
processes and the system use.

Weights of adapters are ``lora``, quantised base weights ``qlora``. Each piece of memory counts
once. What the model has in main memory beside a GPU stands in the columns ``pinned`` and
``pageable``. Nothing is allocated on the device, and nothing waits for it.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from epochal.console.blocks import Segment
from epochal.errors import ValueTypeError
from epochal.records import ALLOCATOR_PLACES
from epochal.torch.memory.storages import storages_of
from epochal.torch.names import named_parameters, plain_name
from epochal.torch.structure import unwrapped

Device = torch.device | str | int | None

_CPU = torch.device("cpu")
OF_TENSORS = ("weights", "gradients", "optimizer", "lora", "qlora")
_LORA = re.compile(r"(^|\.|_)lora(_|\.)", re.IGNORECASE)
_QUANTISED_TYPES = frozenset({"Params4bit", "Int8Params"})
_QUANTISED_DTYPES = frozenset({torch.uint8, torch.int8})


@dataclass(frozen=True, slots=True)
class TensorUse:
    """One tensor and the memory that is counted for it (0 when another name has it already)."""

    name: str
    segment: str
    shape: tuple[int, ...]
    dtype: str
    place: str
    bytes: int


@dataclass(frozen=True, slots=True)
class MemorySegments:
    """Memory by segment; iterating gives the segments, as ``run.log_allocator`` takes them.

    ``capacity`` is what the device has, or the machine for a CPU; ``gpu`` is None for a CPU;
    ``tensors`` are the model's and the optimizer's, largest first.
    """

    device: str
    gpu: int | None
    capacity: int
    segments: tuple[Segment, ...]
    tensors: tuple[TensorUse, ...]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def bytes_of(self, name: str) -> int:
        """What a segment takes on the device itself; on a CPU in main memory."""
        found = [segment for segment in self.segments if segment.name == name]
        if self.gpu is None:
            return sum(one.pageable + one.pinned + one.managed for one in found)
        return sum(one.device for one in found)


def memory_segments(
    model: nn.Module, optimizer: Any = None, *, device: Device = None
) -> MemorySegments:
    """What the memory of a device is used for, by default of that with most of the model.

    Ask after a backward pass and before the gradients are cleared: gradients that are gone count as
    activations. ``optimizer`` may be several.
    """
    if not isinstance(model, nn.Module):
        raise ValueTypeError(f"model must be a torch module, got {type(model).__name__}.")
    for one in _several(optimizer):
        # One that is wrapped may keep its state where nobody can see it, but it steps.
        if one is not None and not callable(getattr(one, "step", None)):
            raise ValueTypeError(
                f"optimizer must be a torch optimizer, or several, got {type(one).__name__}."
            )
    main = _main_device(model)
    chosen = main if device is None else _as_device(device)
    named = named_tensors(model, optimizer)
    # Of several GPUs one stands for what the model has in main memory.
    tensors, bytes_by_place = _count(named, chosen, with_host=chosen in (main, _CPU))
    if chosen.type == "cuda":
        rest, capacity = _rest_of_gpu(chosen, bytes_by_place)
    else:
        rest, capacity = _rest_of_host(bytes_by_place, named)
    known = [Segment(name, **bytes_by_place[name]) for name in OF_TENSORS]
    return MemorySegments(
        device=str(chosen),
        gpu=chosen.index if chosen.type == "cuda" else None,
        capacity=capacity,
        segments=tuple([segment for segment in known if _size(segment)] + rest),
        tensors=tensors,
    )


def devices_of(model: nn.Module) -> list[torch.device]:
    """The GPUs that hold parameters of a model, or else the CPU."""
    found = {parameter.device for _, parameter in named_parameters(model)}
    gpus = sorted((one for one in found if one.type == "cuda"), key=lambda one: one.index)
    return gpus or [_CPU]


def named_tensors(model: nn.Module, optimizer: Any = None) -> list[tuple[str, str, Tensor]]:
    """Name, segment and tensor of all that a model and its optimizers keep, weights first."""
    weights, gradients = [], []
    for name, parameter in named_parameters(model):
        weights += [(f"{name}{suffix}", kind, t) for suffix, kind, t in _parts(name, parameter)]
        if parameter.grad is not None:
            gradients.append((f"{name}.grad", "gradients", parameter.grad))
    for name, buffer in unwrapped(model).named_buffers():
        weights.append((plain_name(name), "weights", buffer))
    return weights + gradients + _optimizer_tensors(model, optimizer)


def _parts(name: str, parameter: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    if _LORA.search(name):
        yield "", "lora", parameter
        return
    is_quantised = type(parameter).__name__ in _QUANTISED_TYPES or (
        parameter.dtype in _QUANTISED_DTYPES
    )
    yield "", "qlora" if is_quantised else "weights", parameter
    state = getattr(parameter, "quant_state", None)
    if is_quantised and state is not None:
        for part, value in _inner_tensors(getattr(state, "__dict__", {})):
            yield f".quant_state.{part}", "qlora", value


def _optimizer_tensors(model: nn.Module, optimizer: Any) -> list[tuple[str, str, Tensor]]:
    names = {id(parameter): name for name, parameter in named_parameters(model)}
    found = []
    for one in _several(optimizer):
        states = getattr(one, "state", None)
        for parameter, state in states.items() if isinstance(states, Mapping) else ():
            owner = names.get(id(parameter), "optimizer")
            parts = _inner_tensors(state) if isinstance(state, Mapping) else ()
            found += [(f"{owner}.{part}", "optimizer", value) for part, value in parts]
    return found


def _several(optimizer: Any) -> Iterable[Any]:
    return optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]


def _inner_tensors(values: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    for name, value in pairs:
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, (Mapping, list, tuple)):
            yield from _inner_tensors(value, f"{prefix}{name}.")


def _count(
    named: list[tuple[str, str, Tensor]], device: torch.device, *, with_host: bool
) -> tuple[tuple[TensorUse, ...], dict[str, dict[str, int]]]:
    """Each tensor with what counts for it, and the bytes of each segment by place."""
    totals = {name: dict.fromkeys(ALLOCATOR_PLACES, 0) for name in OF_TENSORS}
    devices = {device, _CPU} if with_host else {device}
    counted: set[tuple[str, int]] = set()
    uses = []
    for name, segment, tensor in named:
        own = [storage for storage in storages_of(tensor) if storage.device in devices]
        fresh = [storage for storage in own if storage.key not in counted]
        counted.update(storage.key for storage in fresh)
        for storage in fresh:
            totals[segment][storage.place] += storage.bytes
        if own:
            size = sum(storage.bytes for storage in fresh)
            dtype = str(tensor.dtype).removeprefix("torch.")
            shape = tuple(tensor.shape)
            uses.append(TensorUse(name, segment, shape, dtype, own[0].place, size))
    return tuple(sorted(uses, key=lambda use: -use.bytes)), totals


def _rest_of_gpu(
    device: torch.device, known: Mapping[str, Mapping[str, int]]
) -> tuple[list[Segment], int]:
    free_now, capacity = torch.cuda.mem_get_info(device)
    tensors = sum(places["device"] for places in known.values())
    peak = int(torch.cuda.max_memory_allocated(device))
    held = int(torch.cuda.memory_reserved(device))
    activations = max(0, peak - tensors)
    reserved = max(0, held - peak)
    other = max(0, capacity - free_now - held)
    free = max(0, capacity - tensors - activations - reserved - other)
    rest = {"activations": activations, "other": other, "reserved": reserved, "free": free}
    return [Segment(name, device=size) for name, size in rest.items()], int(capacity)


def _rest_of_host(
    known: Mapping[str, Mapping[str, int]], named: list[tuple[str, str, Tensor]]
) -> tuple[list[Segment], int]:
    import psutil

    tensors = sum(sum(places.values()) for places in known.values())
    activations = _other_live_bytes({s.key for _, _, t in named for s in storages_of(t)})
    resident = int(psutil.Process().memory_info().rss)
    machine = psutil.virtual_memory()
    own = max(resident, tensors + activations)
    free = min(int(machine.available), max(0, int(machine.total) - own))
    rest = {
        "activations": activations,
        "other": own - tensors - activations,
        "system": max(0, int(machine.total) - own - free),
        "free": free,
    }
    return [Segment(name, pageable=size) for name, size in rest.items()], int(machine.total)


def _other_live_bytes(counted: set[tuple[str, int]]) -> int:
    total = 0
    # By type, not isinstance: asking a lazy proxy for its class may run code of its own.
    for item in gc.get_objects():
        if issubclass(type(item), Tensor) and item.device.type == "cpu":
            for storage in storages_of(item):
                if storage.key not in counted:
                    counted.add(storage.key)
                    total += storage.bytes
    return total


def _main_device(model: nn.Module) -> torch.device:
    sizes: dict[torch.device, int] = {}
    for _, parameter in named_parameters(model):
        sizes[parameter.device] = sizes.get(parameter.device, 0) + parameter.numel()
    gpus = {device: size for device, size in sizes.items() if device.type == "cuda"}
    return max(gpus, key=lambda device: gpus[device]) if gpus else _CPU


def _as_device(device: torch.device | str | int) -> torch.device:
    given = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    index: int | None = given.index
    if given.type == "cuda" and index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return given


def _size(segment: Segment) -> int:
    return segment.device + segment.managed + segment.pinned + segment.pageable
