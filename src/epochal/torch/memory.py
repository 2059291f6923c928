"""Memory: what the allocator holds, what it is used for, and out-of-memory errors.

`memory_segments` splits the memory of a device into weights, gradients, optimizer, activations and
the rest. On a GPU the segments add up to the memory of the device: ``activations`` is what the peak
had beyond the tensors of model and optimizer, ``reserved`` is cached by torch beyond the peak, and
``other`` is the CUDA context, libraries and other processes. On a CPU they add up to the memory of
the machine. There ``other`` is the rest of the process, activations included, and ``system``
belongs to other processes. Nothing is allocated on the device or waits for it.
"""

from __future__ import annotations

import gc
import re
import sys
import traceback
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from epochal.errors import EpochalError
from epochal.records import ALLOCATOR_PLACES
from epochal.records.format import format_bytes
from epochal.run.console.blocks import Segment, allocator_block
from epochal.run.current import given_or_current
from epochal.run.run import Run, recorder_of
from epochal.torch.checks import check_module, check_whole
from epochal.torch.guarded import guarded_hook
from epochal.torch.step_count import StepCount, owns
from epochal.torch.structure import named_parameters, tensors_in, unwrapped

Device = torch.device | str | int | None

_CPU = torch.device("cpu")
OF_TENSORS = ("weights", "gradients", "optimizer", "lora", "qlora")
_LORA = re.compile(r"(^|\.|_)lora(_|\.)", re.IGNORECASE)
_QUANTISED_TYPES = frozenset({"Params4bit", "Int8Params"})
_QUANTISED_DTYPES = frozenset({torch.uint8, torch.int8})


# -- what torch's caching allocator holds ---------------------------------------------------------
# Where torch has not started CUDA every answer is 0, and nothing starts it.


def cuda_active_bytes(device: Device = None) -> int:
    """Return the bytes that back live tensors (`torch.cuda.memory_allocated`).

    Args:
        device: The GPU; the current one if you give none.
    """
    return int(torch.cuda.memory_allocated(device)) if _started() else 0


def cuda_allocated_bytes(device: Device = None) -> int:
    """Return the bytes that the allocator has reserved (`torch.cuda.memory_reserved`).

    Args:
        device: The GPU; the current one if you give none.
    """
    return int(torch.cuda.memory_reserved(device)) if _started() else 0


def cuda_peak_active_bytes(device: Device = None) -> int:
    """Return the most bytes that backed live tensors since the last reset.

    Args:
        device: The GPU; the current one if you give none.
    """
    return int(torch.cuda.max_memory_allocated(device)) if _started() else 0


def cuda_peak_reserved_bytes(device: Device = None) -> int:
    """Return the most bytes that the allocator had reserved since the last reset.

    Args:
        device: The GPU; the current one if you give none.
    """
    return int(torch.cuda.max_memory_reserved(device)) if _started() else 0


def cuda_reset_peak_stats(device: Device = None) -> None:
    """Reset the peaks.

    Args:
        device: The GPU; the current one if you give none.
    """
    if _started():
        torch.cuda.reset_peak_memory_stats(device)


def cuda_empty_cache() -> None:
    """Give the cached free blocks of every device back to the driver; waits for the GPU."""
    if _started():
        torch.cuda.empty_cache()


def _started() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


# -- the memory behind tensors --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Storage:
    """One piece of memory, identified by ``key``; views and tied weights share one."""

    key: tuple[str, int]
    device: torch.device
    place: str
    bytes: int


def storages_of(tensor: Tensor) -> Iterator[Storage]:
    """Yield the pieces of memory behind a tensor; none where it has no values.

    Of a tensor that is sharded over processes this process has a part.
    """
    for part in _plain_parts(tensor):
        storage = part.untyped_storage()
        size, pointer = storage.nbytes(), storage.data_ptr()
        if size and pointer:
            yield Storage((str(part.device), pointer), part.device, _place(part), size)


def _plain_parts(tensor: Tensor) -> Iterator[Tensor]:
    tracing: Any = sys.modules.get("torch._subclasses.fake_tensor")
    if tensor.is_meta or (tracing is not None and isinstance(tensor, tracing.FakeTensor)):
        return  # a shape without memory
    if hasattr(tensor, "to_local"):
        # Not to_local() itself, which autograd would follow.
        part: Any = tensor
        yield from _plain_parts(part._local_tensor)
    elif hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            yield from _plain_parts(getattr(tensor, name))
    elif tensor.layout is torch.sparse_coo:
        yield tensor._indices()
        yield tensor._values()
    elif tensor.layout is torch.strided:
        yield tensor


