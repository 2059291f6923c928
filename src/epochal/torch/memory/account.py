"""A page on memory: segments, the largest tensors of each, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from epochal.console.blocks import allocator_block
from epochal.console.stream import printable
from epochal.format import format_bytes
from epochal.torch.memory.advice import memory_advice
from epochal.torch.memory.segments import OF_TENSORS, Device, MemorySegments, memory_segments

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What memory is used for, with advice; its text is what ``print`` shows."""

    memory: MemorySegments
    advice: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def memory_report(
    model: nn.Module, optimizer: Any = None, *, device: Device = None, top: int = 3
) -> MemoryReport:
    """Segments, the ``top`` largest tensors of each, and advice; ask as for `memory_segments`.

    ``run.log_text("memory", str(report))`` keeps it in the run.
    """
    memory = memory_segments(model, optimizer, device=device)
    advice = tuple(memory_advice(memory))
    return MemoryReport(memory, advice, report_text(memory, advice, top=top))


def report_text(memory: MemorySegments, advice: Sequence[str], *, top: int = 3) -> str:
    """The block people read; every line is indented below its heading."""
    title = f"Memory of {memory.device}, {format_bytes(memory.capacity)}"
    lines = [allocator_block(memory.segments, title=title), *_largest(memory, top=top)]
    if advice:
        lines += ["[What to try]", *(f"  {sentence}" for sentence in advice)]
    return "\n".join(lines)


def _largest(memory: MemorySegments, *, top: int) -> list[str]:
    usual = "pageable" if memory.gpu is None else "device"
    by_segment = [
        (segment, [use for use in memory.tensors if use.segment == segment and use.bytes][:top])
        for segment in OF_TENSORS
    ]
    shown = [use for _, uses in by_segment for use in uses]
    if not shown:
        return []
    width = max(len(printable(use.name, longest=_LONGEST_NAME)) for use in shown)
    lines = ["[Largest tensors]"]
    for segment, uses in by_segment:
        for use in uses:
            name = printable(use.name, longest=_LONGEST_NAME)
            shape = "×".join(map(str, use.shape)) or "0-d"
            lines.append(
                f"  {segment:<9} {name:<{width}} {format_bytes(use.bytes):>10}"
                f"  {shape} {use.dtype}{'' if use.place == usual else f', {use.place}'}"
            )
    return lines
