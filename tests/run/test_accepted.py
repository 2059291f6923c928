"""No call of a loop raises for a value: good values are kept, bad ones noted once for each name."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import epochal
from epochal.errors import RunFinishedError, UsageError, ValueTypeError
from epochal.exchange.media.types import Image
from epochal.run.accepted import MAX_NAMES
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run, recorder_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, records, steps


class Broken:
    """A value each of whose methods raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("broken")

    def __float__(self) -> float:
        raise ZeroDivisionError("broken")

    def __str__(self) -> str:
        raise ValueError("broken")

    __repr__ = __str__


def cyclic() -> dict[str, Any]:
    loop: dict[str, Any] = {"inner": 1.0}
    loop["self"] = loop
    loop["again"] = loop
    return loop


def deep(levels: int = 5000) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for _ in range(levels):
        metrics = {"in": metrics}
    return metrics


def deep_list(levels: int = 5000) -> list[Any]:
    values: list[Any] = []
    for _ in range(levels):
        values = [values]
    return values


# Neither a number, nor a text, nor many numbers.
REFUSED: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "bytes": lambda: b"x",
    "set": lambda: {1, 2},
    "complex": lambda: 1j,
    "object": object,
    "type": lambda: int,
    "timedelta": lambda: timedelta(1),
    "list of texts and numbers": lambda: ["a", 1.0],
    "list of lists of texts": lambda: [["a"], ["b"]],
    "list of none": lambda: [1.0, None],
    "empty list": list,
    "empty array": lambda: np.zeros(0),
    "array of texts": lambda: np.array(["a", "b"]),
    "array of complex": lambda: np.array([1j, 2j]),
    "deep list": deep_list,
    "enormous": lambda: 10**5000,
    "broken": Broken,
}
MANY: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, 2.5],
    "tuple": lambda: (1, 2),
    "nested": lambda: [[1, 2], [3]],
    "array": lambda: np.arange(6.0).reshape(2, 3),
    "bools": lambda: np.array([True, False]),
    "range": lambda: range(3),
    "array.array": lambda: array("d", [1.0, 2.0]),
    "list of arrays": lambda: [np.arange(3), 4],
    "nan": lambda: [math.nan, math.nan],
}
NUMBERS: dict[str, Callable[[], Any]] = {
    "nan": lambda: math.nan,
    "inf": lambda: -math.inf,
    "huge": lambda: 10**400,
    "decimal": lambda: Decimal("0.5"),
    "numpy": lambda: np.float32(0.5),
    "bool": lambda: True,
}


BAD = {**REFUSED, **MANY, "text": lambda: "high", "cyclic": cyclic, "deep": deep}
# In place of a number a list or a mapping is a wrong shape for the first argument of a typed call.
VALUES = {
    name: make for name, make in BAD.items() if not isinstance(make(), (list, tuple, set, dict))
}


@pytest.fixture(params=[False, True], ids=["silent", "shown"])
def run(start_run: StartRun, request: pytest.FixtureRequest) -> Run:
    return start_run(console=request.param)


def notes(run: Run) -> list[str]:
    """The names of the values that were left out, as the events have them."""
    events = of_kind(run.dir, "event")
    return [event["name_of"] for event in events if event["name"] == "value-dropped"]


# -- log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_recorded_is_left_out_and_noted_once(
    run: Run, make: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for step in range(3):
        run.log({"before": 1.0, "acc": make(), "after": 2.0}, step=step)
    assert [r["m"] for r in of_kind(run.dir, "metrics")] == [{"before": 1.0, "after": 2.0}] * 3
    assert notes(run) == ["acc"]
    assert capsys.readouterr().err.count("Reported once for 'acc'") == 1
    assert recorder_of(run).values.dropped == {"acc": 3}


def test_a_text_becomes_a_text_record(run: Run) -> None:
    for step in range(2):
        run.log({"loss": 1.0, "sample": "once upon", "lr": 0.1}, step=step)
    assert [r["m"] for r in of_kind(run.dir, "metrics")] == [{"loss": 1.0, "lr": 0.1}] * 2
    texts = [(r["step"], r["name"], r["text"]) for r in of_kind(run.dir, "text")]
    assert texts == [(0, "sample", "once upon"), (1, "sample", "once upon")]
    assert notes(run) == []


