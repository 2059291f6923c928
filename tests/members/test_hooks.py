"""What fails in a hook inside a training: results stay the same, and the run has it once."""

from __future__ import annotations

import ast
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import epochal
from epochal import watch_data, watch_memory, watch_moe
from epochal.integrations.logging import EpochalHandler
from epochal.run.run import Run, recorder_of
from epochal.torch.graph.profile import Profiler
from tests.conftest import StartRun
from tests.doubles.journals import of_kind
from tests.members.faults import broken, raising
from tests.torch.moe.mixtures import WIDTH, mixture

State = dict[str, torch.Tensor]

SOURCE = Path(epochal.__file__).parent
STEPS = 5


class Training(NamedTuple):
    model: nn.Module
    batches: Any
    run: Run


def _watch(of: Training) -> None:
    epochal.watch(of.model, of.run, every=1)


def _moe(of: Training) -> None:
    watch_moe(of.model, of.run, experts_every=1)


def _memory(of: Training) -> None:
    watch_memory(of.model, of.run, every=1)


def _data(of: Training) -> None:
    watch_data(of.batches, run=of.run)


def _profile(of: Training) -> None:
    Profiler(of.model, dict(of.model.named_children())).install()


def _nothing(of: Training) -> None:
    """Phases are timed in every case."""


class Case(NamedTuple):
    """A hook, what is broken below it, and the member that the fault is recorded under."""

    begin: Callable[[Training], object]
    broken: str
    member: str
    num_workers: int = 0


CASES = {
    "before a step": Case(_watch, "epochal.torch.watching.reduce_tensors", "watch"),
    "after a step": Case(_watch, "epochal.torch.watching.Watch._take_updates", "watch"),
    "what a step left": Case(
        _watch, "epochal.torch.watch_checks.KeptGradients.after_step", "watch"
    ),
    "inputs": Case(_watch, "epochal.torch.watch_checks.sampled", "watch"),
    "the first pass": Case(_watch, "epochal.torch.watching.named_modules", "watch"),
    "a backward pass": Case(_watch, "epochal.torch.watch_checks._place_of", "watch"),
    "evaluation": Case(_watch, "epochal.torch.watch_checks.drop_share", "watch"),
    "numbers that arrive": Case(_watch, "epochal.torch.measure.Rows.read", "watch"),
    "a silent record": Case(_watch, "epochal.run.recorder.Recorder.write_silent", "run.write"),
    "memory": Case(_memory, "epochal.torch.memory.memory_segments", "watch_memory"),
    "memory record": Case(_memory, "epochal.run.typed.record", "run.log_allocator"),
    "a router": Case(_moe, "epochal.torch.moe.routing_sums", "watch_moe"),
    "a router's logits": Case(_moe, "epochal.torch.moe.Router.sums", "watch_moe"),
    "sums of routers": Case(_moe, "epochal.torch.moe.copied_to_host", "watch_moe"),
    "figures of routers": Case(_moe, "epochal.torch.moe.statistics_table", "watch_moe"),
    "a batch": Case(_data, "epochal.torch.data.watch.read_batch", "watch_data"),
    "a batch in a worker": Case(_data, "epochal.torch.data.watch.read_batch", "watch_data", 2),
    "a window of batches": Case(_data, "epochal.torch.data.batch.Window.add", "watch_data"),
    "a data record": Case(_data, "epochal.torch.data.batch.Window.fields", "watch_data"),
    "a pass that is profiled": Case(_profile, "epochal.torch.graph.profile.tensors_in", "profile"),
    "a mark": Case(_profile, "epochal.torch.graph.profile._Pass.mark", "profile"),
    "a phase": Case(_nothing, "epochal.run.phases.Phases._end_steps", "phases"),
    "a long phase": Case(_nothing, "epochal.run.phases.SpanLimit.allows", "phases"),
}


