import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochal.errors import UsageError, ValueTypeError
from epochal.records import scalars_of
from epochal.run.run import Run
from tests.doubles.journals import of_kind


def test_a_step_has_the_fields_people_parse_in_their_order(run: Run) -> None:
    run.log_step(5, 0.5, 1000, 250.0, 1.5, 2.5, 3e-4, norm_clipped=1.0, sol=0.4, phase="warm-up")
    (record,) = of_kind(run.dir, "step")
    del record["t"]
    assert record == {
        "log": "step",
        "step": 5,
        "epoch": 0.5,
        "step_tokens": 1000,
        "duration_ms": 250.0,
        "norm": 1.5,
        "loss": 2.5,
        "lr": 3e-4,
        "norm_clipped": 1.0,
        "tokens_per_second": 4000.0,
        "sol": 0.4,
        "phase": "warm-up",
    }
    assert run.step == 5


def test_a_step_that_went_wrong_keeps_what_it_was(run: Run) -> None:
    run.log_step(5, 0.5, 1000, 250.0, math.inf, math.nan, 3e-4, metrics={"x": math.nan})
    (record,) = of_kind(run.dir, "step")
    assert record["nonfinite"] == {"norm": "inf", "loss": "nan", "x": "nan"}
    found = dict(scalars_of(record))
    assert found["train/norm"] == math.inf
    assert math.isnan(found["train/loss"])


def test_what_is_not_known_is_left_out(run: Run) -> None:
    run.log_step(5, None, 1000, 0.0, None, 1.0, None)
    (record,) = of_kind(run.dir, "step")
    assert not {"epoch", "norm", "lr", "tokens_per_second"} & set(record)


def test_router_metrics_may_come_with_the_step(run: Run) -> None:
    run.log_step(1, 0.1, 10, 5.0, 1.0, 2.0, 0.1, moe={"aux_loss": 0.5, "moe_z_loss": 0.25})
    (record,) = of_kind(run.dir, "step")
    assert (record["moe_aux_loss"], record["moe_z_loss"]) == (0.5, 0.25)


def test_numbers_of_every_library_are_taken(run: Run) -> None:
    run.log_step(np.int64(1), np.float32(0.5), 10.0, np.array(5.0), 1, 2, 3)
    run.log_eval(np.int64(1), 0.5, np.int32(10), 5.0, np.float64(2), metrics=[("acc", 0.5)])  # type: ignore[arg-type]
    assert of_kind(run.dir, "step")[0]["step_tokens"] == 10
    assert of_kind(run.dir, "eval")[0]["m"] == {"acc": 0.5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", 0.5, 10, 5.0, 1.0, 2.0, 0.1), "step"),
        ((1, 0.5, 1.5, 5.0, 1.0, 2.0, 0.1), "tokens=1.5 is not a whole number"),
        ((1, 0.5, 10, None, 1.0, 2.0, 0.1), "duration_ms"),
        ((1, 0.5, 10, 5.0, 1.0, "low", 0.1), "'loss'"),
    ],
)
def test_a_step_that_cannot_be_accepted_names_the_argument(
    strict_run: Run, arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        strict_run.log_step(*arguments)
    assert of_kind(strict_run.dir, "step") == []


def test_the_other_typed_calls_each_leave_their_record(run: Run) -> None:
    run.log_moe_stats(1, 0.1, 0.2, 0.9, 1.5, router_entropy=0.3)
    run.log_gpu_state(1, 2, power=300_000, throttle="thermal", fan=None)
    run.log_gpu_model(name="H200", memory=1 << 37)
    run.log_sol_estimate(blocks=1.0, lm_head=2.0, attention=3.0, tps=4.0, bf16_peak=990)
    run.log_allocator({"weights": 10, "cache": {"device": 1, "pinned": 2}}, step=1)
    run.log_dataset("train", files=["a", "b"], tokens=100, seed=3)
    run.log_abs_maxes(1, {"w": math.inf})
    run.log_graph("<svg/>", parameters=3)
    run.define("acc", unit="%", goal="max", role="eval_loss")
    run.message("hello")
    with run.section("load"):
        pass
    kinds = "moe gpu gpu-model sol allocator dataset abs-maxes graph define message message"
    found = [r["log"] for kind in dict.fromkeys(kinds.split()) for r in of_kind(run.dir, kind)]
    assert sorted(found) == sorted(kinds.split())
    assert dict(scalars_of(of_kind(run.dir, "abs-maxes")[0])) == {"abs_max/w": math.inf}
    assert "fan" not in of_kind(run.dir, "gpu")[0]
    assert of_kind(run.dir, "dataset")[0]["files"] == 2


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
def test_names_of_samples_and_events_must_be_texts(strict_run: Run, name: Any) -> None:
    calls: list[Callable[[], None]] = [
        lambda: strict_run.event(name),
        lambda: strict_run.define(name),
        lambda: strict_run.log_text(name, "x"),
    ]
    for call in calls:
        with pytest.raises(ValueTypeError, match="a name must be a non-empty text"):
            call()


@pytest.mark.parametrize("stats", [3, "x", [3], [{"device": 1}], [{"name": "weights"}]])
def test_memory_that_is_no_list_of_segments_is_named(strict_run: Run, stats: Any) -> None:
    with pytest.raises(ValueTypeError, match="segment"):
        strict_run.log_allocator(stats)


def test_memory_is_told_in_the_places_where_there_is_any(run: Run) -> None:
    run.log_allocator([{"name": "weights", "pageable": 4}, {"name": "cache", "pinned": 2}])
    assert of_kind(run.dir, "allocator")[0]["stats"] == [
        {"name": "weights", "pinned": 0, "pageable": 4},
        {"name": "cache", "pinned": 2, "pageable": 0},
    ]


def test_a_reading_that_no_gpu_has_is_named(strict_run: Run) -> None:
    with pytest.raises(UsageError, match="powr= is no reading of a GPU: use clock, "):
        strict_run.log_gpu_state(1, powr=3)


@pytest.mark.parametrize("estimate", [{"blocks": 1}, 3.0])
def test_an_estimate_that_is_none_is_named(run: Run, estimate: Any) -> None:
    with pytest.raises(ValueTypeError, match=r"what epochal\.speed_of_light gives"):
        run.log_sol_estimate(estimate)


def test_a_record_that_cannot_be_stored_is_named(strict_run: Run) -> None:
    with pytest.raises(ValueTypeError, match="a custom record cannot be stored"):
        strict_run.write({"log": "custom", "t": 0.0, "x": object()})
