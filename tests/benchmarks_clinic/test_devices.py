"""Every tensor of a kind is where its model is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import epochal
from benchmarks.clinic import evidence
from benchmarks.clinic.harness import Bench, prepare, train
from benchmarks.clinic.kinds import KINDS

pytestmark = pytest.mark.slow
# A text, a picture and a table; the mechanism is the same for all.
SAMPLE = ("gpt2", "vit", "mlp")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def bench_on(kind: str, optimizer: str, device: str, *, steps: int) -> Bench:
    quick = replace(KINDS[kind], steps=steps, num_evals=2, pace_ms=0.0, world=1)
    with torch.random.fork_rng():
        return prepare(quick, optimizer, 0, device=device)


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_step_makes_no_tensor_on_another_device(kind: str) -> None:
    """Without a GPU: tensors of the device `meta` do not mix with those of the CPU."""
    bench = bench_on(kind, KINDS[kind].optimizers[0].name, "meta", steps=2)
    task, place = bench.task, torch.device("meta")
    inputs, targets = (one.to(place) for one in bench.loader.take())
    assert task.loss(task.outputs(inputs), targets).device == place


@pytest.mark.cuda
@needs_gpu
@pytest.mark.parametrize("kind", SAMPLE)
def test_a_kind_trains_on_the_gpu(tmp_path: Path, kind: str) -> None:
    for choice in KINDS[kind].optimizers:
        bench = bench_on(kind, choice.name, "cuda", steps=12)
        run = epochal.init("clinic", choice.name, dir=tmp_path, console=False, companion=False)
        with run:
            result = train(bench, run)
        assert all(one.is_cuda for one in bench.model.parameters())
        kept = evidence.collect(choice.name, Path(run.dir), result, ended=1e12)
        assert math.isfinite(kept.result["result"])
