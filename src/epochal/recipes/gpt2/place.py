"""Where a process of the training runs: its device, its rank, and a way to the other ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from epochal.errors import UsageError
from epochal.settings import read_launch


@dataclass(frozen=True, slots=True)
class Place:
    """One process: rank 0 of 1 unless torchrun or a cluster says otherwise."""

    device: torch.device
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1

    @property
    def dtype(self) -> torch.dtype:
        """What matrices are multiplied in: bfloat16 where it is faster, on GPUs that have it."""
        has_half = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if has_half else torch.float32

    def autocast(self) -> AbstractContextManager[object]:
        """Multiply in `dtype` inside the block."""
        if self.dtype is torch.bfloat16:
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def distribute(self, model: nn.Module) -> nn.Module:
        """The model as all ranks train it together."""
        if self.world_size == 1:
            return model
        ids = [self.local_rank] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids)

    def together(self, trained: nn.Module, *, when: bool) -> AbstractContextManager[object]:
        """A block whose backward pass exchanges gradients with the other ranks, or does not yet."""
        if isinstance(trained, DistributedDataParallel) and not when:
            return trained.no_sync()
        return nullcontext()

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all ranks, on the device; nobody waits for it here."""
        if self.world_size > 1:
            dist.all_reduce(value, op=dist.ReduceOp.SUM)
            value = value / self.world_size
        return value

    def sums(self, numbers: Sequence[float]) -> list[float]:
        """The sums over all ranks, number by number."""
        if self.world_size == 1:
            return list(numbers)
        box = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(box, op=dist.ReduceOp.SUM)
        return [float(number) for number in box.tolist()]

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@contextmanager
def taken_place(device: str | None) -> Iterator[Place]:
    """This process's place; the ranks are connected for as long as the block lasts.

    `device` is torch's name of one; by default each rank takes a GPU of its own, where there are
    enough, else the CPU.
    """
    launch = read_launch()
    chosen = _device(device, local_rank=launch.local_rank)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
        torch.set_float32_matmul_precision("high")
    place = Place(chosen, launch.rank, launch.local_rank, launch.world_size)
    if launch.world_size == 1:
        yield place
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield place
    finally:
        dist.destroy_process_group()


def _device(name: str | None, *, local_rank: int) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"--device {name} is no device of torch: use cpu or cuda.") from error
    if device.type == "cuda":
        num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = device.index if ":" in name else local_rank
        if index >= num_gpus:
            raise UsageError(
                f"--device {name}: this process needs GPU {index} and there are {num_gpus}."
            )
        return torch.device("cuda", index)
    return device
