"""Explains an out-of-memory error: what was asked for, what is there, what to try.

Nothing is allocated on the device, nothing is freed, and the error goes on. Without a given model,
the models and optimizers of the process are looked for. Tensors in the variables of the functions
that were running are named after them.
"""

from __future__ import annotations

import gc
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from epochal.errors import EpochalError
from epochal.format import format_bytes
from epochal.run.run import Run, recorder_of
from epochal.torch.memory.account import report_text
from epochal.torch.memory.advice import memory_advice
from epochal.torch.memory.segments import TensorUse, memory_segments, named_tensors
from epochal.torch.memory.storages import storages_of

NAME = "out-of-memory"
_TOP = 5
_ONE_LARGE_TENSOR = 0.1  # of what the device has
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
_OWN_CODE = str(Path(torch.__file__).parent)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed allocation: bytes asked for (None when not said), and on which device."""

    error: BaseException
    asked: int | None
    device: torch.device
    where: str


def explain(run: Run, error: BaseException, *, model: Any = None, optimizer: Any = None) -> None:
    """Write an event and a report into the run if an error, or its cause, is of memory."""
    fault = find_fault(error)
    if fault is None or getattr(fault.error, _MARK, False):
        return
    setattr(fault.error, _MARK, True)
    sentence = f"out of memory on {fault.device}"
    if fault.asked is not None:
        sentence += f": {format_bytes(fault.asked)} more were requested"
    recorder = recorder_of(run)
    recorder.console.notice(f"{sentence}{f' at {fault.where}' if fault.where else ''}.")
    try:
        text = report(fault, *_subject(model, optimizer))
    except (RuntimeError, MemoryError, OSError, EpochalError) as reason:
        # A device that has failed for good answers nothing; the error itself must still go on.
        run.event(NAME, **_facts(fault), report=f"none: {type(reason).__name__}: {reason}")
        return
    run.event(NAME, **_facts(fault), **_figures(fault.device))
    run.log_text(NAME, text)
    if recorder.rank == 0:
        recorder.console.block(text)


def find_fault(error: BaseException) -> Fault | None:
    """The failed allocation behind an error, through its causes; None for any other error."""
    for one in _chain(error):
        text = str(one)
        if not isinstance(one, (torch.OutOfMemoryError, MemoryError)) and not (
            isinstance(one, RuntimeError) and any(words in text for words in _SAID)
        ):
            continue
        found = _ASKED.search(text)
        asked = round(float(found[1]) * _UNITS[found[2].lower()]) if found else None
        return Fault(one, asked, _device(one, text), _where(one))
    return None


def report(fault: Fault, model: nn.Module, optimizer: Any) -> str:
    """The text that goes into the run: the allocation, statistics, segments, tensors, advice."""
    memory = memory_segments(model, optimizer, device=fault.device)
    lines = [f"[Out of memory on {fault.device}]"]
    if fault.asked is not None:
        lines.append(f"  asked for    {format_bytes(fault.asked)}")
    if fault.where:
        lines.append(f"  at           {fault.where}")
    figures = _figures(fault.device)
    lines += [f"  {name:<12} {_figure(name, value)}" for name, value in figures.items()]
    known = {s.key for _, _, t in named_tensors(model, optimizer) for s in storages_of(t)}
    lines += [report_text(memory, (), top=_TOP), *_live_lines(_live_tensors(fault, known))]
    advice = [*_on_the_request(fault, memory.capacity), *memory_advice(memory, is_full=True)]
    return "\n".join([*lines, "[What to try]", *(f"  {sentence}" for sentence in advice)])


def _on_the_request(fault: Fault, capacity: int) -> Iterator[str]:
    if fault.asked is not None and fault.asked > _ONE_LARGE_TENSOR * capacity:
        yield (
            f"One allocation of {format_bytes(fault.asked)} is {fault.asked / capacity:.0%} of the "
            f"device: look at what is made{f' at {fault.where}' if fault.where else ''}; logits of "
            "a large vocabulary or attention over a long sequence can be computed in pieces."
        )


def _subject(model: nn.Module | None, optimizer: Any) -> tuple[nn.Module, Any]:
    if model is not None:
        return model, optimizer
    models, optimizers = _living()
    return models[0] if len(models) == 1 else nn.ModuleList(models), optimizer or optimizers


def _living() -> tuple[list[nn.Module], list[torch.optim.Optimizer]]:
    """The models and optimizers of this process, without the modules inside others."""
    modules, optimizers = [], []
    # By type, not isinstance: asking a lazy proxy for its class may run code of its own.
    for item in gc.get_objects():
        if issubclass(type(item), nn.Module):
            modules.append(item)
        elif issubclass(type(item), torch.optim.Optimizer):
            optimizers.append(item)
    inner = {id(child) for module in modules for child in module.children()}
    roots = [module for module in modules if id(module) not in inner]
    return [root for root in roots if any(True for _ in root.parameters())], optimizers


def _live_tensors(fault: Fault, known: set[tuple[str, int]]) -> list[TensorUse]:
    """The largest tensors on the device that are neither model nor optimizer, by variable."""
    names = dict(_variables(fault.error))
    found: dict[tuple[str, int], TensorUse] = {}
    for item in gc.get_objects():
        if not issubclass(type(item), Tensor) or item.device != fault.device:
            continue
        name, dtype = names.get(id(item)), str(item.dtype).removeprefix("torch.")
        for storage in storages_of(item):
            if storage.key in known or (storage.key in found and name is None):
                continue
            shape, place = tuple(item.shape), storage.place
            use = TensorUse(name or "", "activations", shape, dtype, place, storage.bytes)
            found[storage.key] = use
    return sorted(found.values(), key=lambda use: -use.bytes)[:_TOP]


def _variables(error: BaseException) -> Iterator[tuple[int, str]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(_OWN_CODE):
            continue
        for name, value in list(frame.f_locals.items()):
            if issubclass(type(value), Tensor):
                yield id(value), f"{name} in {frame.f_code.co_name}, line {line}"


def _live_lines(live: list[TensorUse]) -> list[str]:
    if not live:
        return []
    lines = ["[Other tensors that are alive]"]
    for use in live:
        shape = "×".join(map(str, use.shape)) or "0-d"
        lines.append(f"  {format_bytes(use.bytes):>10}  {shape} {use.dtype}  {use.name}".rstrip())
    return lines


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


def _device(error: BaseException, text: str) -> torch.device:
    started: Any = torch.cuda.is_initialized
    if not started() or isinstance(error, MemoryError) or "DefaultCPUAllocator" in text:
        return torch.device("cpu")
    named = _GPU.search(text)
    return torch.device("cuda", int(named[1]) if named else torch.cuda.current_device())


def _where(error: BaseException) -> str:
    """The innermost line of the program itself, not of torch."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OWN_CODE)]
    if not own:
        return ""
    last = own[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}"


def _facts(fault: Fault) -> dict[str, Any]:
    facts = {"device": str(fault.device), "asked": fault.asked, "where": fault.where or None}
    return {name: value for name, value in facts.items() if value is not None}


def _figures(device: torch.device) -> dict[str, int]:
    """Bytes, and how often the allocator had to try again."""
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


def _figure(name: str, value: int) -> str:
    return str(value) if name in ("retries", "failures") else format_bytes(value)
