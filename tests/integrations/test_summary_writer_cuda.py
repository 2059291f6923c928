"""Values on a GPU are recorded without waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import epochal
from epochal import SummaryWriter

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def test_scalars_and_histograms_are_not_waited_for(tmp_path: Path, no_waiting: None) -> None:
    values = torch.arange(100, device="cuda", dtype=torch.float32)
    writer = SummaryWriter(tmp_path / "a")
    for step in range(50):
        writer.add_scalar("mean", values.mean() + step, step)
        writer.add_scalar("timed", values[0] + step, step, walltime=100.0 + step)
        writer.add_scalars("pair", {"a": values[1], "b": values[2]}, step)
    writer.add_histogram("values", values, 0)
    torch.cuda.set_sync_debug_mode("default")
    writer.close()
    run = epochal.load(tmp_path / "a")
    assert run.series("mean").values.tolist() == [49.5 + step for step in range(50)]
    assert run.series("timed").times.tolist() == [100.0 + step for step in range(50)]
    assert run.series("pair/b").values.tolist() == [2.0] * 50
    (histogram,) = run.view.entries("histogram")
    assert (histogram.record["count"], histogram.record["max"]) == (100, 99.0)


def test_images_sounds_and_tables_come_from_the_gpu(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_image("i", torch.rand(3, 8, 8, device="cuda"), 0)
        writer.add_audio("s", torch.rand(1, 100, device="cuda"), 0)
        writer.add_pr_curve("p", torch.ones(9, device="cuda"), torch.rand(9, device="cuda"), 0)
        writer.add_histogram("h", torch.rand(50, device="cuda"), 0, bins="auto")
        writer.add_embedding(torch.rand(3, 2, device="cuda"))
        writer.add_hparams({"t": torch.tensor(2.0, device="cuda")}, {"m": torch.ones(1).cuda()})
    run = epochal.load(tmp_path / "a")
    names = {entry.record["name"] for entry in run.view.entries("blob", "file")}
    assert names == {"i", "s", "p", "00000/default/tensors.tsv"}
    assert dict(run.config) == {"t": 2.0}
    assert run.series("m").values.tolist() == [1.0]