def _place(tensor: Tensor) -> str:
    if getattr(tensor, "is_paged", False) is True:
        return "managed"  # bitsandbytes marks what the driver may move between host and device
    if tensor.device.type != "cpu":
        return "device"
    # Asking a tensor whether it is pinned would start CUDA.
    return "pinned" if _started() and tensor.is_pinned() else "pageable"


# -- segments -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemorySegments:
    """Memory by segment; iterating gives the segments, as ``run.log_allocator`` takes them.

    ``capacity`` is what the device has, or the machine for a CPU; ``gpu`` is None for a CPU.
    """

    device: str
    gpu: int | None
    capacity: int
    segments: tuple[Segment, ...]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)


def memory_segments(
    model: nn.Module, optimizer: Any = None, *, device: Device = None
) -> MemorySegments:
    """Return what the memory of a device is used for; by default that with most of the model.

    Call it after a backward pass, while the gradients exist. ``optimizer`` may be several.

    Args:
        model: The model.
        optimizer: The optimizer, or several.
        device: The device.
    """
    check_module(model)
    optimizers = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
    main = _main_device(model)
    chosen = main if device is None else _as_device(device)
    # Of several GPUs one stands for what the model has in main memory.
    with_host = chosen in (main, _CPU)
    by_place = _count(_tensors_of(model, optimizers), {chosen, _CPU} if with_host else {chosen})
    known = [Segment(name, **by_place[name]) for name in OF_TENSORS]
    sizes = {name: sum(places.values()) for name, places in by_place.items()}
    if chosen.type == "cuda":
        on_device = sum(places["device"] for places in by_place.values())
        rest, capacity = _rest_of_gpu(chosen, on_device)
    else:
        rest, capacity = _rest_of_host(sum(sizes.values()))
    return MemorySegments(
        device=str(chosen),
        gpu=chosen.index if chosen.type == "cuda" else None,
        capacity=capacity,
        segments=tuple([segment for segment in known if sizes[segment.name]] + rest),
    )