@pytest.mark.parametrize("make", MANY.values(), ids=MANY.keys())
def test_many_numbers_become_a_histogram(run: Run, make: Callable[[], Any]) -> None:
    for step in range(2):
        run.log({"loss": 1.0, "w": make()}, step=step)
    assert [r["m"] for r in of_kind(run.dir, "metrics")] == [{"loss": 1.0}] * 2
    first, second = of_kind(run.dir, "histogram")
    assert (first["name"], first["step"], second["step"]) == ("w", 0, 1)
    assert first["count"] + first.get("nonfinite_count", 0) == len(np.ravel(_row(make())))
    assert notes(run) == []


@pytest.mark.parametrize("texts", [["a", "b c"], ("a", "b c"), list(np.array(["a", "b c"]))])
def test_the_texts_of_a_list_are_the_lines_of_one_text(run: Run, texts: Any) -> None:
    run.log({"loss": 1.0, "samples": texts}, step=3)
    (text,) = of_kind(run.dir, "text")
    assert (text["name"], text["step"], text["text"]) == ("samples", 3, "a\nb c")
    assert notes(run) == []


def test_no_sentence_names_a_histogram_that_nobody_asked_for(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.log({"a": ["a", 1.0], "b": [1.0, "b"], "c": np.array(["c"]), "d": [1.0, None]})
    said = capsys.readouterr().err
    assert said.count("must hold numbers, not") == 4
    assert "histogram" not in said


def _row(values: Any) -> list[float]:
    if isinstance(values, (list, tuple)):
        return [number for value in values for number in _row(value)]
    return [float(number) for number in np.ravel(values)]


@pytest.mark.slow  # loads torch
def test_tensors_of_the_host_become_histograms_and_single_ones_numbers(run: Run) -> None:
    torch = pytest.importorskip("torch")
    weights = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).requires_grad_()
    losses = [torch.tensor(1.0, requires_grad=True), torch.tensor(3.0)]
    run.log({"a": torch.tensor(0.5), "w": weights, "losses": losses, "t": weights.T})
    assert of_kind(run.dir, "metrics")[0]["m"] == {"a": 0.5}
    found = {r["name"]: (r["count"], r["min"], r["max"]) for r in of_kind(run.dir, "histogram")}
    assert found == {"w": (6, 0.0, 5.0), "losses": (2, 1.0, 3.0), "t": (6, 0.0, 5.0)}


@pytest.mark.slow  # loads torch
def test_tensors_that_hold_no_numbers_are_left_out(run: Run) -> None:
    torch = pytest.importorskip("torch")
    run.log({"m": torch.empty(3, device="meta"), "s": torch.eye(2).to_sparse(), "ok": 1.0})
    run.log({"one": torch.empty((), device="meta"), "c": torch.tensor(1j), "ok": 2.0})
    assert [r["m"] for r in of_kind(run.dir, "metrics")] == [{"ok": 1.0}, {"ok": 2.0}]
    assert set(notes(run)) == {"m", "s", "one", "c"}


@pytest.mark.parametrize("shape", [(1_200_000, 1), (64, 32_000), (32_000, 64)])
def test_of_more_than_a_million_values_some_are_counted_evenly(
    start_run: StartRun, shape: tuple[int, int]
) -> None:
    run = start_run()
    values = np.tile(np.arange(shape[1]), (shape[0], 1)) / shape[1]
    run.log({"w": values})
    (record,) = of_kind(run.dir, "histogram")
    assert record["count"] == 999_983
    assert record["sampled_from"] == values.size
    # Every column has its share: the sample is not in step with the rows.
    assert record["mean"] == pytest.approx(values.mean(), abs=1e-3)
    assert record["std"] == pytest.approx(values.std(), abs=1e-3)


