"""One process of the training: its device, its rank, and what the ranks do together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from epochal import UsageError


@dataclass(frozen=True)
class Process:
    """Rank 0 of 1 unless torchrun says otherwise."""

    device: torch.device
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of matrix products: bfloat16 on GPUs that have it, otherwise float32."""
        has_bfloat16 = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if has_bfloat16 else torch.float32

    def autocast(self) -> AbstractContextManager[object]:
        if self.dtype is torch.bfloat16:
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model that all ranks train together."""
        if self.world_size == 1:
            return model
        ids = [self.local_rank] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all ranks. The value stays on the device, so nothing waits here."""
        if self.world_size > 1:
            dist.all_reduce(value, op=dist.ReduceOp.SUM)
            value = value / self.world_size
        return value

    def sums(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over all ranks, number by number."""
        if self.world_size == 1:
            return list(numbers)
        box = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(box, op=dist.ReduceOp.SUM)
        return [float(number) for number in box.tolist()]

    def to_device(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor

    def synchronize(self) -> None:
        """Wait until the device has done all work that was queued."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@contextmanager
def joined(device: str | None) -> Iterator[Process]:
    """Connect the ranks that torchrun started, for as long as the block lasts.

    Each rank takes a GPU of its own by default, or the CPU if there is no GPU.
    """
    rank, local_rank, world_size = (
        int(os.environ.get(name, default))
        for name, default in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"))
    )
    process = Process(_device(device, local_rank), rank, local_rank, world_size)
    if process.device.type == "cuda":
        torch.cuda.set_device(process.device)
        torch.set_float32_matmul_precision("high")
    if world_size == 1:
        yield process
        return
    dist.init_process_group("nccl" if process.device.type == "cuda" else "gloo")
    try:
        yield process
    finally:
        dist.destroy_process_group()


def _device(name: str | None, local_rank: int) -> torch.device:
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"--device {name} is not known to torch; use cpu or cuda.") from error
    if device.type != "cuda":
        return device
    index = device.index if ":" in name else local_rank
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= num_gpus:
        raise UsageError(f"--device {name} needs GPU {index}, but this machine has {num_gpus}.")
    return torch.device("cuda", index)


class StepClock:
    """Measures how long a step takes on the device, without evaluations and checkpoints.

    The host queues work ahead of a GPU, so the time between two lines of Python says little. Here
    the host waits at the end of a step for a mark that was set before the last backward pass. The
    GPU always has work, and the host is never further ahead than one backward pass.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._event: Any = None
        if process.device.type == "cuda":
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._since = time.perf_counter()

    def mark(self) -> None:
        """Set the mark that `lap_ms` waits for."""
        if self._event is not None:
            self._event.record()

    def lap_ms(self) -> float:
        """Return the milliseconds since the lap before."""
        if self._event is not None:
            self._event.synchronize()
        now = time.perf_counter()
        elapsed_s, self._since = now - self._since, now
        return round(elapsed_s * 1000.0, 3)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside the block out of the lap."""
        self._process.synchronize()
        elapsed_s = time.perf_counter() - self._since
        try:
            yield
        finally:
            self._process.synchronize()
            self._since = time.perf_counter() - elapsed_s
