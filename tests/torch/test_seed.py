from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch

from epochal.torch import cuda_manual_seed_all, deterministic, manual_seed, seed_everything


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


def settings_now() -> tuple[bool, bool, str | None]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    )


def test_deterministic_mode_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with deterministic():
        assert settings_now() == (True, True, ":4096:8")
    assert settings_now() == (False, False, None)


def test_deterministic_mode_ends_after_an_error_and_keeps_the_users_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with pytest.raises(IndexError), deterministic(warn_only=True):
        torch.zeros(1)[2]
    assert not torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_a_seed_must_be_whole() -> None:
    with pytest.raises(TypeError, match="seed must be a whole number"):
        manual_seed(1.5)  # type: ignore[arg-type]