@pytest.mark.slow  # loads torch
def test_a_tensor_of_more_than_a_million_values_is_sampled_too(start_run: StartRun) -> None:
    torch = pytest.importorskip("torch")
    run = start_run()
    run.log({"w": torch.arange(2_000_000.0).reshape(1000, 2000).T})
    (record,) = of_kind(run.dir, "histogram")
    assert (record["count"], record["sampled_from"]) == (999_983, 2_000_000)


@pytest.mark.parametrize("make", NUMBERS.values(), ids=NUMBERS.keys())
def test_odd_numbers_are_numbers(run: Run, make: Callable[[], Any]) -> None:
    run.log({"a": make(), "b": 1.0})
    assert set(of_kind(run.dir, "metrics")[0]["m"]) == {"a", "b"}
    assert notes(run) == []


def test_a_dict_that_holds_itself_keeps_the_values_that_are_its_own(run: Run) -> None:
    run.log({"ok": 1.0, "loop": cyclic()})
    assert of_kind(run.dir, "metrics")[0]["m"] == {"ok": 1.0, "loop.inner": 1.0}
    assert notes(run) == ["loop.self", "loop.again"]


def test_a_dict_that_is_very_deep_is_left_out(run: Run) -> None:
    run.log({"ok": 1.0, "deep": deep()})
    assert of_kind(run.dir, "metrics")[0]["m"] == {"ok": 1.0}
    assert len(notes(run)) == 1


def test_a_cyclic_dict_is_left_out_at_the_root_too(run: Run) -> None:
    run.log(cyclic())
    assert of_kind(run.dir, "metrics")[0]["m"] == {"inner": 1.0}


@pytest.mark.parametrize(
    ("step", "written"),
    [
        (7.0, 7),
        ("7", 4),
        (np.int64(9), 9),
        (Decimal(7), 7),
        (7.5, 4),
        (math.nan, 4),
        (math.inf, 4),
        ("soon", 4),
        (b"7", 4),
        ([7], 4),
        ({}, 4),
        (1j, 4),
    ],
)
def test_a_step_is_read_where_it_is_exact_and_else_the_next_one(
    start_run: StartRun, step: Any, written: int
) -> None:
    run = start_run()
    run.log({"a": 1}, step=3)
    run.log({"a": 1}, step=step)
    run.log({"a": 1})
    assert steps(run.dir) == [3, written, written + 1]


def test_a_step_that_cannot_be_read_is_said_once(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        run.log({"a": 1}, step=math.nan)  # type: ignore[arg-type]
    assert steps(run.dir) == [0, 1, 2]
    assert notes(run) == ["step="]
    assert capsys.readouterr().err.count("'step='") == 1


@pytest.mark.slow  # loads torch
def test_a_tensor_may_be_a_step(run: Run) -> None:
    torch = pytest.importorskip("torch")
    run.log({"a": 1}, step=torch.tensor(7))
    run.log({"a": 1}, step=torch.tensor([1, 2]))
    assert steps(run.dir) == [7, 8]


@pytest.mark.parametrize(
    ("name", "written"),
    [(3, "3"), (("a", 1), "('a', 1)"), (2.5, "2.5"), (np.str_("x"), "x"), (None, None), ("", None)],
)
def test_a_name_is_its_text_and_an_empty_one_drops_the_value(
    run: Run, name: Any, written: str | None
) -> None:
    run.log({"ok": 1.0, name: math.nan})
    expected = ["ok"] if written is None else ["ok", written]
    assert list(of_kind(run.dir, "metrics")[0]["m"]) == expected


def test_a_name_whose_text_raises_drops_the_value(run: Run) -> None:
    run.log({"ok": 1.0, Broken(): 2.0, object(): 3.0})  # type: ignore[dict-item]
    assert of_kind(run.dir, "metrics")[0]["m"] == {"ok": 1.0}


def test_bad_values_of_ever_new_names_are_told_together_after_a_while(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in range(3 * MAX_NAMES):
        run.log({f"name{step}": None, "ok": 1.0})
    assert len(notes(run)) == MAX_NAMES + 1
    assert capsys.readouterr().err.count("Reported once") == MAX_NAMES + 1
    assert sum(recorder_of(run).values.dropped.values()) == 3 * MAX_NAMES


def test_the_end_of_a_run_says_how_often(run: Run) -> None:
    for _ in range(5):
        run.log({"a": None, "c": 1.0})
    run.finish()
    (counts,) = [e for e in of_kind(run.dir, "event") if e["name"] == "value-counts"]
    assert counts["dropped"] == {"a": 5}
    assert records(run.dir)[-1]["log"] == "finish"


def test_an_event_says_what_was_passed_and_where(run: Run) -> None:
    run.log({"a": 1j}, step=7)
    (event,) = of_kind(run.dir, "event")
    assert (event["step"], event["type"]) == (7, "complex")
    assert event["reason"] == "metric 'a' is of type complex, not a number."


@pytest.mark.parametrize("metrics", [3, "loss", None, [("a", 1)], {"a"}])
@pytest.mark.parametrize("strict", [False, True])
def test_metrics_that_are_no_mapping_raise_at_once(
    start_run: StartRun, metrics: Any, strict: bool
) -> None:
    with pytest.raises(ValueTypeError, match=r"log\(\) takes a dict of names and numbers"):
        start_run(strict=strict).log(metrics)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.builds(Broken)
    | st.just(np.arange(3)),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner)
    ),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(anything, anything)
