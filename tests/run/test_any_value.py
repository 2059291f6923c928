"""No value that a program passes raises into it, and what it passes beside that value is recorded.

The values are made here: every layout and data type that the installed torch and NumPy have, and
objects that raise when one of their attributes or special methods is used. The calls are those of
the public ``Run``, so that a new one is covered.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.errors import EpochalError
from epochal.journal.line import decode_whole
from epochal.run.run import Run, recorder_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

torch = pytest.importorskip("torch")

# They start processes, or write files and runs of their own.
NOT_ABOUT_VALUES = {"serve", "save_html", "fork", "flush", "files"}
# What a parameter gets that another parameter of the same call is tried with.
GOOD: dict[str, Any] = {
    "metrics": {"loss": 1.0},
    "step": 1,
    "epoch": 1,
    "stats": {"weights": 1.0},
    "values": {"loss": 1.0},
    "record": {"log": "text", "t": 1.0, "step": 1, "name": "sample", "text": "words"},
    "call": lambda: None,
}
SPECIAL_METHODS = (
    "__float__ __int__ __index__ __bool__ __len__ __iter__ __getitem__ __array__ __repr__ __str__"
    " __eq__ __hash__ __radd__ __fspath__ __contains__ __format__"
).split()


class OddError(Exception):
    """Neither of the exceptions of Python, nor with a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


class ArrayLike:
    """Looks like an array, a tensor, a picture, a figure and a data frame at once."""

    def __init__(self) -> None:
        self.array = np.zeros((3, 8, 8))

    def __getattr__(self, name: str) -> Any:
        if name in ("getbands", "savefig", "itertuples", "columns", "fields", "detach"):
            raise AttributeError(name)
        return getattr(self.array, name)

    def __array__(self, *args: Any, **options: Any) -> Any:
        return self.array

    def __float__(self) -> float:
        return 1.0


def attributes_that_are_read(run: Run) -> set[str]:
    """The attributes of an array-like object that the calls of a run ask for."""
    asked: set[str] = set()

    class Watched(ArrayLike):
        def __getattribute__(self, name: str) -> Any:
            asked.add(name)
            return super().__getattribute__(name)

    for call in calls(run):
        with contextlib.suppress(EpochalError):
            call(Watched())
    return asked


def raising_at(name: str, error: type[BaseException]) -> Any:
    """An array-like object one of whose attributes raises."""

    class Raising(ArrayLike):
        def __getattribute__(self, asked: str) -> Any:
            if asked == name:
                raise error
            return super().__getattribute__(asked)

    return Raising()


