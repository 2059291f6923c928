from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from epochal.errors import UsageError
from epochal.torch.checkpoint.state import load_state
from tests.torch.checkpoint.trainings import Training

SCRIPT = Path(__file__).with_name("ranks_training.py")

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")


def test_two_ranks_resume_exactly_fail_together_and_heed_each_others_signals(
    tmp_path: Path,
) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for rank in range(2)
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=200)
        assert out == "every check passed\n", err
    alone = Training()
    with pytest.raises(UsageError, match="saved by 2 ranks and this training has 1"):
        load_state(tmp_path / "exact", alone.state())
    restored = load_state(tmp_path / "exact", alone.state(), any_world_size=True)
    assert restored.left == ("data", "rng")
    assert restored.step == 3
