"""What a watched model tells about its evaluations and its BatchNorm."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from epochal.run.run import Run
from epochal.torch.watching import watch
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def model_with(*parts: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), *parts, nn.Linear(8, 2))


def train(model: nn.Module, steps: int, *, evaluates: Any = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        if evaluates is not None:
            evaluates()


def evaluation(model: nn.Module, *, mode: bool) -> Any:
    def evaluate() -> None:
        model.train(mode)
        with torch.no_grad():
            model(torch.randn(16, 4))

    return evaluate


def events(run: Run) -> list[dict[str, Any]]:
    return [one for one in of_kind(run.dir, "event") if one["name"] == "evaluation-passes"]


def test_passes_in_training_mode_are_told(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.BatchNorm1d(8), nn.Dropout(0.3))
    watch(model, run)
    train(model, 3, evaluates=evaluation(model, mode=True))
    run.finish()
    told = events(run)
    assert len(told) == 3
    known = ("passes", "dropouts", "batchnorms", "module", "share")
    assert [told[0][name] for name in known] == [1, 1, 1, "2", 0.3]


def test_passes_in_evaluation_mode_are_not_told(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    train(model, 3, evaluates=evaluation(model, mode=False))
    run.finish()
    assert events(run) == []


def test_many_passes_in_training_mode_are_told_a_few_times(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    train(model, 20, evaluates=evaluation(model, mode=True))
    run.finish()
    assert len(events(run)) == 4


def test_a_right_evaluation_after_wrong_ones_is_told(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    train(model, 1, evaluates=evaluation(model, mode=True))
    train(model, 2, evaluates=evaluation(model, mode=False))
    run.finish()
    assert [one["dropouts"] for one in events(run)] == [1, 0]


def test_a_copy_is_not_the_model(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    twin = copy.deepcopy(model)
    train(model, 2, evaluates=evaluation(twin, mode=True))
    run.finish()
    assert events(run) == []


def test_a_watched_model_can_be_saved_whole(start_run: StartRun, tmp_path: Path) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    run.finish()
    code = (
        "import pickle, sys, torch\n"
        "sys.modules['epochal'] = None\n"
        f"model = pickle.load(open({str(tmp_path / 'model.pkl')!r}, 'rb'))\n"
        "print(tuple(model.eval()(torch.ones(3, 4)).shape))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(3, 2)"


def test_a_compiled_model_is_one_graph(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert compiled(torch.ones(3, 4)).shape == (3, 2)
    train(model, 1)
    run.finish()


@pytest.mark.parametrize(("momentum", "is_still"), [(0.1, False), (0.0, True)])
def test_running_statistics_are_recorded(
    start_run: StartRun, momentum: float, *, is_still: bool
) -> None:
    run, model = start_run(), model_with(nn.BatchNorm1d(8, momentum=momentum))
    watch(model, run, every=1)
    train(model, 3)
    run.finish()
    norms = [one["m"]["running_stats/1/norm"] for one in of_kind(run.dir, "metrics")]
    assert (len(set(norms)) == 1) == is_still


def test_batchnorm_in_evaluation_mode_is_frozen_on_purpose(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.BatchNorm1d(8))
    watch(model, run, every=1)
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
    run.finish()
    (record,) = of_kind(run.dir, "metrics")
    assert not any(name.startswith("running_stats/") for name in record["m"])
