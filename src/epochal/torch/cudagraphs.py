"""CUDA graphs: a training step recorded once and replayed as one launch.

The step must use tensors of fixed shapes that live outside it, refreshed with
``static.copy_(batch, non_blocking=True)``, and must not read a value back to the host. What it
returns are static tensors too: after each replay they hold that replay's values, and logging them
waits for nothing. Without CUDA the function itself is called, so that the same loop runs anywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch

from epochal.errors import UsageError
from epochal.torch.checks import check_whole


class CaptureMode(enum.Enum):
    """Which calls of other threads end a capture with an error."""

    GLOBAL = "global"
    THREAD_LOCAL = "thread_local"
    RELAXED = "relaxed"


class CudaGraph:
    """A recorded step; made by `cuda_graph_capture`."""

    def __init__(self, replay: Callable[[], Any], graph: torch.cuda.CUDAGraph | None) -> None:
        self._replay: Callable[[], Any] | None = replay
        self._graph = graph
        self._output: Any = None

    @property
    def output(self) -> Any:
        """What the function returned; on a GPU its tensors change with every replay."""
        return self._output

    def replay(self) -> None:
        """Do the step once more: launched on the current stream, or called where there is no CUDA.

        After a reset it is a ValueError.
        """
        if self._replay is None:
            raise UsageError("This graph was reset: capture the step again before a replay.")
        if self._graph is None:
            self._output = self._replay()
        else:
            self._graph.replay()

    def pool(self) -> Any:
        """Return the handle of the graph's memory pool for another capture; None without CUDA."""
        return None if self._graph is None else self._graph.pool()

    def reset(self) -> None:
        """Free the recording and its memory; it cannot be replayed any more."""
        if self._graph is not None:
            self._graph.reset()
        self._replay = self._output = None


def cuda_graph_capture(
    warmups: int,
    pool: Any,
    function: Callable[[], Any],
    *,
    mode: CaptureMode = CaptureMode.RELAXED,
    device: torch.device | str | None = None,
) -> CudaGraph:
    """Call a step `warmups` times (3 is usual), then record it once without running it.

    `pool` is None, another CudaGraph, or a pool handle: graphs that never run at the same time may
    share memory. `device` 'cpu' calls the function instead, which is also what happens without
    CUDA; the warm-up calls are made either way, so that both count the same steps. Capturing waits
    for the GPU, replaying does not.

    Args:
        warmups: How often the step is called before.
        pool: None, another CudaGraph, or the handle of a memory pool.
        function: The step, a function without arguments.
        mode: Which calls of other threads end the capture with an error.
        device: The GPU, or ``cpu`` to call the function instead.
    """
    check_whole(warmups, name="warmups", least=0)
    place = torch.device("cuda" if device is None else device)
    if place.type != "cuda" or not torch.cuda.is_available():
        for _ in range(warmups):
            function()
        return CudaGraph(function, None)
    handle = pool.pool() if isinstance(pool, CudaGraph) else pool
    with torch.cuda.device(place):
        _warm_up(warmups, function)
        graph = torch.cuda.CUDAGraph()
        captured = CudaGraph(graph.replay, graph)
        with torch.cuda.graph(graph, pool=handle, capture_error_mode=mode.value):
            captured._output = function()
        return captured


def _warm_up(warmups: int, function: Callable[[], Any]) -> None:
    # On a stream of its own, as capture will: what libraries set up lazily is then set up.
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmups):
            function()
    torch.cuda.current_stream().wait_stream(stream)
