"""The ranks of a distributed training doing one thing together, or failing together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from epochal.errors import EpochalError, UsageError
from epochal.settings import read_launch

T = TypeVar("T")

# What a rank may fail with while the others wait for it; they are told instead of left waiting.
_TOLD = (EpochalError, OSError, RuntimeError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's rank, and a way to the others; `group` None is torch's default group."""

    rank: int
    world_size: int
    group: Any = None

    @classmethod
    def present(cls, *, on_cpu: bool = False) -> Ranks:
        """The ranks of torch.distributed, one where it is not in use.

        With `on_cpu` a group of their own is made that never touches a GPU; every rank must then
        come here.
        """
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            group = dist.new_group(backend="gloo") if on_cpu else None
            return cls(dist.get_rank(), dist.get_world_size(), group)
        launch = read_launch()
        if launch.world_size > 1:
            raise UsageError(
                f"this is rank {launch.rank} of {launch.world_size}, but torch.distributed is not "
                "started: call torch.distributed.init_process_group() first."
            )
        return cls(0, 1)

    def together(self, task: Callable[[], T]) -> list[T]:
        """Do something on every rank and return everybody's answers; one's failure is all's."""
        if self.world_size == 1:
            return [task()]
        answer: tuple[T | None, str | None]
        failure: BaseException | None = None
        try:
            answer = (task(), None)
        except _TOLD as error:
            failure, answer = error, (None, f"{type(error).__name__}: {error}")
        answers: list[Any] = [None] * self.world_size
        dist.all_gather_object(answers, answer, group=self.group)
        if failure is not None:
            raise failure
        told = [f"rank {rank}: {text}" for rank, (_, text) in enumerate(answers) if text]
        if told:
            raise EpochalError(f"another rank failed, so this one stops too. {'; '.join(told)}")
        return [value for value, _ in answers]

    def on_first(self, task: Callable[[], T]) -> T:
        """Do something on rank 0 and return its answer everywhere."""
        answers = self.together(lambda: task() if self.rank == 0 else None)
        first: Any = answers[0]
        return first  # type: ignore[no-any-return]

    def highest(self, *numbers: int) -> list[int]:
        """The largest that any rank gave, number by number."""
        if self.world_size == 1:
            return list(numbers)
        box = torch.tensor(numbers)
        if self.group is None and dist.get_backend() == "nccl":
            box = box.cuda()
        dist.all_reduce(box, op=dist.ReduceOp.MAX, group=self.group)
        return [int(number) for number in box.tolist()]
