import math
from typing import Any

import pytest

from epochal.records import (
    KINDS,
    ROLE_GUESSES,
    Position,
    Record,
    axis_of,
    scalars_by_name,
    scalars_of,
)


def scalars(**record: Any) -> dict[str, float]:
    return dict(scalars_of(record))


@pytest.mark.parametrize(("kind", "name"), [("step", "train/loss"), ("eval", "eval/loss")])
def test_typed_losses_have_series_names_by_kind(kind: str, name: str) -> None:
    assert scalars(log=kind, step=1, loss=0.5) == {name: 0.5}


def test_telemetry_of_two_gpus_is_two_series() -> None:
    assert scalars(log="gpu", id=1, power=300) == {"gpu/1/power": 300.0}


def test_router_metrics_of_a_step_are_those_of_a_moe_record() -> None:
    in_step = scalars(log="step", step=1, moe_aux_loss=0.1)
    assert in_step == scalars(log="moe", step=1, aux_loss=0.1) == {"moe/aux_loss": 0.1}


def test_free_metrics_keep_their_names() -> None:
    assert scalars(log="metrics", step=1, m={"log": 1, "step": True}) == {"log": 1.0, "step": 1.0}


def test_nonfinite_values_come_back_as_floats() -> None:
    found = scalars(log="metrics", m={"a": None, "b": None}, nonfinite={"a": "-inf", "b": "nan"})
    assert found["a"] == -math.inf
    assert math.isnan(found["b"])


def test_a_null_without_a_word_is_no_value() -> None:
    assert scalars(log="metrics", m={"a": None, "b": "text"}) == {}


def test_memory_by_segment_is_a_series_for_each_place() -> None:
    found = scalars(log="allocator", stats=[{"name": "w", "device": 3}, "odd"])
    assert found == {"memory/w/device": 3.0}


def test_abs_maxes_may_be_nonfinite_too() -> None:
    found = scalars(log="abs-maxes", values={"w": None, "v": 1}, nonfinite={"w": "inf"})
    assert found == {"abs_max/w": math.inf, "abs_max/v": 1.0}


def test_integers_beyond_every_float_are_infinite() -> None:
    found = scalars(log="metrics", m={"a": 10**400, "b": -(10**400)})
    assert found == {"a": math.inf, "b": -math.inf}


def test_unknown_kinds_live_on_the_step_axis_when_they_have_a_step() -> None:
    assert axis_of({"log": "novel", "step": 1}) == "step"
    assert axis_of({"log": "novel"}) == "none"
    assert axis_of({}) == "none"


def test_telemetry_lives_on_the_time_axis_even_with_a_step() -> None:
    assert axis_of({"log": "gpu", "step": 1}) == "time"


def test_positions_sort_in_file_order_and_read_well() -> None:
    later, earlier = Position("loop", 2, 0, 1), Position("loop", 1, 3, 9)
    assert sorted([later, earlier]) == [earlier, later]
    assert str(later) == "loop.0002.0000.1"


def test_every_kind_is_listed_under_its_own_name() -> None:
    assert all(kind.name == name for name, kind in KINDS.items())


def test_no_name_is_guessed_for_two_roles() -> None:
    names = [name for guesses in ROLE_GUESSES.values() for name in guesses]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "record",
    [
        {"log": "metrics", "t": 1.0, "step": 1, "m": {"a": 1.5, "b": 2.0}},
        {"log": "metrics", "t": 1.0, "step": 1, "m": {"a": 1, "b": True, "c": "x", "d": 10**400}},
        {"log": "metrics", "m": {"a": None}, "nonfinite": {"a": "nan"}},
        {"log": "metrics", "m": {}},
        {"log": "metrics", "m": 3.0},
        {"log": "eval", "step": 1, "loss": 2.0, "m": {"a": 1.0}},
    ],
)
def test_scalars_by_name_are_the_scalars(record: Record) -> None:
    assert repr(scalars_by_name(record)) == repr(dict(scalars_of(record)))
