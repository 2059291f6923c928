"""A schedule as PyTorch knows them: an `LRScheduler` that sets the rates of an optimizer."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from epochal.errors import UsageError
from epochal.torch.schedule.scheduler import Scheduler


class TorchSchedule(LRScheduler):
    """Sets every parameter group to `schedule.lr(steps so far)`; call `step()` after the optimizer.

    With several schedules there must be one per group, in the optimizer's order. `state_dict()`
    holds plain values only and carries the schedules themselves, so a restored run follows the
    schedule it was saved with. Only a schedule of your own class stays as it was constructed.
    """

    def __init__(self, optimizer: Optimizer, *schedules: Scheduler) -> None:
        groups = len(optimizer.param_groups)
        if len(schedules) not in (1, groups):
            raise UsageError(
                f"schedules must be one, or one for each of the optimizer's {groups} parameter "
                f"groups, got {len(schedules)}."
            )
        self.schedules = schedules
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rate of each group at the present step."""
        if len(self.schedules) == 1:
            return [self.schedules[0].lr(self.last_epoch)] * len(self.optimizer.param_groups)
        return [schedule.lr(self.last_epoch) for schedule in self.schedules]

    def state_dict(self) -> dict[str, Any]:
        """Return the step and the schedules, as plain values."""
        state = super().state_dict()
        state["schedules"] = [_state(schedule) for schedule in self.schedules]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the step and the schedules from a `state_dict()`."""
        states = state_dict["schedules"]
        if len(states) != len(self.schedules):
            raise UsageError(
                f"state_dict must hold {len(self.schedules)} schedules, as many as this scheduler "
                f"drives, got {len(states)}."
            )
        schedules = tuple(
            present if state is None else Scheduler.from_state(state)
            for present, state in zip(self.schedules, states, strict=True)
        )
        super().load_state_dict({**state_dict, "schedules": schedules})


def _state(schedule: Scheduler) -> dict[str, Any] | None:
    try:
        return schedule.state()
    except UsageError:
        return None