def test_no_value_and_no_step_raises(start_run: StartRun, value: Any, step: Any) -> None:
    run = OPEN_RUNS.newest or start_run()
    run.log({"ok": 1.0, "value": value}, step)
    last = next((run.dir / "journal").iterdir()).read_bytes().splitlines()[-20:]
    assert any(b'"ok":1.0' in line for line in last)


# -- every other call -----------------------------------------------------------------------------

Call = Callable[[Run, Any], object]
# Each passes the value beside good ones; the kind of record that must be there nevertheless.
FIELDS: dict[str, tuple[str, Call]] = {
    "log_step loss": ("step", lambda run, v: run.log_step(1, 0.5, 10, 5.0, 1.0, v, 0.1)),
    "log_step step": ("step", lambda run, v: run.log_step(v, 0.5, 10, 5.0, 1.0, 2.0, 0.1)),
    "log_step tokens": ("step", lambda run, v: run.log_step(1, 0.5, v, 5.0, 1.0, 2.0, 0.1)),
    "log_step duration": ("step", lambda run, v: run.log_step(1, 0.5, 10, v, 1.0, 2.0, 0.1)),
    "log_step sol": ("step", lambda run, v: run.log_step(1, 0.5, 10, 5.0, 1.0, 2.0, 0.1, sol=v)),
    "log_step phase": (
        "step",
        lambda run, v: run.log_step(1, 0.5, 10, 5.0, 1.0, 2.0, 0.1, phase=v),
    ),
    "log_step moe": (
        "step",
        lambda run, v: run.log_step(1, 0.5, 10, 5.0, 1.0, 2.0, 0.1, moe={"aux_loss": v}),
    ),
    "log_step metrics": (
        "step",
        lambda run, v: run.log_step(1, 0.5, 10, 5.0, 1.0, 2.0, 0.1, metrics={"x": v}),
    ),
    "log_eval loss": ("eval", lambda run, v: run.log_eval(1, 0.5, 10, 5.0, v)),
    "log_eval epoch": ("eval", lambda run, v: run.log_eval(1, v, 10, 5.0, 1.0)),
    "log_eval step": ("eval", lambda run, v: run.log_eval(v, 0.5, 10, 5.0, 1.0)),
    "log_eval metrics": (
        "eval",
        lambda run, v: run.log_eval(1, 0.5, 10, 5.0, 1.0, metrics={"acc": v, "ok": 1.0}),
    ),
    "log_epoch epoch": ("epoch", lambda run, v: run.log_epoch(v, 1.0, {"loss": 1.0})),
    "log_epoch duration": ("epoch", lambda run, v: run.log_epoch(1, v, {"loss": 1.0})),
    "log_epoch metrics": ("epoch", lambda run, v: run.log_epoch(1, 1.0, {"loss": v})),
    "log_epoch resources": (
        "epoch",
        lambda run, v: run.log_epoch(1, 1.0, {"loss": 1.0}, resources={"cpu_pct": v}),
    ),
    "log_moe_stats": ("moe", lambda run, v: run.log_moe_stats(1, v, 0.1, router_entropy=0.5)),
    "log_moe_stats step": ("moe", lambda run, v: run.log_moe_stats(v, 0.1)),
    "log_gpu_state": ("gpu", lambda run, v: run.log_gpu_state(1, 0, power=v, clock=1500)),
    "log_gpu_model": ("gpu-model", lambda run, v: run.log_gpu_model(name="H200", memory=v)),
    "log_allocator": ("allocator", lambda run, v: run.log_allocator({"weights": 4, "cache": v})),
    "log_dataset": ("dataset", lambda run, v: run.log_dataset("train", files=3, tokens=v)),
    "log_abs_maxes": ("abs-maxes", lambda run, v: run.log_abs_maxes(1, {"w": 2.0, "v": v})),
    "event": ("event", lambda run, v: run.event("saved", path=v, ok=1)),
    "message": ("message", lambda run, v: run.message(v)),
    "config.update": ("option", lambda run, v: run.config.update({"a": v, "b": 1})),
    "image step": ("blob", lambda run, v: run.log({"a": Image(b"GIF89a")}, v)),
    "image caption": ("blob", lambda run, v: run.log({"a": Image(b"GIF89a", caption=v)}, 1)),
    "write": ("custom", lambda run, v: run.write({"log": "custom", "t": 1.0, "x": v})),
}


