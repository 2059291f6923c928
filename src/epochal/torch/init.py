"""Before a training: initial weights by `torch.nn.init`, which of them learn, and seeds.

Each initialiser returns a new tensor without a gradient, and takes the shape first and the device
last. `fan_in` and `fan_out` are the numbers of inputs and outputs of one unit.
"""

from __future__ import annotations

import math
import random
import secrets
import sys
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.torch.checks import check_number, check_whole

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


_MASK = (1 << 64) - 1


class Rng:
    """A stream of random numbers that a seed determines, on every machine alike.

    `clone()` gives a generator that goes on from the same state: both then yield the same numbers.
    `state()` and `from_state()` carry it through a checkpoint. Not safe to share between threads.

    Args:
        seed: The seed, a whole number.
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        words = splitmix64(check_whole(seed, name="seed"))
        self._state = (next(words), next(words), next(words), next(words))

    @classmethod
    def seed(cls, seed: int) -> Rng:
        """Make a generator from a whole number; its lowest 64 bits count.

        Args:
            seed: The seed, a whole number.
        """
        return cls(seed)

    @classmethod
    def from_entropy(cls) -> Rng:
        """Make a generator that the operating system seeds."""
        # The lowest bit keeps the state from being all 0, which the generator never leaves.
        return cls.from_state([secrets.randbits(64) | 1, *(secrets.randbits(64) for _ in range(3))])

    @classmethod
    def from_state(cls, state: Sequence[int]) -> Rng:
        """Make a generator that goes on where `state()` was taken."""
        rng = cls(0)
        rng.set_state(state)
        return rng

    def state(self) -> list[int]:
        """Return the four 64-bit words that the next numbers follow from."""
        return list(self._state)

    def set_state(self, state: Sequence[int]) -> None:
        """Go on where `state()` was taken."""
        words = [word for word in state if type(word) is int and 0 <= word <= _MASK]
        if len(words) != 4 or len(state) != 4 or not any(words):
            raise UsageError(f"state must be four 64-bit numbers, not all 0, got {state!r}.")
        self._state = (words[0], words[1], words[2], words[3])

    def clone(self) -> Rng:
        """Return a generator of its own that yields the same numbers from here."""
        return Rng.from_state(self._state)

    def u64(self) -> int:
        """Return the generator's next 64 bits."""
        s0, s1, s2, s3 = self._state
        result = (_rotated((s0 + s3) & _MASK, 23) + s0) & _MASK
        shifted = (s1 << 17) & _MASK
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        self._state = (s0, s1, s2 ^ shifted, _rotated(s3, 45))
        return result

    def usize(self, n: int) -> int:
        """Return a whole number from 0 up to, not including, `n`; each exactly as likely."""
        n = check_whole(n, name="n")
        if not 1 <= n <= _MASK + 1:
            raise UsageError(f"n must be between 1 and 2**64, got {n}.")
        # What lies above the last whole multiple of n would favour the small numbers.
        limit = (_MASK + 1) // n * n
        while (word := self.u64()) >= limit:
            pass
        return word % n

    def f32(self) -> float:
        """Return a number from 0 up to, not including, 1 that a 32-bit float holds exactly."""
        return (self.u64() >> 40) * 2.0**-24

    def f64(self) -> float:
        """Return a number from 0 up to, not including, 1 in steps of 2**-53."""
        return (self.u64() >> 11) * 2.0**-53

    def range(self, low: int, high: int) -> int:
        """Return a whole number from `low` up to, not including, `high`."""
        low, high = check_whole(low, name="low"), check_whole(high, name="high")
        return low + self.usize(high - low)

    def bernoulli(self, p: float) -> bool:
        """Return True with probability `p`."""
        check_number(p, name="p")
        if p > 1:
            raise UsageError(f"p must be a probability between 0 and 1, got {p!r}.")
        return self.f64() < p

    def normal(self, mean: float, std: float) -> float:
        """Return a Gaussian sample, by Box and Muller's method from two uniform draws.

        Args:
            mean: The mean.
            std: The standard deviation.
        """
        radius = math.sqrt(-2 * math.log(1 - self.f64()))
        return mean + std * radius * math.cos(2 * math.pi * self.f64())

    def shuffle(self, data: MutableSequence[Any] | Any) -> None:
        """Put a list, a tensor or an array into random order in place.

        Tensors and arrays of more dimensions are shuffled along their first: rows stay whole. The
        order depends on the seed and the length alone, so that inputs and labels stay together
        when each is shuffled by a clone of one generator.

        Args:
            data: The list, tensor or array.
        """
        rows: Any = data.detach() if hasattr(data, "detach") else data  # a tensor, without torch
        if rows is not data or hasattr(data, "__array_interface__"):
            # Items of these are views: swapping two would overwrite one with the other.
            order = list(range(len(rows)))
            self.shuffle(order)
            rows[...] = rows[order]
            return
        for i in range(len(data) - 1, 0, -1):
            j = self.usize(i + 1)
            data[i], data[j] = data[j], data[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rng) and self._state == other._state

    __hash__ = None  # type: ignore[assignment]  # it changes with every draw

    def __repr__(self) -> str:
        return f"Rng.from_state({self.state()!r})"


def splitmix64(seed: int) -> Iterator[int]:
    """Yield 64-bit words without end from a seed; its lowest 64 bits count."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        word = state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
        yield word ^ (word >> 31)


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & _MASK
