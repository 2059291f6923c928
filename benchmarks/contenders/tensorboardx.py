"""tensorboardX's SummaryWriter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role
from benchmarks.contenders.event_files import complete_steps, scalar_by_scalar


class TensorBoardX:
    name = "tensorboardX"
    role: Role = "peer"
    requirements: tuple[str, ...] = ("tensorboardX", "tensorboard")  # the second for its reader
    import_statement = "import tensorboardX"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(directory))
        return scalar_by_scalar(self._writer)

    def close(self) -> None:
        self._writer.close()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        return complete_steps(directory, keys)
