"""Seeds for every generator that a training draws from."""

from __future__ import annotations

import random
import sys

import torch


def manual_seed(seed: int) -> None:
    """Seed torch's generators on the CPU and on every GPU; call it before the model is built.

    CUDA is not started by it: the seed waits for whoever starts it.

    Args:
        seed: The seed, a whole number.
    """
    torch.manual_seed(seed)


def cuda_manual_seed_all(seed: int) -> None:
    """Seed torch's generator on every GPU, and only there; without CUDA nothing happens.

    Args:
        seed: The seed, a whole number.
    """
    torch.cuda.manual_seed_all(seed)


def seed_everything(seed: int) -> int:
    """Seed Python's `random`, numpy's global generator where numpy is loaded, and torch.

    Numpy takes 32 bits: it gets the seed modulo 2**32. The seed is returned.

    Args:
        seed: The seed, a whole number.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    return seed
