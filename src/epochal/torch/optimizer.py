"""The learning rate of an optimizer: set by hand, or by a schedule."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from epochal.torch.checks import check_number
from epochal.torch.schedule import Scheduler


def set_lr(optimizer: Optimizer, lr: float, group: int | None = None) -> None:
    """Set the rate of every parameter group, or of one by its index.

    A rate that the optimizer keeps as a tensor (for CUDA graphs, `torch.compile`) is filled in
    place, without waiting for the GPU.

    Args:
        optimizer: The optimizer.
        lr: The learning rate.
        group: The index of the parameter group; all of them if you give none.
    """
    check_number(lr, name="lr")
    groups = optimizer.param_groups
    for chosen in groups if group is None else [groups[group]]:
        if isinstance(chosen["lr"], Tensor):
            chosen["lr"].fill_(lr)
        else:
            chosen["lr"] = lr


class TorchSchedule(LRScheduler):
    """Sets every parameter group to `schedule.lr(steps so far)`; call `step()` after the optimizer.

    `state_dict()` has the number of steps and the state of the schedule. The arguments of the
    schedule are those in your program.
    """

    def __init__(self, optimizer: Optimizer, schedule: Scheduler) -> None:
        self.schedule = schedule
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rate of each group at the present step."""
        return [self.schedule.lr(self.last_epoch)] * len(self.optimizer.param_groups)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {**super().state_dict(), "schedule": self.schedule.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict()`."""
        self.schedule.load_state_dict(state_dict["schedule"])
        super().load_state_dict({**state_dict, "schedule": self.schedule})