def _tensors_of(model: nn.Module, optimizers: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield segment and tensor of all that a model and its optimizers keep, the weights first."""
    parameters = list(named_parameters(model))
    for name, parameter in parameters:
        yield _segment_of(name, parameter), parameter
    yield from (("weights", buffer) for buffer in unwrapped(model).buffers())
    yield from (("gradients", one.grad) for _, one in parameters if one.grad is not None)
    for optimizer in optimizers:
        state = getattr(optimizer, "state", None)
        for values in state.values() if isinstance(state, Mapping) else ():
            yield from (("optimizer", tensor) for tensor in tensors_in(values))


def _segment_of(name: str, parameter: Tensor) -> str:
    if _LORA.search(name):
        return "lora"
    is_quantised = type(parameter).__name__ in _QUANTISED_TYPES
    return "qlora" if is_quantised or parameter.dtype in _QUANTISED_DTYPES else "weights"


def _count(
    tensors: Iterable[tuple[str, Tensor]], devices: set[torch.device]
) -> dict[str, dict[str, int]]:
    """Return the bytes of each segment by place; what two tensors share counts once."""
    totals = {name: dict.fromkeys(ALLOCATOR_PLACES, 0) for name in OF_TENSORS}
    counted: set[tuple[str, int]] = set()
    for segment, tensor in tensors:
        for storage in storages_of(tensor):
            if storage.device in devices and storage.key not in counted:
                counted.add(storage.key)
                totals[segment][storage.place] += storage.bytes
    return totals


def _rest_of_gpu(device: torch.device, tensors: int) -> tuple[list[Segment], int]:
    free_now, capacity = torch.cuda.mem_get_info(device)
    peak = int(torch.cuda.max_memory_allocated(device))
    held = int(torch.cuda.memory_reserved(device))
    activations = max(0, peak - tensors)
    reserved = max(0, held - peak)
    other = max(0, capacity - free_now - held)
    free = max(0, capacity - tensors - activations - reserved - other)
    rest = {"activations": activations, "other": other, "reserved": reserved, "free": free}
    return [Segment(name, device=size) for name, size in rest.items()], int(capacity)


def _rest_of_host(tensors: int) -> tuple[list[Segment], int]:
    import psutil

    machine = psutil.virtual_memory()
    own = max(int(psutil.Process().memory_info().rss), tensors)
    free = min(int(machine.available), max(0, int(machine.total) - own))
    system = max(0, int(machine.total) - own - free)
    rest = {"other": own - tensors, "system": system, "free": free}
    return [Segment(name, pageable=size) for name, size in rest.items()], int(machine.total)


def _main_device(model: nn.Module) -> torch.device:
    sizes: dict[torch.device, int] = {}
    for _, parameter in named_parameters(model):
        if parameter.is_cuda:
            sizes[parameter.device] = sizes.get(parameter.device, 0) + parameter.numel()
    return max(sizes, key=lambda device: sizes[device]) if sizes else _CPU


def _as_device(device: torch.device | str | int) -> torch.device:
    given = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    index: int | None = given.index
    if given.type == "cuda" and index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return given


# -- recording while a model trains ---------------------------------------------------------------


class MemoryWatch:
    """What :func:`watch_memory` returns; ``remove`` removes its hook."""

    def __init__(self, model: nn.Module, run: Run, *, every: int) -> None:
        self._model = model
        self._run = run
        self._every = every
        self._count = StepCount(run)
        self._held: list[tuple[int, MemorySegments]] = []
        self._ids = {id(parameter) for _, parameter in named_parameters(model)}
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._handle: Any = register_optimizer_step_post_hook(self._after_step)
        run.on_finish(self.remove)

    def remove(self) -> None:
        """Remove the hook."""
        self._handle.remove()
        self._count.end()
        self._settle()

    @guarded_hook("watch_memory")
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not owns(optimizer, self._ids):
            return
        self._optimizers.add(optimizer)
        if not self._count.begins_with(optimizer):
            return
        self._settle()
        if self._count.step % self._every == 0 or (self._count.is_guess and not self._held):
            devices = {one.device for _, one in named_parameters(self._model) if one.is_cuda}
            for device in sorted(devices, key=str) or [_CPU]:
                memory = memory_segments(self._model, list(self._optimizers), device=device)
                self._held.append((self._count.step, memory))

    @guarded_hook("watch_memory")
    def _settle(self) -> None:
        """Record what was measured, now that the number of its step is known, if it is due."""
        if self._count.is_guess:
            return
        held, self._held = self._held, []
        for step, memory in held:
            if (step + self._count.shift) % self._every == 0:
                self._run.log_allocator(memory, step=step + self._count.shift)


def watch_memory(model: nn.Module, run: Run | None = None, *, every: int = 1000) -> MemoryWatch:
    """Record memory by segment every ``every`` optimizer steps, from the first on.

    It is measured right after the optimizer's step. The watch ends with the run, or with
    ``remove()``.

    Args:
        model: The model that is trained.
        run: The run that records it, by default the current one.
        every: The interval, in optimizer steps.

    Returns:
        The watch, whose ``remove()`` ends it.
    """
    check_module(model)
    check_whole(every, name="every", least=1)
    return MemoryWatch(model, given_or_current(run, "watch_memory()"), every=every)


# -- out of memory --------------------------------------------------------------------------------

_EVENT = "out-of-memory"
_LONGEST_CHAIN = 10
_ASKED = re.compile(r"tried to allocate ([\d.]+) (bytes|B|KiB|MiB|GiB|TiB)\b", re.IGNORECASE)
_GPU = re.compile(r"\bGPU (\d+)\b")
_UNITS = {"bytes": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
# What libraries say where torch did not allocate itself.
_SAID = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
)
_MARK = "_epochal_has_explained"
_TORCH_CODE = str(Path(torch.__file__).parent)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed allocation: bytes asked for (None when not said), and on which device."""

    error: BaseException
    asked: int | None
    device: torch.device
    where: str


def explain(run: Run, error: BaseException, *, model: Any = None, optimizer: Any = None) -> None:
    """Write an event and a report into the run if an error, or its cause, is of memory.

    Without a model, the models and optimizers of the process are reported.
    """
    fault = find_fault(error)
    if fault is None or getattr(fault.error, _MARK, False):
        return
    setattr(fault.error, _MARK, True)
    sentence = f"out of memory on {fault.device}"
    if fault.asked is not None:
        sentence += f": {format_bytes(fault.asked)} more were requested"
    recorder = recorder_of(run)
    recorder.console.notice(f"{sentence}{f' at {fault.where}' if fault.where else ''}.")
    facts = {"device": str(fault.device), "asked": fault.asked, "where": fault.where or None}
    facts = {name: value for name, value in facts.items() if value is not None}
    try:
        if model is None:
            model, optimizer = _living_models()
        figures = _figures(fault.device)
        text = _report(fault, memory_segments(model, optimizer, device=fault.device), figures)
    except (RuntimeError, MemoryError, OSError, EpochalError) as reason:
        # A device that has failed for good answers nothing; the error itself must still be raised.
        run.event(_EVENT, **facts, report=f"none: {type(reason).__name__}: {reason}")
        return
    run.event(_EVENT, **facts, **figures)
    recorder.write_text(_EVENT, text, recorder.sample_step(None))
    if recorder.rank == 0:
        recorder.console.block(text)


@contextmanager
def memory_guard(run: Run, model: Any = None, optimizer: Any = None) -> Iterator[None]:
    """Explain an out-of-memory error of a ``with`` block in the run, and let it go on.

    This is for programs that catch such errors; one that ends the run is explained by itself.

    Args:
        run: The run.
        model: The model.
        optimizer: The optimizer, or several.

    Example:
        with epochal.torch.memory_guard(run, model, optimizer):
            train_step(batch)
    """
    try:
        yield
    except BaseException as error:
        if run.state != "finished":
            report = partial(explain, run, error, model=model, optimizer=optimizer)
            recorder_of(run).guard.run("out-of-memory report", report)
        raise


def find_fault(error: BaseException) -> Fault | None:
    """Return the failed allocation behind an error, through its causes; None for other errors."""
    one: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if one is None:
            return None
        text = str(one)
        is_said = isinstance(one, RuntimeError) and any(words in text for words in _SAID)
        if is_said or isinstance(one, (torch.OutOfMemoryError, MemoryError)):
            found = _ASKED.search(text)
            asked = round(float(found[1]) * _UNITS[found[2].lower()]) if found else None
            return Fault(one, asked, _device_of(one, text), _where(one))
        one = one.__cause__ or one.__context__
    return None


def _report(fault: Fault, memory: MemorySegments, figures: Mapping[str, int]) -> str:
    lines = [f"[Out of memory on {fault.device}]"]
    if fault.asked is not None:
        lines.append(f"  asked for    {format_bytes(fault.asked)}")
    if fault.where:
        lines.append(f"  at           {fault.where}")
    for name, value in figures.items():
        is_count = name in ("retries", "failures")
        lines.append(f"  {name:<12} {value if is_count else format_bytes(value)}")
    return "\n".join([*lines, allocator_block(memory.segments, title="Memory")])


def _living_models() -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    """Return the models and optimizers of this process, without the modules inside others."""
    modules, optimizers = [], []
    # By type, not isinstance: asking a lazy proxy for its class may run code of its own.
    for item in gc.get_objects():
        if issubclass(type(item), nn.Module):
            modules.append(item)
        elif issubclass(type(item), torch.optim.Optimizer):
            optimizers.append(item)
    inner = {id(child) for module in modules for child in module.children()}
    roots = [one for one in modules if id(one) not in inner and any(True for _ in one.parameters())]
    return roots[0] if len(roots) == 1 else nn.ModuleList(roots), optimizers


def _device_of(error: BaseException, text: str) -> torch.device:
    if not _started() or isinstance(error, MemoryError) or "DefaultCPUAllocator" in text:
        return _CPU
    named = _GPU.search(text)
    return torch.device("cuda", int(named[1]) if named else torch.cuda.current_device())


def _where(error: BaseException) -> str:
    """Return the innermost line of the program itself, not of torch."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_TORCH_CODE)]
    if not own:
        return ""
    return f"{Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}"


def _figures(device: torch.device) -> dict[str, int]:
    """Return bytes, and how often the allocator had to try again."""
    if device.type != "cuda":
        import psutil

        machine = psutil.virtual_memory()
        resident = int(psutil.Process().memory_info().rss)
        return {"resident": resident, "free": machine.available, "total": machine.total}
    free, total = torch.cuda.mem_get_info(device)
    stats = torch.cuda.memory_stats(device)
    return {
        "allocated": stats.get("allocated_bytes.all.current", 0),
        "peak": stats.get("allocated_bytes.all.peak", 0),
        "reserved": stats.get("reserved_bytes.all.current", 0),
        "unusable": stats.get("inactive_split_bytes.all.current", 0),
        "free": free,
        "total": total,
        "retries": stats.get("num_alloc_retries", 0),
        "failures": stats.get("num_ooms", 0),
    }
