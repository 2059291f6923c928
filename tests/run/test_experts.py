from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from epochal.console.blocks import Segment
from epochal.errors import UsageError, ValueTypeError
from epochal.records import scalars_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def test_expert_loads_are_one_row_of_shares_for_each_layer(start_run: StartRun) -> None:
    run = start_run()
    run.log_experts(7, ["h.0.mlp", "h.1.mlp"], [[0.25, 0.75], (0.5, 0.5)], top_k=1)
    (record,) = of_kind(run.dir, "experts")
    del record["t"]
    assert record == {
        "log": "experts",
        "step": 7,
        "layers": ["h.0.mlp", "h.1.mlp"],
        "load": [[0.25, 0.75], [0.5, 0.5]],
        "top_k": 1,
    }


@pytest.mark.parametrize(
    ("layers", "load", "sentence"),
    [
        ("h.0", [[1.0]], "layers must be a list of names"),
        (["h.0"], [[0.5, 0.5], [1.0, 0.0]], "2 rows for 1 layers"),
        (["h.0"], [[math.nan, 1.0]], "must be a finite number"),
        (["h.0"], [0.5], "one row of shares"),
        (["h.0"], [[30, 10]], "adds up to 40"),
        (["h.0"], [[0.2, 0.3]], "adds up to 0.5"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    start_run: StartRun, layers: Any, load: Any, sentence: str
) -> None:
    with pytest.raises((UsageError, ValueTypeError), match=sentence):
        start_run(strict=True).log_experts(0, layers, load)


def test_a_layer_without_a_token_has_no_shares(start_run: StartRun) -> None:
    run = start_run()
    run.log_experts(0, ["h.0"], [[0.0, 0.0]])
    assert of_kind(run.dir, "experts")[0]["load"] == [[0.0, 0.0]]


@dataclass(frozen=True)
class Measured:
    aux_loss: float

    def fields(self) -> dict[str, float]:
        return {"aux_loss": self.aux_loss, "load_imbalance": 1.25}


def test_statistics_may_be_logged_as_one_object(start_run: StartRun) -> None:
    run = start_run()
    run.log_moe_stats(3, Measured(0.5), router_entropy=0.9)
    (record,) = of_kind(run.dir, "moe")
    assert dict(scalars_of(record)) == {
        "moe/aux_loss": 0.5,
        "moe/load_imbalance": 1.25,
        "moe/router_entropy": 0.9,
    }


class OfOneGpu(list[Segment]):
    gpu = 3


def test_segments_that_know_their_gpu_say_so(start_run: StartRun) -> None:
    run = start_run()
    run.log_allocator(OfOneGpu([Segment("weights", device=4)]), step=2)
    (record,) = of_kind(run.dir, "allocator")
    assert (record["id"], record["step"]) == (3, 2)
    assert dict(scalars_of(record))["memory/gpu3/weights/device"] == 4
