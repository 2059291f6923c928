"""torch.utils.tensorboard.SummaryWriter."""

from __future__ import annotations

import time
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

    def read_series(self, directory: Path, key: str, steps: int) -> float:
        """Seconds from the start of the fast data server to every point; imports not counted."""
        from tensorboard import context
        from tensorboard.data import provider, server_ingester
        from tensorboard.util import grpc_util

        begun = time.perf_counter()
        ingester = server_ingester.SubprocessServerDataIngester(
            server_binary=server_ingester.get_server_binary(),
            logdir=str(directory),
            reload_interval=0,
            channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
            samples_per_plugin={"scalars": 0},  # its word for "do not sample"
        )
        ingester.start()
        wanted = provider.RunTagFilter(tags=[key])
        found = 0
        while found < steps:
            answer = ingester.data_provider.read_scalars(
                context.RequestContext(),
                experiment_id="",
                plugin_name="scalars",
                downsample=steps + 1,
                run_tag_filter=wanted,
            )
            found = sum(len(points) for run in answer.values() for points in run.values())
        return time.perf_counter() - begun
