"""Marks in time: of the host's clock, or of a GPU's own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor


class Clock(Protocol):
    """Makes marks and tells how far apart two of them are."""

    def mark(self) -> Any:
        """Mark this moment, waiting for nothing."""

    def reached(self, mark: Any) -> bool:
        """Whether the mark's moment has come."""

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two marks; waits for them."""


class HostClock:
    """The host's clock; right where work is done when a call returns."""

    def mark(self) -> int:
        """Nanoseconds of a clock that only grows."""
        return time.perf_counter_ns()

    def reached(self, mark: int) -> bool:
        """Always: the host is where it is."""
        return True

    def milliseconds(self, start: int, end: int) -> float:
        """The difference."""
        return (end - start) / 1e6


class CudaClock:
    """Events in a GPU's stream: the time the GPU takes, not the time of launching it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> torch.cuda.Event:
        """An event recorded on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def reached(self, mark: torch.cuda.Event) -> bool:
        """Whether the GPU has come to the event."""
        return bool(mark.query())  # type: ignore[no-untyped-call]

    def milliseconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """The GPU's own measure, to about half a microsecond."""
        end.synchronize()
        return float(start.elapsed_time(end))


def clock_for(tensors: Iterable[Any]) -> Clock:
    """The clock of the first GPU among these tensors, else the host's."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor.is_cuda:
            return CudaClock(tensor.device)
    return HostClock()


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in a value, looking into lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []
