import itertools
import json
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.errors import RunFinishedError, UsageError, ValueTypeError
from epochal.exchange.media.types import Image
from epochal.records import scalars_of
from epochal.run.run import Run
from tests.doubles.journals import of_kind, records, steps


def last_metrics(run: Run) -> dict[str, Any]:
    metrics: dict[str, Any] = of_kind(run.dir, "metrics")[-1]["m"]
    return metrics


def test_a_record_holds_kind_time_step_and_metrics_in_this_order(run: Run) -> None:
    run.log({"loss": 0.5, "lr": 1}, step=3)
    (record,) = of_kind(run.dir, "metrics")
    assert list(record) == ["log", "t", "step", "m"]
    assert record["step"] == 3
    assert record["m"] == {"loss": 0.5, "lr": 1}
    assert round(record["t"], 3) == record["t"]


def test_a_record_is_there_as_soon_as_the_call_returns(run: Run) -> None:
    for step in range(5):
        run.log({"a": step})
        assert steps(run.dir)[-1] == step


def test_a_missing_step_is_the_last_one_and_one(run: Run) -> None:
    run.log({"a": 1})
    run.log({"a": 1}, step=10)
    run.log({"a": 1})
    run.log({"a": 1}, step=-5)
    run.log({"a": 1})
    assert steps(run.dir) == [0, 10, 11, -5, -4]
    assert run.step == -4


def test_steps_may_come_in_any_order(run: Run) -> None:
    for step in (5, 3, 3, 2**70, 0, -(2**70)):
        run.log({"a": 1}, step=step)
    assert steps(run.dir) == [5, 3, 3, 2**70, 0, -(2**70)]


@pytest.mark.parametrize("step", [7.0, np.int64(7), np.float32(7), np.array(7), Decimal(7)])
def test_a_step_may_be_any_whole_number(run: Run, step: Any) -> None:
    run.log({"a": 1}, step=step)
    assert steps(run.dir) == [7]


@pytest.mark.parametrize("step", [7.5, math.nan, math.inf, "7", [7], {}, b"7", 1j])
def test_a_step_that_is_no_whole_number_raises_and_is_named(strict_run: Run, step: Any) -> None:
    with pytest.raises(UsageError, match="step"):
        strict_run.log({"a": 1}, step=step)
    assert steps(strict_run.dir) == []


@pytest.mark.parametrize(
    "value",
    [
        0.25,
        np.float64(0.25),
        np.float32(0.25),
        np.float16(0.25),
        np.array(0.25),
        np.array([0.25]),
        np.array([[0.25]]),
        Decimal("0.25"),
        Fraction(1, 4),
    ],
)
def test_numbers_of_every_library_are_stored_as_numbers(run: Run, value: Any) -> None:
    run.log({"a": value})
    assert last_metrics(run) == {"a": 0.25}
    assert isinstance(last_metrics(run)["a"], float)


@pytest.mark.slow  # loads torch
def test_torch_numbers_are_stored_as_numbers(run: Run) -> None:
    torch = pytest.importorskip("torch")
    run.log({"a": torch.tensor(0.25), "b": torch.tensor([3]), "c": torch.tensor(True)})
    run.log({"a": torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True)})
    assert [r["m"] for r in of_kind(run.dir, "metrics")] == [
        {"a": 0.25, "b": 3, "c": True},
        {"a": 0.5},
    ]


def test_whole_numbers_and_switches_keep_their_types(run: Run) -> None:
    run.log({"a": np.int32(3), "b": True, "c": np.bool_(False), "d": 2**64, "e": 10**400})
    assert last_metrics(run) == {"a": 3, "b": True, "c": False, "d": 2**64, "e": 10**400}
    assert dict(scalars_of(of_kind(run.dir, "metrics")[0]))["e"] == math.inf


@pytest.mark.parametrize("nan", [math.nan, np.float32("nan"), np.array(math.nan), Decimal("NaN")])
def test_nan_is_null_and_named(run: Run, nan: Any) -> None:
    run.log({"loss": nan, "lr": 0.1})
    (record,) = of_kind(run.dir, "metrics")
    assert record["m"] == {"loss": None, "lr": 0.1}
    assert record["nonfinite"] == {"loss": "nan"}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("infinity", [math.inf, np.float64("inf"), Decimal("Infinity")])
def test_infinity_is_null_and_named(run: Run, infinity: Any, sign: int) -> None:
    run.log({"a": infinity * sign})
    run.log({"a": 1e400 * sign, "b": -1e400 * sign})
    first, second = of_kind(run.dir, "metrics")
    assert first["nonfinite"] == {"a": "inf" if sign > 0 else "-inf"}
    assert set(second["nonfinite"].values()) == {"inf", "-inf"}


def test_finite_values_whose_sum_is_not_are_stored_as_they_are(run: Run) -> None:
    run.log({"a": 1.7e308, "b": 1.7e308, "c": 5e-324})
    assert last_metrics(run) == {"a": 1.7e308, "b": 1.7e308, "c": 5e-324}
    assert "nonfinite" not in of_kind(run.dir, "metrics")[0]


