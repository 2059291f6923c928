"""What the calls of a run take, for the type checker as well: `make check` reads this file."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import epochal
from epochal.exchange.media.types import Image
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def test_numbers_tensors_arrays_and_nested_metrics_are_accepted(start_run: StartRun) -> None:
    run, model, loss = start_run(), nn.Linear(4, 4), torch.ones(())
    plain: dict[str, float] = {"a": 1.0}
    run.log({"loss": loss, "acc": np.float32(1.0), "n": 3, "ok": True})
    run.log(plain, step=1)
    run.log({"nested": {"a": 1.0, "b": {"c": loss}}, "text": "x", "many": [1.0, 2.0]}, step=2)
    run.log({"array": np.zeros(3), "tensor": torch.zeros(3), "x": 1.0}, step=3)
    run.log_step(4, 0.1, 100, 5.0, loss, loss, np.float64(1e-3), metrics=plain)
    run.log_eval(4, 0.1, 100, 5.0, loss.item(), metrics={"accuracy": loss})
    run.log({"weights": torch.ones(10)}, step=4)
    run.log({"all": list(model.parameters())}, step=4)
    run.log({"pixels": Image(np.zeros((3, 3)))})
    run.log_moe_stats(4, epochal.torch.moe_stats(torch.zeros(3, 4), top_k=2))
    run.log_abs_maxes(4, {"w": torch.ones(())})
    run.log_allocator(epochal.torch.memory_segments(model))
    epochal.log({"loss": loss})
    run.finish()
    assert [event["name"] for event in of_kind(run.dir, "event") if "drop" in event["name"]] == []
    assert len(of_kind(run.dir, "metrics")) == 5
    assert len(of_kind(run.dir, "histogram")) == 5


def test_a_value_that_is_no_number_is_left_out(start_run: StartRun) -> None:
    run = start_run()
    run.log({"bad": object(), "good": 1.0})
    (record,) = of_kind(run.dir, "metrics")
    assert record["m"] == {"good": 1.0}
