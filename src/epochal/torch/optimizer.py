"""The learning rate of an optimizer, set from outside."""

from __future__ import annotations

from torch import Tensor
from torch.optim import Optimizer

from epochal.errors import UsageError
from epochal.torch.schedule.scheduler import check_rate


def set_lr(optimizer: Optimizer, lr: float, group: int | str | None = None) -> None:
    """Set the rate of every parameter group, or of one by its index or its ``name``.

    A rate that the optimizer keeps as a tensor (for CUDA graphs, `torch.compile`) is filled in
    place, without waiting for the GPU.
    """
    check_rate(lr, name="lr")
    for chosen in _groups(optimizer, group):
        if isinstance(chosen["lr"], Tensor):
            chosen["lr"].fill_(lr)
        else:
            chosen["lr"] = lr


def _groups(optimizer: Optimizer, group: int | str | None) -> list[dict[str, object]]:
    groups = optimizer.param_groups
    if group is None:
        return groups
    if isinstance(group, int) and 0 <= group < len(groups):
        return [groups[group]]
    found = [one for one in groups if isinstance(group, str) and one.get("name") == group]
    if not found:
        named = ", ".join(repr(one["name"]) for one in groups if "name" in one)
        raise UsageError(
            f"group must be an index below {len(groups)}"
            f"{f' or one of {named}' if named else ''}, got {group!r}."
        )
    return found
