from __future__ import annotations

import subprocess
import sys

import torch

from epochal.torch import live_tensor_count, malloc_trim, rss_kb


def test_without_cuda_started_nothing_is_held_and_nothing_is_started() -> None:
    script = (
        "import torch; from epochal.torch import *\n"
        "print(cuda_active_bytes(), cuda_allocated_bytes(), cuda_peak_active_bytes(),\n"
        "      cuda_peak_reserved_bytes(), cuda_spill_bytes(), cuda_reset_peak_stats(),\n"
        "      cuda_empty_cache(), torch.cuda.is_initialized())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0"] * 5 + ["None", "None", "False"]


def test_live_tensors_are_counted() -> None:
    before = live_tensor_count()
    kept = [torch.zeros(1) for _ in range(10)]
    assert live_tensor_count() == before + 10
    kept.clear()
    assert live_tensor_count() == before


def test_resident_memory_is_in_kib() -> None:
    # Torch alone takes more than 50 MiB; no machine that runs this has 10 TiB.
    assert 50 * 1024 < rss_kb() < 10 * 1024**3


def test_a_trim_answers() -> None:
    assert malloc_trim() in (True, False)