# Each passes the value as the only thing there is, or as its name.
def _timed(run: Run, name: Any) -> None:
    with run.section(name):
        pass


WHOLES: dict[str, Call] = {
    "image": lambda run, v: run.log({"picture": Image(v)}),
    "log_graph": lambda run, v: run.log_graph(v),
    "log_gpu_state": lambda run, v: run.log_gpu_state(1, v, clock=1500),
    "log_sol_estimate": lambda run, v: run.log_sol_estimate(
        blocks=1.0, lm_head=1.0, attention=1.0, tps=v
    ),
    "event": lambda run, v: run.event(v),
    "phase": lambda run, v: run.phase(v).__enter__(),
    "section": _timed,
    "dataset": lambda run, v: run.log_dataset("train", files=v),
    "log": lambda run, v: run.log({"a": v}),
    "epochal.log": lambda run, v: epochal.log({"a": v}, v),
}


@pytest.mark.parametrize(("kind", "call"), FIELDS.values(), ids=FIELDS.keys())
def test_a_call_keeps_its_good_values_beside_a_bad_one(
    start_run: StartRun, kind: str, call: Call
) -> None:
    run = start_run(console=True, verbosity="verbose")
    for make in VALUES.values():
        before = len(of_kind(run.dir, kind))
        call(run, make())
        assert len(of_kind(run.dir, kind)) > before
    told = notes(run)
    assert len(told) == len(set(told))
    run.finish()
    assert records(run.dir)[-1]["log"] == "finish"


@pytest.mark.parametrize("call", WHOLES.values(), ids=WHOLES.keys())
def test_a_call_raises_for_no_value(start_run: StartRun, call: Call) -> None:
    run = start_run(console=True, verbosity="verbose")
    for make in BAD.values():
        call(run, make())
    told = notes(run)
    assert len(told) == len(set(told))
    run.log({"still": 1.0}, step=3)
    run.finish()
    assert of_kind(run.dir, "metrics")[-1]["m"] == {"still": 1.0}


def test_a_text_and_an_array_in_place_of_a_number_are_left_out(run: Run) -> None:
    run.log_step(1, 0.5, 10, 5.0, "none", [1.0, 3.0], 0.1)  # type: ignore[arg-type]
    (step,) = of_kind(run.dir, "step")
    assert not {"norm", "loss"} & step.keys()
    assert step["lr"] == 0.1
    assert notes(run) == ["train/norm", "train/loss"]


