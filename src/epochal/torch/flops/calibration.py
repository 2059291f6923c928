"""Measures what a device really does at most: one large matrix product, again and again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from epochal.errors import UsageError
from epochal.torch.flops.peaks import chosen_device, device_peak, device_title, dtype_name

_TYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
}
# Large enough that launching and the ends of the product cost nothing beside it.
_LARGEST_ON_GPU, _LARGEST_ON_CPU, _SMALLEST = 16_384, 1_024, 256
_MEMORY_SHARE = 0.25
_SPARE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """A measured rate in TFLOP/s, beside the maker's where that is known."""

    device: str
    dtype: str
    tflops: float
    size: int
    spec_tflops: float | None = None

    @property
    def share(self) -> float | None:
        """Measured over specified, in percent."""
        return None if self.spec_tflops is None else 100 * self.tflops / self.spec_tflops

    def __str__(self) -> str:
        if self.spec_tflops is None or self.share is None:
            return f"measured {_rate(self.tflops)} TFLOP/s"
        spec = _rate(self.spec_tflops)
        return f"measured {_rate(self.tflops)} of {spec} TFLOP/s, {self.share:.0f} %"


def calibrate(
    dtype: object = "bf16", *, device: Any = None, seconds: float = 0.5, size: int | None = None
) -> Calibration:
    """Measure the rate of square matrix products for about ``seconds``, after as long a warm-up.

    ``size`` is the side of the matrices, by default as large as a quarter of the free memory
    allows. On a GPU its own clock measures, on a CPU the wall's. Random generators and settings
    are left as they were; memory is given back.
    """
    name = dtype_name(dtype)
    if name not in _TYPES:
        raise UsageError(f"dtype={name!r} cannot be measured: use one of {', '.join(_TYPES)}.")
    if not seconds > 0:
        raise UsageError(f"seconds={seconds!r} must be more than 0.")
    chosen = chosen_device(device)
    side = _side(chosen, name) if size is None else size
    if side < 16 or side % 16:
        raise UsageError(f"size={side} must be a multiple of 16, 16 or more.")
    precision = torch.get_float32_matmul_precision()
    try:
        if name == "tf32":
            torch.set_float32_matmul_precision("high")
        rate = _measured(chosen, name, side, seconds)
    finally:
        torch.set_float32_matmul_precision(precision)
        if chosen.type == "cuda":
            torch.cuda.empty_cache()
    peak = device_peak(chosen)
    spec = None if peak is None else peak.of(name)
    return Calibration(device_title(chosen), name, rate, side, spec)


@torch.no_grad()
def _measured(device: torch.device, dtype: str, side: int, seconds: float) -> float:
    product = _product(device, dtype, side)
    once_s = _timed(device, product, 1)  # also loads the kernel
    once_s = min(once_s, _timed(device, product, 1))
    repeats = max(1, int(seconds / once_s))
    _timed(device, product, repeats)
    return 2 * side**3 / (_timed(device, product, repeats) / repeats) / 1e12


def _product(device: torch.device, dtype: str, side: int) -> Any:
    generator = torch.Generator(device).manual_seed(0)
    # Zeros would draw less power and let the clock run higher than in training.
    left, right = (torch.randn(side, side, device=device, generator=generator) for _ in range(2))
    kind = _TYPES[dtype]
    if dtype != "fp8":
        one, other = left.to(kind), right.to(kind)
        out = torch.empty_like(one)
        return lambda: torch.mm(one, other, out=out)
    one, other = left.to(kind), right.to(kind).t()
    scale = torch.ones((), device=device)
    return lambda: torch._scaled_mm(
        one, other, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _timed(device: torch.device, product: Any, repeats: int) -> float:
    """Seconds that so many products take."""
    if device.type != "cuda":
        begun = time.perf_counter()
        for _ in range(repeats):
            product()
        return max(time.perf_counter() - begun, 1e-9)
    with torch.cuda.device(device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(repeats):
            product()
        end.record()
        end.synchronize()
        return max(float(start.elapsed_time(end)) / 1000, 1e-9)


def _side(device: torch.device, dtype: str) -> int:
    if device.type != "cuda":
        return _LARGEST_ON_CPU
    free, _ = torch.cuda.mem_get_info(device)
    width = torch.empty((), dtype=_TYPES[dtype]).element_size()
    # Two random matrices of 32 bits, and three of the measured kind.
    room = (free - _SPARE_BYTES) * _MEMORY_SHARE / (2 * 4 + 3 * width)
    side = _LARGEST_ON_GPU
    while side > _SMALLEST and side * side > room:
        side //= 2
    if side * side > room:
        raise UsageError(
            f"{free // 2**20} MiB of GPU memory are free: too few to measure; calibrate before the"
            " model is built."
        )
    return side


def _rate(tflops: float) -> str:
    return f"{tflops:.0f}" if tflops >= 100 else f"{tflops:.3g}"