def test_nested_metrics_flatten_with_dots(run: Run) -> None:
    run.log({"train": {"loss": 1.0, "inner": {"x": math.nan}}, "lr": 2})
    (record,) = of_kind(run.dir, "metrics")
    assert record["m"] == {"train.loss": 1.0, "train.inner.x": None, "lr": 2}
    assert record["nonfinite"] == {"train.inner.x": "nan"}


@pytest.mark.parametrize(
    "metrics", [OrderedDict(a=1), Counter(a=1), MappingProxyType({"a": 1}), defaultdict(int, a=1)]
)
def test_any_mapping_is_taken(run: Run, metrics: Mapping[str, float]) -> None:
    run.log(metrics)
    assert last_metrics(run) == {"a": 1}


@pytest.mark.parametrize(
    "name",
    ['"quoted"', "new\nline", "nul\0", "ünï😀", "\\", "x" * 100_000, " ", "log", "step", "t", "m"],
)
@pytest.mark.parametrize("value", [1.0, math.nan])
def test_any_name_comes_back(run: Run, name: str, value: float) -> None:
    run.log({name: value})
    assert list(last_metrics(run)) == [name]


def test_a_name_with_a_lone_surrogate_is_kept_readable(run: Run) -> None:
    run.log({"a\udcff": 1.0})
    assert last_metrics(run) == {"a\\udcff": 1.0}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(min_size=1), st.floats() | st.integers() | st.booleans(), max_size=5)
)
def test_whatever_is_logged_is_one_valid_line(run: Run, metrics: dict[str, float]) -> None:
    run.log(metrics)
    last = next((run.dir / "journal").iterdir()).read_bytes().splitlines()[-1]
    assert len(json.loads(last)["m"]) == len(metrics)


def test_ten_thousand_metrics_in_a_call(run: Run) -> None:
    metrics = {f"layer.{n}.weight": n / 7 for n in range(10_000)}
    run.log(metrics)
    assert last_metrics(run) == metrics


def test_whole_numbers_are_names_whatever_the_values(run: Run) -> None:
    run.log({1: 0.5})  # type: ignore[dict-item]
    run.log({1: math.nan})  # type: ignore[dict-item]
    assert [list(r["m"]) for r in of_kind(run.dir, "metrics")] == [["1"], ["1"]]


@pytest.mark.parametrize(
    "metrics", [{"": 1.0}, {"": math.nan}, {"a": {"": 1}}, {None: 1}, {(1,): 2}]
)
def test_a_name_must_be_a_text_that_is_not_empty(strict_run: Run, metrics: Any) -> None:
    with pytest.raises(ValueTypeError, match="a name must be a non-empty text"):
        strict_run.log(metrics)
    assert steps(strict_run.dir) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "of type NoneType, not a number"),
        ((), "of type tuple, not a number"),
        (b"x", "of type bytes, not a number"),
        (np.zeros(0), "holds 0 values"),
        (1j, "of type complex, not a number"),
        (timedelta(1), "of type timedelta, not a number"),
        (object(), "of type object, not a number"),
    ],
)
def test_what_is_no_number_raises_at_once_and_is_named(
    strict_run: Run, value: Any, words: str
) -> None:
    with pytest.raises(TypeError, match=rf"metric 'acc'.*{words}"):
        strict_run.log({"ok": 1.0, "acc": value})
    assert steps(strict_run.dir) == []


@pytest.mark.parametrize("metrics", [3, "loss", None, [("a", 1)], {"a"}])
def test_log_takes_a_mapping_only(run: Run, metrics: Any) -> None:
    with pytest.raises(ValueTypeError, match=r"log\(\) takes a dict of names and numbers"):
        run.log(metrics)


def test_an_empty_dict_is_a_step_without_metrics(run: Run) -> None:
    run.log({})
    assert last_metrics(run) == {}


def test_logging_after_the_end_raises_and_says_what_to_do(run: Run) -> None:
    run.finish()
    calls: list[Callable[[], None]] = [
        lambda: run.log({"a": 1}),
        lambda: run.log({"a": "b"}),
        lambda: run.message("a"),
        lambda: run.log({"a": Image(b"GIF89a")}),
        lambda: run.event("a"),
    ]
    for call in calls:
        with pytest.raises(RunFinishedError, match=r"is finished: start another.*resume='must'"):
            call()
    assert [record["log"] for record in records(run.dir)] == ["run", "finish"]


def test_a_clock_that_goes_back_changes_nothing_but_the_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step, seconds in enumerate((2_000_000_000, 1_000_000_000, 0)):
        clock = itertools.repeat(seconds * 10**9)
        monkeypatch.setattr("epochal.run.run._time_ns", clock.__next__)
        run.log({"a": 1}, step=step)
    found = of_kind(run.dir, "metrics")
    assert [r["step"] for r in found] == [0, 1, 2]
    assert [r["t"] for r in found] == [2e9, 1e9, 0]
