"""Seeds for every generator a training draws from, and a mode in which torch repeats itself."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from epochal.errors import ValueTypeError

# Without it cuBLAS refuses to be deterministic; the value is the one NVIDIA documents.
_CUBLAS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def manual_seed(seed: int) -> None:
    """Seed torch's generators on the CPU and on every GPU; call it before the model is built.

    CUDA is not started by it: the seed waits for whoever starts it.
    """
    torch.manual_seed(_checked(seed))


def cuda_manual_seed_all(seed: int) -> None:
    """Seed torch's generator on every GPU, and only there; without CUDA nothing happens."""
    torch.cuda.manual_seed_all(_checked(seed))


def seed_everything(seed: int) -> int:
    """Seed Python's `random`, numpy's global generator where numpy is loaded, and torch.

    Numpy takes 32 bits: it gets the seed modulo 2**32. The seed is returned.
    """
    manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    return seed


@contextmanager
def deterministic(*, warn_only: bool = False) -> Iterator[None]:
    """Make torch use only algorithms that repeat themselves, and put everything back afterwards.

    An operation that has none raises RuntimeError, or warns with `warn_only`. On a GPU enter it
    before the first matrix product: cuBLAS reads its workspace setting once.
    """
    cudnn = torch.backends.cudnn
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
    )
    name, value = _CUBLAS
    ours = name not in os.environ
    os.environ.setdefault(name, value)
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.deterministic, cudnn.benchmark = before[2], before[3]
        if ours:
            os.environ.pop(name, None)


def _checked(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueTypeError(f"seed must be a whole number, got {seed!r}.")
    return seed
