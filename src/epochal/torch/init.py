"""Before a training: initial weights by `torch.nn.init`, which of them learn, and seeds.

Each initialiser returns a new tensor without a gradient, and takes the shape first and the device
last. `fan_in` and `fan_out` are the numbers of inputs and outputs of one unit.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from epochal.errors import UsageError

Device = torch.device | str | int


def kaiming_uniform(shape: Sequence[int], fan_in: int, a: float, device: Device = "cpu") -> Tensor:
    """Uniform within sqrt(3) * sqrt(2 / (1 + a²)) / sqrt(fan_in); `a` is the leak of the ReLU.

    Args:
        shape: The shape of the tensor.
        fan_in: The number of inputs of a unit.
        a: The leak of the ReLU.
        device: The device of the tensor.
    """
    bound = math.sqrt(3) * _kaiming_std(fan_in, a)
    return uniform(shape, -bound, bound, device)


def kaiming_normal(shape: Sequence[int], fan_in: int, a: float, device: Device = "cpu") -> Tensor:
    """Normal with deviation sqrt(2 / (1 + a²)) / sqrt(fan_in); `a` is the leak of the ReLU.

    Args:
        shape: The shape of the tensor.
        fan_in: The number of inputs of a unit.
        a: The leak of the ReLU.
        device: The device of the tensor.
    """
    return normal(shape, 0.0, _kaiming_std(fan_in, a), device)


def xavier_uniform(
    shape: Sequence[int], fan_in: int, fan_out: int, device: Device = "cpu"
) -> Tensor:
    """Uniform within sqrt(6 / (fan_in + fan_out)).

    Args:
        shape: The shape of the tensor.
        fan_in: The number of inputs of a unit.
        fan_out: The number of outputs of a unit.
        device: The device of the tensor.
    """
    bound = math.sqrt(6 / (fan_in + fan_out))
    return uniform(shape, -bound, bound, device)


def xavier_normal(
    shape: Sequence[int], fan_in: int, fan_out: int, device: Device = "cpu"
) -> Tensor:
    """Normal with deviation sqrt(2 / (fan_in + fan_out)).

    Args:
        shape: The shape of the tensor.
        fan_in: The number of inputs of a unit.
        fan_out: The number of outputs of a unit.
        device: The device of the tensor.
    """
    std = math.sqrt(2 / (fan_in + fan_out))
    return normal(shape, 0.0, std, device)


def uniform(shape: Sequence[int], low: float, high: float, device: Device = "cpu") -> Tensor:
    """Uniform between `low` and `high`.

    Args:
        shape: The shape of the tensor.
        low: The lowest value.
        high: The highest value.
        device: The device of the tensor.
    """
    return nn.init.uniform_(torch.empty(tuple(shape), device=device), low, high)


def normal(shape: Sequence[int], mean: float, std: float, device: Device = "cpu") -> Tensor:
    """Normal with this mean and standard deviation.

    Args:
        shape: The shape of the tensor.
        mean: The mean.
        std: The standard deviation.
        device: The device of the tensor.
    """
    return nn.init.normal_(torch.empty(tuple(shape), device=device), mean, std)


def trunc_normal(
    shape: Sequence[int], mean: float, std: float, a: float, b: float, device: Device = "cpu"
) -> Tensor:
    """Normal, truncated at mean + a * std and mean + b * std.

    The bounds count in standard deviations; those of `torch.nn.init.trunc_normal_` are values.

    Args:
        shape: The shape of the tensor.
        mean: The mean.
        std: The standard deviation.
        a: The lower end, in standard deviations.
        b: The upper end, in standard deviations.
        device: The device of the tensor.
    """
    if not a < b:
        raise UsageError(f"a must be below b, got {a!r} and {b!r}.")
    low, high = mean + a * std, mean + b * std
    weights = torch.empty(tuple(shape), device=device)
    return nn.init.trunc_normal_(weights, mean, std, low, high)


def orthogonal(shape: Sequence[int], gain: float, device: Device = "cpu") -> Tensor:
    """Rows, or columns if there are fewer of them, at right angles and of length `gain`.

    A shape of more than two dimensions counts as a matrix of its first by all the others.

    Args:
        shape: The shape of the tensor.
        gain: The length of the rows or columns.
        device: The device of the tensor.
    """
    return nn.init.orthogonal_(torch.empty(tuple(shape), device=device), gain)


def uniform_bias(fan_in: int, shape: Sequence[int], device: Device = "cpu") -> Tensor:
    """Uniform within 1 / sqrt(fan_in).

    Args:
        fan_in: The number of inputs of a unit.
        shape: The shape of the tensor.
        device: The device of the tensor.
    """
    bound = 1 / math.sqrt(fan_in)
    return uniform(shape, -bound, bound, device)


def set_data(param: Tensor, data: Tensor) -> None:
    """Copy values into a parameter in place, so that optimizers and CUDA graphs go on seeing it.

    Device and dtype are converted; another shape is a ValueError.

    Args:
        param: The parameter.
        data: The values.
    """
    if param.shape != data.shape:
        raise UsageError(
            f"data must have the parameter's shape {tuple(param.shape)}, got {tuple(data.shape)}."
        )
    with torch.no_grad():
        param.copy_(data)


def _kaiming_std(fan_in: int, a: float) -> float:
    gain = nn.init.calculate_gain("leaky_relu", a)
    return gain / math.sqrt(fan_in)


# Parameters that are kept as they are: of a whole module, or one.


def freeze(*targets: nn.Module | Tensor) -> None:
    """Stop training parameters, or all parameters of modules: ``freeze(model.encoder)``.

    Their gradients are dropped as well: with one left, an optimizer would still move them once.
    Running statistics, as of batch normalisation, are not parameters and go on.

    Args:
        targets: Modules, or single parameters.
    """
    for param in _parameters(targets):
        param.requires_grad_(False)
        param.grad = None


def unfreeze(*targets: nn.Module | Tensor) -> None:
    """Train these parameters again; those of whole numbers are left out.

    Args:
        targets: Modules, or single parameters.
    """
    for param in _parameters(targets):
        if param.is_floating_point() or param.is_complex():
            param.requires_grad_(True)


def is_frozen(*targets: nn.Module | Tensor) -> bool:
    """Tell whether all of these parameters are frozen; False where there are none.

    Args:
        targets: Modules, or single parameters.
    """
    params = list(_parameters(targets))
    return bool(params) and not any(param.requires_grad for param in params)


def _parameters(targets: tuple[nn.Module | Tensor, ...]) -> Iterator[Tensor]:
    for target in targets:
        yield from [target] if isinstance(target, Tensor) else target.parameters()


# -- seeds for every generator ---------------------------------------------------------------------


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
