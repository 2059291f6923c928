"""The values of one metric between two flushes, kept where they were computed.

A value on an accelerator is copied into a buffer on the same device, which waits for nothing. The
copy is enqueued at once, so what later happens to the tensor does not matter. All buffers of a
device are read together, in one copy, when somebody asks.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from epochal.errors import UsageError, ValueTypeError
from epochal.values import plain_float

_FIRST_CHUNK = 64
_LARGEST_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class ScalarSum:
    """What a mean needs of many values: the weighted sum of the finite ones, and the counts."""

    total: float
    weight: float
    count: int
    nonfinite: int

    def mean(self) -> float:
        """The mean of the finite values; nan where there is none."""
        return self.total / self.weight if self.weight > 0 else math.nan


class DeviceValues:
    """Values on one device, appended without waiting for it. Eight bytes each."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._full: list[Tensor] = []
        self._open: Tensor | None = None
        self._used = 0
        self._stream: Any = None

    def append(self, value: Tensor) -> None:
        """Copy a tensor of one element, on the current stream."""
        self._follow_stream()
        if self._open is None or self._used == len(self._open):
            self._start_chunk()
        assert self._open is not None
        self._open[self._used].copy_(value.detach().reshape(()))
        self._used += 1

    def extend(self, values: Tensor) -> None:
        """Copy all elements of a tensor, on the current stream."""
        self._follow_stream()
        self._close_chunk()
        self._full.append(values.detach().flatten().to(_widest(self._device), copy=True))

    def whole(self) -> Tensor:
        """All values in one tensor, still on the device."""
        self._follow_stream()
        chunks = [*self._full, *([] if self._open is None else [self._open[: self._used]])]
        return torch.cat(chunks) if chunks else torch.empty(0)

    def _start_chunk(self) -> None:
        size = _FIRST_CHUNK
        if self._open is not None:
            size = min(len(self._open) * 2, _LARGEST_CHUNK)
        self._close_chunk()
        # A tensor born in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            self._open = torch.empty(size, dtype=_widest(self._device), device=self._device)

    def _close_chunk(self) -> None:
        if self._open is not None and self._used:
            self._full.append(self._open[: self._used])
        self._open, self._used = None, 0

    def _follow_stream(self) -> None:
        """Make this stream wait (on the device) for the one that wrote before, if it is another."""
        if self._device.type != "cuda":
            return
        current = torch.cuda.current_stream(self._device)
        if self._stream is not None and self._stream != current:
            current.wait_stream(self._stream)
        self._stream = current


class Recorded:
    """One metric's values since the last flush, with a weight each."""

    def __init__(self) -> None:
        self._host = array("d")
        self._host_weights = array("d")
        self._devices: dict[torch.device, DeviceValues] = {}
        self._device_weights: dict[torch.device, array[float]] = {}
        self._sums: list[ScalarSum] = []

    def append(self, value: Any, *, name: str, weight: float) -> None:
        """Take one number; on an accelerator it stays there."""
        if isinstance(value, Tensor) and value.device.type not in ("cpu", "meta"):
            if value.numel() != 1:
                raise ValueTypeError(
                    f"metric {name!r} holds {value.numel()} values: record_scalar takes one, "
                    "record takes many."
                )
            self._on(value.device).append(value)
            self._device_weights[value.device].append(weight)
            return
        self._host.append(plain_float(value, name=name))
        self._host_weights.append(weight)

    def extend(self, values: Tensor, *, weight: float) -> None:
        """Take all numbers of a tensor, each with the same weight."""
        if values.device.type in ("cpu", "meta"):
            numbers = values.detach().flatten().to(torch.float64).tolist()
            self._host.extend(numbers)
            self._host_weights.extend([weight] * len(numbers))
            return
        self._on(values.device).extend(values)
        self._device_weights[values.device].extend([weight] * values.numel())

    def absorb(self, part: ScalarSum) -> None:
        """Take values that were summed elsewhere."""
        self._sums.append(part)

    def devices(self) -> list[torch.device]:
        """The accelerators that hold values."""
        return list(self._devices)

    def on_device(self, device: torch.device) -> Tensor:
        """This metric's values on one device."""
        return self._devices[device].whole()

    def read_back(self, device: torch.device, values: Sequence[float]) -> None:
        """Take the values of a device that were read, in the place of those on it."""
        self._host.extend(values)
        self._host_weights.extend(self._device_weights.pop(device))
        del self._devices[device]

    def values(self) -> list[float]:
        """The values that are on the host, oldest first."""
        return self._host.tolist()

    def summed(self) -> ScalarSum:
        """The sum of everything on the host; what is not finite is counted and kept out of it."""
        finite = [
            (value, weight)
            for value, weight in zip(self._host, self._host_weights, strict=True)
            if math.isfinite(value)
        ]
        parts = self._sums
        return ScalarSum(
            total=_total([*(v * w for v, w in finite), *(part.total for part in parts)]),
            weight=math.fsum([*(w for _, w in finite), *(part.weight for part in parts)]),
            count=len(self._host) + sum(part.count for part in parts),
            nonfinite=len(self._host) - len(finite) + sum(part.nonfinite for part in parts),
        )

    def _on(self, device: torch.device) -> DeviceValues:
        if device not in self._devices:
            self._devices[device] = DeviceValues(device)
            self._device_weights[device] = array("d")
        return self._devices[device]


def read_devices(metrics: Sequence[Recorded]) -> None:
    """Bring every value that is on a device to the host, in one copy for each device."""
    devices = dict.fromkeys(device for metric in metrics for device in metric.devices())
    for device in devices:
        there = [metric for metric in metrics if device in metric.devices()]
        parts = [metric.on_device(device) for metric in there]
        numbers = torch.cat(parts).cpu().to(torch.float64).tolist()
        start = 0
        for metric, part in zip(there, parts, strict=True):
            metric.read_back(device, numbers[start : start + len(part)])
            start += len(part)


def checked_weight(weight: Any, *, name: str) -> float:
    """A weight as a number of at least 0; one on an accelerator would have to be waited for."""
    if isinstance(weight, Tensor) and weight.device.type != "cpu":
        raise ValueTypeError(
            f"The weight of {name!r} must be a number on the host, got a tensor on {weight.device}."
        )
    number = plain_float(weight, name="weight")
    if not (number >= 0 and math.isfinite(number)):
        raise UsageError(f"The weight of {name!r} must be a finite number of at least 0.")
    return number


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple GPUs have no float64


def _total(terms: list[float]) -> float:
    try:
        return math.fsum(terms)
    except OverflowError:
        return sum(terms)