def raising_in(name: str, error: type[BaseException], base: type = object) -> Any:
    """An object one of whose special methods raises."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        raise error

    hashed = {} if name == "__hash__" else {"__hash__": object.__hash__}
    return type("Raising", (base,), {**hashed, name: method})()


def tensors() -> Iterator[Any]:
    """A tensor of every data type, layout and kind that can be made here."""
    kinds = [kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)]
    dense = torch.eye(4)
    makers: list[Callable[[], Any]] = [
        *(lambda kind=kind, n=n: torch.zeros(n, 8, 8).to(kind) for kind in kinds for n in (1, 3)),
        *(lambda kind=kind: torch.zeros((), dtype=kind) for kind in kinds),
        *(lambda kind=kind: torch.empty(3, dtype=kind, device="meta") for kind in kinds),
        dense.to_sparse_coo,
        dense.to_sparse_csr,
        dense.to_sparse_csc,
        lambda: dense.to_sparse_bsr((2, 2)),
        lambda: dense.to_sparse_bsc((2, 2)),
        dense.to_mkldnn,
        lambda: dense.clone().requires_grad_() * 2,
        lambda: dense.clone().as_subclass(type("Sub", (torch.Tensor,), {})),
        lambda: torch.nn.Parameter(dense.clone()),
        lambda: torch.view_as_complex(torch.zeros(4, 2)).conj(),
        lambda: torch._neg_view(dense),
        lambda: torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8),
        lambda: torch.quantize_per_channel(dense, torch.ones(4), torch.zeros(4), 0, torch.quint8),
        *(
            lambda layout=layout: torch.nested.nested_tensor(
                [torch.zeros(2), torch.zeros(3)], layout=layout
            )
            for layout in (torch.strided, torch.jagged)
        ),
        fake_tensor,
        functional_tensor,
    ]
    for make in makers:
        with contextlib.suppress(RuntimeError, NotImplementedError, TypeError, AttributeError):
            yield make()


def fake_tensor() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(3)


def functional_tensor() -> Any:
    return torch._to_functional_tensor(torch.zeros(3))


def arrays() -> Iterator[Any]:
    for code in sorted(np.typecodes["All"]):
        kind = np.dtype("M8[s]") if code == "M" else np.dtype("m8[s]") if code == "m" else code
        yield np.zeros((2, 3), dtype=kind)
        yield np.zeros((), dtype=kind)[()]
    yield np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])
    yield np.ma.masked_array([1.0, 2.0], mask=[True, False])
    yield np.array([object(), None], dtype=object)
    yield np.lib.stride_tricks.as_strided(np.zeros(1), shape=(1 << 10,), strides=(0,))


def objects(attributes: set[str]) -> Iterator[Any]:
    for error in (RuntimeError, RecursionError, OddError, MemoryError, StopIteration):
        for name in sorted(attributes) if error in (RuntimeError, OddError) else ["shape"]:
            yield raising_at(name, error)
        for name in SPECIAL_METHODS:
            yield raising_in(name, error)
            yield raising_in(name, error, ArrayLike)
        for name in ("__float__", "__radd__", "__mul__", "__format__"):
            yield raising_in(name, error, float)
        for name in ("items", "keys", "values", "__iter__", "__len__", "__contains__", "__str__"):
            yield type("Raising", (dict,), {name: _raiser(error)})(a=1.0)
        for name in ("__iter__", "__len__", "__getitem__"):
            yield type("Raising", (list,), {name: _raiser(error)})([1.0])


def _raiser(error: type[BaseException]) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        raise error

    return method


def calls(run: Run) -> list[Callable[[Any], object]]:
    """Every public call of a run with a value in place of each of its parameters, and inside."""
    made: list[Callable[[Any], object]] = []
    for name, method in inspect.getmembers(Run, inspect.isfunction):
        if name.startswith("_") or name in NOT_ABOUT_VALUES | {"finish", "log", "on_finish"}:
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        needed = {p.name: GOOD.get(p.name, "words") for p in parameters if p.default is p.empty}
        made.extend(_call(run, method, parameters, needed, tried) for tried in parameters)
    for mapping in (run.summary, run.config):
        made.append(partial(mapping.__setitem__, "name"))
        made.append(partial(_update, mapping))
        made.append(partial(setattr, mapping, "name"))
    kinds = (epochal.Image, epochal.Audio, epochal.Video, epochal.Table, epochal.Html)
    made.extend(partial(_log_sample, run, kind) for kind in kinds)
    made.append(lambda value: run.log({"loss": 1.0}, value))
    return made


def _update(mapping: Any, value: Any) -> None:
    mapping.update({"name": value})


def _log_sample(run: Run, kind: Callable[[Any], Any], value: Any) -> None:
    run.log({"sample": kind(value)})


def _call(
    run: Run,
    method: Callable[..., Any],
    parameters: list[inspect.Parameter],
    needed: dict[str, Any],
    tried: inspect.Parameter,
) -> Callable[[Any], object]:
    def call(value: Any) -> object:
        by_name = {**needed, tried.name: value}
        first: list[Any] = []
        more: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.name not in by_name:
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                more["own"] = by_name[parameter.name]
            elif parameter.kind is parameter.KEYWORD_ONLY:
                more[parameter.name] = by_name[parameter.name]
            elif len(first) == parameters.index(parameter):
                first.append(by_name[parameter.name])
            else:
                more[parameter.name] = by_name[parameter.name]
        return method(run, *first, **more)

    return call


def in_every_place(value: Any) -> Iterator[Any]:
    yield value
    yield [value]
    yield [1.0, value]
    yield {"inner": value}
    with contextlib.suppress(Exception):
        yield {value: 1.0}


def has_no_room(error: RecursionError) -> bool:
    """Whether the program had no room left for a call of anything."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/src/epochal/" in f.filename]
    return len(frames) <= 1 or frames[1].name == "call_with_room"


