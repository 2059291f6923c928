from __future__ import annotations

import pytest
import torch

from epochal.errors import UsageError
from epochal.torch.flops.calibration import Calibration, calibrate

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_measured_beside_specified() -> None:
    known = Calibration("NVIDIA H200", "bf16", 812.4, 16_384, 989.5)
    assert str(known) == "measured 812 of 990 TFLOP/s, 82 %"
    assert str(Calibration("CPU", "fp32", 0.0372, 1024)) == "measured 0.0372 TFLOP/s"


@pytest.mark.parametrize("dtype", ["fp32", torch.bfloat16])
def test_a_cpu_is_measured_and_nothing_else_changes(dtype: object) -> None:
    random, precision = torch.get_rng_state(), torch.get_float32_matmul_precision()
    measured = calibrate(dtype, device="cpu", seconds=0.01, size=128)
    assert measured.device == "CPU"
    assert measured.tflops > 0
    assert measured.spec_tflops is None
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize(
    ("named", "word"),
    [({"dtype": "fp4"}, "fp4"), ({"seconds": 0}, "seconds"), ({"size": 100}, "size=100")],
)
def test_misuse_is_named(named: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        calibrate(**{"device": "cpu", **named})  # type: ignore[arg-type]


@needs_gpu
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "tf32"])
def test_a_gpu_is_measured_and_its_memory_given_back(dtype: str) -> None:
    one = torch.ones(8, 8, device="cuda")
    _ = one @ one  # the first product of a process reserves a workspace that stays
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    measured = calibrate(dtype, seconds=0.1)
    assert torch.cuda.memory_reserved() == before
    assert measured.tflops > 1
    if measured.share is not None:
        assert measured.share < 120


@needs_gpu
@pytest.mark.cuda
def test_eight_bits_are_faster_than_sixteen() -> None:
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU has no 8-bit products")
    assert calibrate("fp8", seconds=0.1).tflops > 1.2 * calibrate("bf16", seconds=0.1).tflops
