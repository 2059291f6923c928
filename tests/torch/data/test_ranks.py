"""Two real ranks whose loaders give the same samples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from epochal.store.local.by_path import load_run

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import epochal

dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 8), torch.arange(256) % 4)
for name, sampler in (("same", None), ("own", DistributedSampler(data))):
    run = epochal.init("ranks", name, dir=sys.argv[1], console=False)
    loader = DataLoader(data, batch_size=32, shuffle=sampler is None, sampler=sampler)
    for inputs, labels in epochal.watch_data(loader):
        run.log({"loss": 1.0})
    run.finish()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_that_train_on_the_same_samples_are_found(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = {**os.environ, "EPOCHAL_GIT": "0", "OMP_NUM_THREADS": "1"}
    subprocess.run([*launcher, str(script), str(tmp_path / "runs")], check=True, env=environment)
    for name in ("same", "own"):
        run = load_run(tmp_path / "runs" / "ranks" / name)
        found = {entry.record["rule"] for entry in run.findings()}
        assert ("data-repeated" in found) is (name == "same")
