import itertools
from typing import Any

import numpy as np
import pytest

from epochal.exchange.sinks.keys import histogram_bins, keyed_scalars
from epochal.exchange.sinks.sink import Entry
from epochal.records import Position

MIB = 1024 * 1024


def keyed(record: dict[str, Any], *, node: str | None = None) -> dict[str, float]:
    return keyed_scalars(Entry(Position("loop", 1, 0, 1), record, 0, node))


def test_steps_and_evaluations_have_the_series_names() -> None:
    assert keyed({"log": "step", "loss": 2.0, "moe_aux_loss": 0.1}) == {
        "train/loss": 2.0,
        "moe/aux_loss": 0.1,
    }
    assert keyed({"log": "eval", "loss": 2.0}) == {"eval/loss": 2.0}
    assert keyed({"log": "moe", "z_loss": 0.1}) == {"moe/z_loss": 0.1}


def test_gpus_do_not_collide_and_bytes_are_mebibytes() -> None:
    record = {"log": "gpu", "id": 1, "power": 300_000, "dram_free": 3 * MIB, "pcie_rx": MIB}
    assert keyed(record) == {"gpu/1/power": 300_000, "gpu/1/dram_free": 3, "gpu/1/pcie_rx": 1}
    assert keyed(record, node="node-b").keys() == {
        "node-b/gpu/1/power",
        "node-b/gpu/1/dram_free",
        "node-b/gpu/1/pcie_rx",
    }


def test_free_metrics_are_left_as_they_are() -> None:
    assert keyed({"log": "metrics", "m": {"dram_free": MIB, "a/b": 1}}) == {
        "dram_free": MIB,
        "a/b": 1,
    }


def test_segments_are_in_mebibytes_and_what_is_not_on_the_device_is_said_so() -> None:
    stats = [
        {"name": "weights", "device": 4 * MIB, "managed": 0, "pinned": 0, "pageable": 0},
        {"name": "optimizer", "device": 0, "managed": 0, "pinned": 8 * MIB, "pageable": 0},
    ]
    assert keyed({"log": "allocator", "stats": stats}) == {
        "allocator/weights_mib": 4,
        "allocator/optimizer_mib": 0,
        "allocator/optimizer_pinned_mib": 8,
    }
    assert keyed({"log": "allocator", "id": 1, "stats": stats[:1]}) == {
        "allocator/gpu1/weights_mib": 4
    }


@pytest.mark.parametrize("value", [1.0, 0.0, -3.0, 1e12])
def test_equal_values_have_bins_that_a_tracker_can_draw(value: float) -> None:
    counts, edges = histogram_bins({"lo": value, "hi": value, "counts": [5] + [0] * 63})
    assert all(low < high for low, high in itertools.pairwise(edges))
    (place,) = np.flatnonzero(counts)
    assert edges[place] == pytest.approx(value)
    assert counts[place] == 5
    assert histogram_bins({"lo": 0.0, "hi": 1.0, "counts": [2, 3]}) == ([2, 3], [0.0, 0.5, 1.0])
