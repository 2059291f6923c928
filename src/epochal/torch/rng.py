"""A small random number generator for shuffling and augmentation, apart from torch's own.

Xoshiro256++ 1.0 by David Blackman and Sebastiano Vigna, seeded by SplitMix64 as its authors advise;
both are in the public domain (prng.di.unimi.it). Not for secrets.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Any

from epochal.errors import UsageError
from epochal.torch.checks import check_number, check_whole

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