def test_a_step_without_a_readable_step_is_the_next_one(run: Run) -> None:
    run.log_step(4, 0.5, 10, 5.0, 1.0, 2.0, 0.1)
    run.log_step(math.nan, 0.5, 10, 5.0, 1.0, 2.0, 0.1)
    run.log_eval("soon", 0.5, 10, 5.0, 2.0)  # type: ignore[arg-type]
    assert [r["step"] for r in of_kind(run.dir, "step")] == [4, 5]
    assert of_kind(run.dir, "eval")[0]["step"] == 5


def test_one_bad_place_of_a_segment_leaves_the_others(run: Run) -> None:
    bad = {"name": "cache", "device": None}
    run.log_allocator([{"name": "weights", "device": 4, "pinned": "many"}, bad])
    assert of_kind(run.dir, "allocator")[0]["stats"] == [{"name": "weights", "device": 4}]


def test_a_place_that_holds_nothing_is_kept_where_it_is_given(run: Run) -> None:
    run.log_allocator([{"name": "w", "device": 4, "managed": 0, "pinned": 2, "pageable": 0}])
    assert of_kind(run.dir, "allocator")[0]["stats"] == [
        {"name": "w", "device": 4, "managed": 0, "pinned": 2, "pageable": 0}
    ]


STRICT: dict[str, Call] = {
    "log": lambda run, v: run.log({"a": v}),
    "log nested": lambda run, v: run.log({"a": {"b": v}}),
    "log step": lambda run, v: run.log({"a": 1}, v),
    "log_step": lambda run, v: run.log_step(1, 0.5, 10, 5.0, 1.0, v, 0.1),
    "log_eval": lambda run, v: run.log_eval(1, 0.5, v, 5.0, 1.0),
    "log_eval metrics": lambda run, v: run.log_eval(1, 0.5, 10, 5.0, 1.0, metrics={"a": v}),
    "log_epoch": lambda run, v: run.log_epoch(1, 1.0, {"a": v}),
    "log_moe_stats": lambda run, v: run.log_moe_stats(1, 0.1, router_entropy=v),
    "log_gpu_state": lambda run, v: run.log_gpu_state(1, 0, power=v),
    "log_abs_maxes": lambda run, v: run.log_abs_maxes(1, {"w": v}),
    "image": lambda run, v: run.log({"w": Image(v)}),
    "log_graph": lambda run, v: run.log_graph(v),
    "log_allocator": lambda run, v: run.log_allocator({"w": v}),
}


@pytest.mark.parametrize("make", [complex, object, set, Broken])
@pytest.mark.parametrize("call", STRICT.values(), ids=STRICT.keys())
def test_a_strict_run_raises(strict_run: Run, call: Call, make: Callable[[], Any]) -> None:
    with pytest.raises((UsageError, ZeroDivisionError, RuntimeError)):
        call(strict_run, make())
    assert notes(strict_run) == []


@pytest.mark.parametrize("make", [cyclic, deep])
def test_a_strict_run_names_what_is_nested_too_deeply(
    strict_run: Run, make: Callable[[], Any]
) -> None:
    with pytest.raises(ValueTypeError, match="nested too deeply"):
        strict_run.log({"a": make()})


def test_the_environment_makes_runs_strict(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_STRICT", "1")
    with pytest.raises(ValueTypeError, match="metric 'a' is of type NoneType"):
        start_run().log({"a": None})
    start_run(strict=False).log({"a": None})


AFTER = {**STRICT, **{name: call for name, call in WHOLES.items() if name != "phase"}}


@pytest.mark.parametrize("call", AFTER.values(), ids=AFTER.keys())
def test_a_finished_run_raises_at_once_whatever_the_value(start_run: StartRun, call: Call) -> None:
    run = start_run()
    run.finish()
    with pytest.raises(RunFinishedError):
        call(run, object())
