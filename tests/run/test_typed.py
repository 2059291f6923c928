"""The typed calls: what each of them records, from arguments and from the mapping of a JSON log."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.errors import UsageError, ValueTypeError
from epochal.records import scalars_of
from epochal.run.console.blocks import Segment
from epochal.run.run import Run
from tests.doubles.journals import of_kind

Call = Callable[[Run], object]
# A call of each kind by its arguments, and the same by the record as the JSON log has it.
CALLS: dict[str, tuple[Call, str, dict[str, Any]]] = {
    "step": (
        lambda run: run.log_step(
            5,
            0.5,
            1000,
            250.0,
            1.5,
            2.5,
            3e-4,
            norm_clipped=1.0,
            kd_loss=0.5,
            sol=0.4,
            phase="warm-up",
            moe={"aux_loss": 0.5, "moe_z_loss": 0.25},
            metrics={"acc": 0.75},
        ),
        "log_step",
        {
            "step": 5,
            "epoch": 0.5,
            "step_tokens": 1000,
            "duration_ms": 250.0,
            "norm": 1.5,
            "loss": 2.5,
            "lr": 3e-4,
            "norm_clipped": 1.0,
            "tokens_per_second": 4000.0,
            "kd_loss": 0.5,
            "sol": 0.4,
            "phase": "warm-up",
            "moe_aux_loss": 0.5,
            "moe_z_loss": 0.25,
            "m": {"acc": 0.75},
        },
    ),
    "eval": (
        lambda run: run.log_eval(5, 0.5, 1000, 250.0, 2.5, metrics={"acc": 0.75}),
        "log_eval",
        {
            "step": 5,
            "epoch": 0.5,
            "eval_tokens": 1000,
            "duration_ms": 250.0,
            "loss": 2.5,
            "tokens_per_second": 4000.0,
            "m": {"acc": 0.75},
        },
    ),
    "epoch": (
        lambda run: run.log_epoch(2, 30.0, {"loss": 0.5}, total=9, gpus=[{"id": 0}]),
        "log_epoch",
        {"epoch": 2, "total": 9, "duration_s": 30.0, "m": {"loss": 0.5}, "gpus": [{"id": 0}]},
    ),
    "moe": (
        lambda run: run.log_moe_stats(1, 0.1, 0.2, 0.9, 1.5, router_entropy=0.3),
        "log_moe_stats",
        {
            "step": 1,
            "aux_loss": 0.1,
            "z_loss": 0.2,
            "expert_utilization": 0.9,
            "load_imbalance": 1.5,
            "router_entropy": 0.3,
        },
    ),
    "gpu": (
        lambda run: run.log_gpu_state(1, 2, power=300_000, throttle="thermal", fan=None),
        "log_gpu_state",
        {"step": 1, "id": 2, "power": 300_000, "throttle": "thermal"},
    ),
    "gpu-model": (
        lambda run: run.log_gpu_model(name="H200", memory=1 << 37, ecc=True),
        "log_gpu_model",
        {"name": "H200", "memory": 1 << 37, "ecc": True},
    ),
    "sol": (
        lambda run: run.log_sol_estimate(blocks=1.0, lm_head=2.0, attention=3.0, bf16_peak=990),
        "log_sol_estimate",
        {"dtype": "bf16", "blocks": 1.0, "lm_head": 2.0, "attention": 3.0, "bf16_peak": 990},
    ),
    "allocator": (
        lambda run: run.log_allocator(
            {"w": 10, "cache": {"device": 1, "pinned": 2}}, step=1, gpu=3
        ),
        "log_allocator",
        {
            "step": 1,
            "id": 3,
            "stats": [
                {"name": "w", "device": 10, "pinned": 0},
                {"name": "cache", "device": 1, "pinned": 2},
            ],
        },
    ),
    "dataset": (
        lambda run: run.log_dataset("train", files=["a", Path("b")], tokens=100, seed=3),
        "log_dataset",
        {"split": "train", "files": 2, "tokens": 100, "seed": 3, "names": ["a", "b"]},
    ),
    "abs-maxes": (
        lambda run: run.log_abs_maxes(1, {"w": 2.0}),
        "log_abs_maxes",
        {"step": 1, "values": {"w": 2.0}},
    ),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_records_the_fields_people_parse(run: Run, kind: str) -> None:
    call, _, fields = CALLS[kind]
    call(run)
    (record,) = of_kind(run.dir, kind)
    assert record.pop("t") > 0
    assert record == {"log": kind, **fields}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_takes_the_record_of_a_json_log(run: Run, kind: str, tmp_path: Path) -> None:
    call, name, fields = CALLS[kind]
    path = tmp_path / "training.json"
    with epochal.TrainingRunLogger(path):
        call(run)
    (logged,) = [one for one in json.loads(path.read_text()) if one["log"] == kind]
    assert {"log", "time"} < logged.keys()
    getattr(run, name)(logged)
    getattr(run, name)(fields)
    first, second, third = [{**record, "t": 0} for record in of_kind(run.dir, kind)]
    assert first == second == third


@pytest.mark.parametrize("kind", CALLS)
def test_a_wrong_shape_raises_and_names_the_fields(run: Run, kind: str) -> None:
    _, name, fields = CALLS[kind]
    log = getattr(run, name)
    last = list(fields)[-1]
    with pytest.raises(
        UsageError, match=rf"{kind} record has no field 'unheard'\. Its fields are "
    ):
        log({**fields, "unheard": 1})
    with pytest.raises(UsageError, match="this is a record of 'metrics', not"):
        log({**fields, "log": "metrics"})
    if kind != "allocator":  # whose argument may be a list of segments
        with pytest.raises(ValueTypeError, match=rf"Its fields are .*{last.removeprefix('moe_')}"):
            log([fields])
    assert of_kind(run.dir, kind) == []


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (lambda run: run.log_step({"loss": 1.0}), "step"),
        (lambda run: run.log_epoch({"m": {}}), "epoch"),
        (lambda run: run.log_dataset({"files": 3}), "split"),
        (lambda run: run.log_sol_estimate({"blocks": 1.0}), "lm_head"),
        (lambda run: run.log_sol_estimate(blocks=1.0, attention=1.0), "lm_head"),
        (lambda run: run.log_abs_maxes(3), "values"),
    ],
)
def test_a_field_that_is_missing_is_named(run: Run, call: Call, missing: str) -> None:
    with pytest.raises(UsageError, match=f"needs the field '{missing}'. Its fields are "):
        call(run)


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.log_dataset(None),
        lambda run: run.log_dataset(""),
        lambda run: run.log_gpu_model("H200"),
        lambda run: run.log_sol_estimate(3.0),
        lambda run: run.log_step(1, moe=[("aux_loss", 1.0)]),
        lambda run: run.log_step(1, metrics=3),
        lambda run: run.log_allocator(3),
        lambda run: run.log_allocator("weights"),
        lambda run: run.log_allocator([3]),
        lambda run: run.log_allocator([{"device": 1}]),
    ],
)
def test_an_argument_of_another_type_raises(run: Run, call: Call) -> None:
    with pytest.raises(ValueTypeError):
        call(run)


def test_arguments_complete_a_mapping(run: Run) -> None:
    run.log_step({"step": 3, "loss": 2.0}, lr=1e-3, metrics={"acc": 0.5})
    run.log_moe_stats(3, {"aux_loss": 0.5, "valid": True}, z_loss=0.1)
    (step,), (moe,) = of_kind(run.dir, "step"), of_kind(run.dir, "moe")
    assert (step["step"], step["loss"], step["lr"], step["m"]) == (3, 2.0, 1e-3, {"acc": 0.5})
    assert (moe["step"], moe["aux_loss"], moe["z_loss"]) == (3, 0.5, 0.1)


@dataclass(frozen=True)
class Measured:
    aux_loss: float

    def fields(self) -> dict[str, float]:
        return {"aux_loss": self.aux_loss, "load_imbalance": 1.25}


def test_statistics_may_be_logged_as_one_object(run: Run) -> None:
    run.log_moe_stats(3, Measured(0.5), router_entropy=0.9)
    assert dict(scalars_of(of_kind(run.dir, "moe")[0])) == {
        "moe/aux_loss": 0.5,
        "moe/load_imbalance": 1.25,
        "moe/router_entropy": 0.9,
    }


def test_numbers_that_json_cannot_hold_come_back_from_a_log(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    with epochal.TrainingRunLogger(path):
        run.log_step(5, 0.5, 1000, 250.0, math.inf, math.nan, 3e-4, metrics={"x": math.nan})
        run.log_abs_maxes(5, {"w": math.inf})
    step, maxes = json.loads(path.read_text())[:2]
    run.log_step(step)
    run.log_abs_maxes(maxes)
    for record in of_kind(run.dir, "step"):
        assert record["nonfinite"] == {"norm": "inf", "loss": "nan", "x": "nan"}
        found = dict(scalars_of(record))
        assert found["train/norm"] == math.inf
        assert math.isnan(found["train/loss"])
    for record in of_kind(run.dir, "abs-maxes"):
        assert dict(scalars_of(record)) == {"abs_max/w": math.inf}


def test_what_is_not_known_is_left_out(run: Run) -> None:
    run.log_step(5, None, 1000, 0.0, None, 1.0, None)
    (record,) = of_kind(run.dir, "step")
    assert not {"epoch", "norm", "lr", "tokens_per_second", "m"} & set(record)
    assert run.step == 5


def test_numbers_of_every_library_are_taken(run: Run) -> None:
    run.log_step(np.int64(1), np.float32(0.5), 10.0, np.array(5.0), 1, 2, 3)
    run.log_eval(np.int64(1), 0.5, np.int32(10), 5.0, np.float64(2), metrics=[("acc", 0.5)])  # type: ignore[arg-type]
    assert of_kind(run.dir, "step")[0]["step_tokens"] == 10
    assert of_kind(run.dir, "eval")[0]["m"] == {"acc": 0.5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", 0.5, 10, 5.0, 1.0, 2.0, 0.1), "step"),
        ((1, 0.5, 1.5, 5.0, 1.0, 2.0, 0.1), "step_tokens=1.5 is not a whole number"),
        ((1, 0.5, 10, "long", 1.0, 2.0, 0.1), "duration_ms"),
        ((1, 0.5, 10, 5.0, 1.0, "low", 0.1), "'loss'"),
    ],
)
def test_a_step_that_cannot_be_accepted_names_the_argument(
    strict_run: Run, arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        strict_run.log_step(*arguments)
    assert of_kind(strict_run.dir, "step") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"goal": "up"}, "goal='up' of 'acc' is not known: use one of min, max"),
        ({"role": "best"}, "role='best' of 'acc' is not known: use one of loss,"),
    ],
)
def test_a_definition_that_means_nothing_is_named(
    run: Run, arguments: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        run.define("acc", **arguments)


@pytest.mark.parametrize("name", ["", None, 3])
def test_names_of_events_and_metrics_must_be_texts(strict_run: Run, name: Any) -> None:
    for call in (strict_run.event, strict_run.define):
        with pytest.raises(ValueTypeError, match="a name must be a non-empty text"):
            call(name)


def test_memory_is_recorded_in_the_places_where_there_is_any(run: Run) -> None:
    run.log_allocator([{"name": "weights", "pageable": 4}, {"name": "cache", "pinned": 2}])
    assert of_kind(run.dir, "allocator")[0]["stats"] == [
        {"name": "weights", "pinned": 0, "pageable": 4},
        {"name": "cache", "pinned": 2, "pageable": 0},
    ]


class OfOneGpu(list[Segment]):
    gpu = 3


def test_segments_that_know_their_gpu_name_it(run: Run) -> None:
    run.log_allocator(OfOneGpu([Segment("weights", device=4)]), step=2)
    (record,) = of_kind(run.dir, "allocator")
    assert (record["id"], record["step"]) == (3, 2)
    assert dict(scalars_of(record))["memory/gpu3/weights/device"] == 4


def test_a_record_that_cannot_be_stored_is_named(strict_run: Run) -> None:
    with pytest.raises(ValueTypeError, match="a custom record cannot be stored"):
        strict_run.write({"log": "custom", "t": 0.0, "x": object()})
