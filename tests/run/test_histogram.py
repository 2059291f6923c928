import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.errors import ValueTypeError
from epochal.run.run import Run, recorder_of
from tests.doubles.journals import of_kind


def histogram(run: Run, values: Any, **arguments: Any) -> dict[str, Any]:
    recorder_of(run).write_histogram("w", values, 3, **arguments)
    return of_kind(run.dir, "histogram")[-1]


def test_a_histogram_counts_every_value_once(run: Run) -> None:
    record = histogram(run, [0, 1, 1, 2, 2, 2], bins=3)
    assert record["counts"] == [1, 2, 3]
    assert (record["lo"], record["hi"], record["count"], record["step"]) == (0.0, 2.0, 6, 3)


def test_values_that_are_not_finite_are_counted_apart(run: Run) -> None:
    record = histogram(run, [1.0, math.nan, math.inf, 2.0])
    assert (record["count"], record["nonfinite_count"], sum(record["counts"])) == (2, 2, 2)


@pytest.mark.parametrize("values", [[], [math.nan], np.zeros((0, 3))])
def test_a_histogram_of_nothing_is_empty(run: Run, values: Any) -> None:
    record = histogram(run, values)
    assert (record["counts"], record["count"]) == ([], 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(), max_size=20))
def test_any_floats_make_a_histogram_without_a_warning(run: Run, values: list[float]) -> None:
    record = histogram(run, values)
    assert sum(record["counts"]) == record["count"] == sum(map(math.isfinite, values))


@pytest.mark.parametrize("values", [[1.0, 1.0 + 2**-52], [1e15], [5e-324, 0.0]])
def test_values_that_hardly_or_hugely_differ_are_binned(run: Run, values: list[float]) -> None:
    record = histogram(run, values)
    assert sum(record["counts"]) == len(values)
    assert record["lo"] <= min(values) <= max(values) <= record["hi"]


@pytest.mark.slow  # loads torch
def test_tensors_of_any_kind_make_histograms(run: Run) -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool):
        assert histogram(run, torch.ones(4, 4).to(kind))["count"] == 16
    assert histogram(run, torch.ones(3, requires_grad=True))["count"] == 3


@pytest.mark.parametrize("values", [["a", 1.0], [None], [1j]])
def test_a_histogram_takes_numbers_only(strict_run: Run, values: Any) -> None:
    with pytest.raises(ValueTypeError, match=r"^'w' must hold numbers"):
        strict_run.log({"w": values})
