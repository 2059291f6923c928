from __future__ import annotations

import random

import numpy as np
import torch

from epochal.torch import cuda_manual_seed_all, manual_seed, seed_everything


def test_manual_seed_repeats_torch() -> None:
    manual_seed(42)
    first = torch.rand(3)
    manual_seed(42)
    assert torch.equal(torch.rand(3), first)


def test_seed_everything_repeats_python_numpy_and_torch() -> None:
    def draws() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    assert seed_everything(2**40 + 1) == 2**40 + 1
    first = draws()
    seed_everything(2**40 + 1)
    assert draws() == first


def test_seeding_the_gpus_leaves_the_cpu_alone_and_starts_nothing() -> None:
    manual_seed(1)
    state = torch.get_rng_state()
    cuda_manual_seed_all(9)
    assert torch.equal(torch.get_rng_state(), state)