def near_the_limit(call: Callable[[], object], errors: list[RecursionError]) -> int:
    """Make a call at each of the last hundred depths of recursion; returns the height above."""
    try:
        height = near_the_limit(call, errors)
    except RecursionError:
        height = 0
    try:
        if height < 100:
            call()
    except RecursionError as error:
        if height > 3 and not has_no_room(error):
            errors.append(error)
    return height + 1


def lines(run: Run) -> list[bytes]:
    parts = (run.dir / "journal").iterdir()
    return [line for part in parts for line in part.read_bytes().splitlines()]


@pytest.fixture
def run(start_run: StartRun) -> Run:
    warnings.simplefilter("ignore")
    return start_run(redact=True)


@pytest.fixture
def values(run: Run) -> list[Any]:
    return [*tensors(), *arrays(), *objects(attributes_that_are_read(run))]


def test_no_value_raises_out_of_log_and_the_loss_beside_it_is_recorded(
    run: Run, values: list[Any]
) -> None:
    count = len(of_kind(run.dir, "metrics"))
    for value in values:
        for placed in in_every_place(value):
            run.log({"first": 1.0, "value": placed, "loss": 2.0})
            count += 1
    recorded = [r for r in of_kind(run.dir, "metrics") if "loss" in r["m"] and "first" in r["m"]]
    assert len(recorded) >= len(values) * 4
    assert len(of_kind(run.dir, "metrics")) == count
    assert all(decode_whole(line) is not None for line in lines(run))
    assert recorder_of(run).guard.faults == {}


def test_no_value_raises_out_of_any_other_call(run: Run, values: list[Any]) -> None:
    for call in calls(run):
        for value in values:
            with contextlib.suppress(EpochalError):  # a wrong argument
                call(value)
    run.log({"loss": 3.0})
    assert of_kind(run.dir, "metrics")[-1]["m"] == {"loss": 3.0}
    assert all(decode_whole(line) is not None for line in lines(run))


def test_near_the_limit_of_recursion_log_records_each_of_its_values_once(run: Run) -> None:
    plain: list[RecursionError] = []
    careful: list[RecursionError] = []
    near_the_limit(partial(run.log, {"loss": 1.0}), plain)
    weights, loss = np.zeros((2, 3)), torch.tensor(2.0)
    near_the_limit(partial(run.log, {"loss": loss, "weights": weights, "text": "words"}), careful)
    assert plain == careful == []
    recorded = [(r["step"], r["m"]["loss"]) for r in of_kind(run.dir, "metrics")]
    assert len(dict(recorded)) == len(recorded)
    assert min(sum(loss == number for _, loss in recorded) for number in (1.0, 2.0)) >= 90
    assert len(of_kind(run.dir, "histogram")) == len(of_kind(run.dir, "text")) >= 90
    assert recorder_of(run).guard.faults == {}
    assert recorder_of(run).values.dropped == {}


def test_near_the_limit_of_recursion_no_call_raises(run: Run) -> None:
    limit = sys.getrecursionlimit()
    errors: list[RecursionError] = []
    for call in calls(run):
        near_the_limit(partial(_quietly, call, {"inner": [1.0, "words"]}), errors)
    assert errors == []
    assert sys.getrecursionlimit() == limit
    assert all(decode_whole(line) is not None for line in lines(run))
    assert recorder_of(run).guard.faults == {}


def _quietly(call: Callable[[Any], object], value: Any) -> None:
    with contextlib.suppress(EpochalError):
        call(value)


@pytest.mark.parametrize("name", ["__float__", "__array__"])
def test_an_interruption_passes(run: Run, name: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        run.event("saved", value=raising_in("__repr__", KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run.log({"loss": 1.0, raising_in("__str__", KeyboardInterrupt): 1.0})
    with pytest.raises(KeyboardInterrupt):
        run.log({"loss": 1.0, "value": raising_in(name, KeyboardInterrupt)})
    run.log({"loss": 2.0})
    assert of_kind(run.dir, "metrics")[-1]["m"] == {"loss": 2.0}