class Routed(nn.Module):
    """A mixture of experts with a dropout: something for every hook."""

    def __init__(self) -> None:
        super().__init__()
        self.mixture = mixture()
        self.drop = nn.Dropout(0.1)

    def forward(self, inputs: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        routed: torch.Tensor = self.drop(self.mixture(inputs, **kwargs))
        return routed


def trained(
    run: Run, begin: Callable[[Training], object] = _nothing, num_workers: int = 0
) -> State:
    """Weights and gradients after a training with a hook."""
    torch.manual_seed(0)
    model = Routed()
    samples = torch.randn(STEPS * 4, 3, WIDTH, generator=torch.Generator().manual_seed(1))
    batches: Any = DataLoader(TensorDataset(samples), batch_size=4, num_workers=num_workers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin(Training(model, batches, run))
    for (batch,) in batches:
        optimizer.zero_grad()
        with run.phase("forward"):
            loss = model(batch).square().mean()
        with run.phase("backward"):
            loss.backward()
        optimizer.step()
        with torch.no_grad():
            model(batch)
        run.log({"loss": loss.item()})
    run.finish()
    gradients = {f"{name}.grad": one.grad for name, one in model.named_parameters()}
    known = {name: one for name, one in gradients.items() if one is not None}
    assert known
    return {**model.state_dict(), **known}


def faults_in(run: Run) -> list[dict[str, Any]]:
    return [one for one in of_kind(run.dir, "event") if one["name"] == "internal-error"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> State:
    """What the training leaves when nothing fails."""
    folder = tmp_path_factory.mktemp("untouched")
    return trained(epochal.init("tests", "untouched", dir=folder, console=False))


@pytest.mark.parametrize("name", CASES)
def test_a_fault_in_a_hook_changes_no_training(
    name: str, start_run: StartRun, expected: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, run = CASES[name], start_run(name="faulty")

    def begin(of: Training) -> None:
        case.begin(of)
        recorder_of(run).phases.long_ns = 0  # every phase is long
        monkeypatch.setattr(case.broken, broken)

    found = trained(run, begin, case.num_workers)
    assert set(found) == set(expected)
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    (event,) = faults_in(run)
    assert event["member"] == case.member
    assert "broken on purpose" in event["traceback"]
    assert [one["status"] for one in of_kind(run.dir, "finish")] == ["finished"]


def test_an_error_for_want_of_memory_stays_the_one_that_is_raised(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run()
    monkeypatch.setattr("epochal.torch.memory.explain", broken)
    with pytest.raises(MemoryError, match="too little"), epochal.torch.memory_guard(run):
        raise MemoryError("too little")
    run.finish()
    assert [one["member"] for one in faults_in(run)] == ["out-of-memory report"]


def test_what_a_program_prints_is_printed_when_it_cannot_be_kept(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("epochal.run.recorder.Recorder.keep_output", broken)
    run = start_run(capture=True)
    sys.stdout.write("first\n")
    sys.stdout.write("second\n")
    run.finish()
    assert capsys.readouterr().out == "first\nsecond\n"
    assert [one["member"] for one in faults_in(run)] == ["captured output"]


def test_a_record_of_logging_that_cannot_be_kept_reaches_nobody(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, logger = start_run(), logging.getLogger("tests.hooks")
    handler = EpochalHandler(run)
    logger.addHandler(handler)
    monkeypatch.setattr("epochal.integrations.logging.level_of", raising(ArithmeticError("odd")))
    logger.error("something")
    logger.removeHandler(handler)
    run.finish()
    assert [one["member"] for one in faults_in(run)] == ["integration logging"]


# -- no hook without a guard ----------------------------------------------------------------------

_REGISTERS = re.compile(r"register_\w*hook|queue_callback|saved_tensors_hooks")
# Hooks that live as long as one call of the user, whose error is the user's.
_OF_ONE_CALL = {"torch/graph/picture.py"}
# What frameworks call that only reads, or that is kept by a method of its own.
_READS = {
    "experiment", "name", "version", "save_dir", "root_dir", "log_dir", "tracker", "get_state",
    "set_state", "before_training", "before_iteration", "after_iteration", "after_training",
    "flush", "close", "_on_step",
}  # fmt: skip


def sources(room: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((SOURCE / room).rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    inside = [one for node in nodes for one in ast.walk(node)]
    plain = {one.id for one in inside if isinstance(one, ast.Name)}
    return plain | {one.attr for one in inside if isinstance(one, ast.Attribute)}


def is_guarded(function: ast.FunctionDef) -> bool:
    return bool(names_in(function.decorator_list) & {"guarded_hook", "callback"})


def test_every_hook_on_torch_is_guarded() -> None:
    found = []
    for path, tree in sources("torch"):
        known = {one.name: one for one in functions_of(tree)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or path in _OF_ONE_CALL:
                continue
            if not any(map(_REGISTERS.fullmatch, names_in([node.func]))):
                continue
            found.append(path)
            hooks = names_in(node.args)
            for name in hooks & set(known):  # a function that makes a hook
                hooks |= names_in(known[name].body)
            guarded = {name for name, one in known.items() if is_guarded(one)}
            assert hooks & guarded, f"{path}:{node.lineno}: decorate this hook with @guarded_hook"
    assert len(found) >= 12


def test_everything_that_a_framework_calls_is_guarded() -> None:
    found = []
    for path, tree in sources("integrations"):
        for kind in ast.walk(tree):
            if not isinstance(kind, ast.ClassDef) or not kind.name.startswith("Epochal"):
                continue
            for method in kind.body:
                is_called = isinstance(method, ast.FunctionDef) and (
                    not method.name.startswith("_")
                    or method.name.startswith("_on_")
                    or method.name == "__call__"
                )
                if isinstance(method, ast.FunctionDef) and is_called and method.name not in _READS:
                    found.append(method.name)
                    place = f"{path}:{method.lineno}"
                    assert is_guarded(method), f"{place}: decorate {method.name}() with @callback"
    assert len(found) >= 30
