"""Initial weights: each function returns a new tensor that asks for no gradient.

All take the shape first and the device last, `dtype` and `generator` by name. `fan_in` and
`fan_out` are the numbers of inputs and outputs of one unit. Sources: He et al. 2015 (kaiming),
Glorot and Bengio 2010 (xavier), Saxe et al. 2013 (orthogonal).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from epochal.errors import UsageError

Device = torch.device | str | int


def kaiming_uniform(
    shape: Sequence[int],
    fan_in: int,
    a: float,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Uniform within sqrt(3) * sqrt(2 / (1 + a²)) / sqrt(fan_in); `a` is the leak of the ReLU."""
    bound = math.sqrt(3) * _kaiming_std(fan_in, a)
    return uniform(shape, -bound, bound, device, dtype=dtype, generator=generator)


def kaiming_normal(
    shape: Sequence[int],
    fan_in: int,
    a: float,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Normal with deviation sqrt(2 / (1 + a²)) / sqrt(fan_in); `a` is the leak of the ReLU."""
    return normal(shape, 0.0, _kaiming_std(fan_in, a), device, dtype=dtype, generator=generator)


def xavier_uniform(
    shape: Sequence[int],
    fan_in: int,
    fan_out: int,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Uniform within sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(3) * _xavier_std(fan_in, fan_out)
    return uniform(shape, -bound, bound, device, dtype=dtype, generator=generator)


def xavier_normal(
    shape: Sequence[int],
    fan_in: int,
    fan_out: int,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Normal with deviation sqrt(2 / (fan_in + fan_out))."""
    std = _xavier_std(fan_in, fan_out)
    return normal(shape, 0.0, std, device, dtype=dtype, generator=generator)


def uniform(
    shape: Sequence[int],
    low: float,
    high: float,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Uniform between `low` and `high`."""
    if not low <= high:
        raise UsageError(f"low must not exceed high, got {low!r} and {high!r}.")
    empty = torch.empty(tuple(shape), device=device, dtype=dtype)
    return empty.uniform_(low, high, generator=generator)


def normal(
    shape: Sequence[int],
    mean: float,
    std: float,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Normal with this mean and standard deviation."""
    _check_std(std)
    empty = torch.empty(tuple(shape), device=device, dtype=dtype)
    return empty.normal_(mean, std, generator=generator)


def trunc_normal(
    shape: Sequence[int],
    mean: float,
    std: float,
    a: float,
    b: float,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Normal, cut off at mean + a * std and mean + b * std.

    The tails are truly left out, not piled up at the bounds. The bounds count in standard
    deviations; those of `torch.nn.init.trunc_normal_` are plain values.
    """
    _check_std(std)
    if not a < b:
        raise UsageError(f"a must be below b, got {a!r} and {b!r}.")
    # Near 1 the distribution function has no digits left: an upper tail is drawn as a lower one.
    mirrored = a > 0
    low, high = (-b, -a) if mirrored else (a, b)
    # Doubles, because a float32 draw cannot tell the tails apart.
    drawn = uniform(shape, _cdf(low), _cdf(high), device, dtype=torch.float64, generator=generator)
    deviations: Tensor = torch.special.ndtri(drawn).clamp_(low, high)
    scaled = deviations.mul_(-std if mirrored else std).add_(mean)
    # Rounding to a narrower type may step over a bound again.
    target = scaled.to(dtype or torch.get_default_dtype())
    return target.clamp_(mean + a * std, mean + b * std)


def orthogonal(
    shape: Sequence[int],
    gain: float,
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Rows, or columns if there are fewer of them, at right angles and of length `gain`.

    A shape of more than two dimensions counts as a matrix of its first by all the others.
    """
    if len(shape) < 2 or 0 in tuple(shape):
        raise UsageError(
            f"shape must have at least two dimensions, none of them 0, got {tuple(shape)}."
        )
    rows, columns = shape[0], math.prod(shape[1:])
    target = dtype or torch.get_default_dtype()
    # QR knows no half precision.
    working = target if target in (torch.float32, torch.float64) else torch.float32
    tall = (max(rows, columns), min(rows, columns))
    q, r = torch.linalg.qr(normal(tall, 0.0, 1.0, device, dtype=working, generator=generator))
    # With the signs of R's diagonal the result is evenly spread over all orthogonal matrices.
    q = q * torch.where(r.diagonal() < 0, -1.0, 1.0).to(working)
    matrix: Tensor = q.T if rows < columns else q
    return matrix.reshape(tuple(shape)).mul(gain).to(target)


def uniform_bias(
    fan_in: int,
    shape: Sequence[int],
    device: Device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Uniform within 1 / sqrt(fan_in)."""
    bound = 1 / math.sqrt(_checked_fan(fan_in, name="fan_in"))
    return uniform(shape, -bound, bound, device, dtype=dtype, generator=generator)


def set_data(param: Tensor, data: Tensor) -> None:
    """Copy values into a parameter in place, so that optimizers and CUDA graphs go on seeing it.

    Device and dtype are converted; another shape is a ValueError.
    """
    if param.shape != data.shape:
        raise UsageError(
            f"data must have the parameter's shape {tuple(param.shape)}, got {tuple(data.shape)}."
        )
    with torch.no_grad():
        param.copy_(data)


def _kaiming_std(fan_in: int, a: float) -> float:
    return math.sqrt(2 / (1 + a * a)) / math.sqrt(_checked_fan(fan_in, name="fan_in"))


def _xavier_std(fan_in: int, fan_out: int) -> float:
    fans = _checked_fan(fan_in, name="fan_in") + _checked_fan(fan_out, name="fan_out")
    return math.sqrt(2 / fans)


def _checked_fan(fan: int, *, name: str) -> int:
    if fan < 1:
        raise UsageError(f"{name} must be at least 1, got {fan}.")
    return fan


def _check_std(std: float) -> None:
    if not std >= 0:
        raise UsageError(f"std must be at least 0, got {std!r}.")


def _cdf(deviations: float) -> float:
    return math.erfc(-deviations / math.sqrt(2)) / 2
