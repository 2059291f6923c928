"""torch.utils.tensorboard.SummaryWriter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role
from benchmarks.contenders.event_files import complete_steps, scalar_by_scalar


class TensorBoard:
    name = "torch SummaryWriter"
    role: Role = "peer"
    requirements: tuple[str, ...] = ("tensorboard", "torch==2.13.0")
    import_statement = "from torch.utils.tensorboard import SummaryWriter"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(directory))
        return scalar_by_scalar(self._writer)

    def close(self) -> None:
        self._writer.close()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        return complete_steps(directory, keys)
