from __future__ import annotations

import pytest
import torch

from epochal.torch import CaptureMode, cuda_graph_capture


def test_on_a_cpu_the_function_is_called_for_warm_up_and_replay_but_not_for_capture() -> None:
    calls: list[int] = []
    graph = cuda_graph_capture(3, None, lambda: calls.append(1), device="cpu")
    assert len(calls) == 3
    graph.replay()
    assert len(calls) == 4
    assert graph.pool() is None
    assert graph.pool() is None


def test_the_output_is_that_of_the_latest_replay() -> None:
    source = torch.zeros(1)
    graph = cuda_graph_capture(0, None, lambda: source * 2, device="cpu")
    source.fill_(3.0)
    graph.replay()
    assert float(graph.output) == 6.0


def test_a_graph_that_was_reset_cannot_be_replayed() -> None:
    graph = cuda_graph_capture(0, None, lambda: None, device="cpu")
    graph.reset()
    with pytest.raises(ValueError, match="was reset"):
        graph.replay()


def test_another_graph_may_lend_its_pool() -> None:
    first = cuda_graph_capture(0, None, lambda: 1, device="cpu")
    second = cuda_graph_capture(0, first, lambda: 2, mode=CaptureMode.GLOBAL, device="cpu")
    second.replay()
    assert second.output == 2


def test_misuse_names_the_argument() -> None:
    with pytest.raises(ValueError, match="warmups"):
        cuda_graph_capture(-1, None, lambda: None)
