"""Whether weights have the norm that an initialisation gives to a tensor of their shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

# Three standard errors of a mean square, times the root of the number of values: uniform, normal.
_UNIFORM, _NORMAL = 3 * 0.894, 3 * 1.414
_ROUNDING = 1e-5
# Fewer elements fit almost any of the scales: of matrices, and of biases.
_LEAST, _LEAST_BIAS = 200, 16
# Deviations that people write down.
_DEVIATIONS = (1.0, 0.1, 0.05, 0.02, 0.01)


def initialised(
    shapes: Mapping[str, Sequence[int]], norms: Mapping[str, float]
) -> tuple[list[str], list[str]]:
    """Tensors whose norm is that of an initialisation, and those whose norm is not.

    Small ones that are neither zeros nor ones are in neither list.
    """
    fitting: list[str] = []
    others: list[str] = []
    for name, shape in shapes.items():
        numel = math.prod(shape)
        square = norms[name] ** 2 / numel if numel else 0.0
        if square == 0 or (len(shape) == 1 and abs(square - 1) < _ROUNDING):
            fitting.append(name)  # zeros, or the ones of a normalisation
            continue
        head, dot, last = name.rpartition(".")
        weight = shapes.get(f"{head}{dot}{last.replace('bias', 'weight')}", ())
        if len(shape) > 1 and numel >= _LEAST:
            fits = _fits(square, numel, _scales(shape), _NORMAL)
            fits = fits or _fits(square, numel, _drawn_by_torch(shape), _UNIFORM)
        elif len(shape) == 1 and len(weight) > 1 and numel >= _LEAST_BIAS:
            fits = _fits(square, numel, _drawn_by_torch(weight), _UNIFORM)
        else:
            continue
        (fitting if fits else others).append(name)
    return fitting, others


def _drawn_by_torch(shape: Sequence[int]) -> Iterable[float]:
    """Mean squares of weights with this shape, and of their biases: of layers, and of recurrent."""
    yield 1 / (3 * math.prod(shape[1:]))
    for gates in (1, 3, 4):
        yield gates / (3 * shape[0])


def _scales(shape: Sequence[int]) -> Iterable[float]:
    """Mean squares of weights by the other usual ways to draw them."""
    kernel = math.prod(shape[2:])
    inputs, outputs = shape[1] * kernel, shape[0] * kernel
    for gain, fan in product((1 / 3, 1.0, 2.0), (inputs, outputs, (inputs + outputs) / 2)):
        yield gain / fan
    for deviation in _DEVIATIONS:
        yield deviation**2


def _fits(square: float, numel: int, scales: Iterable[float], errors: float) -> bool:
    room = errors / math.sqrt(numel)
    return any(abs(square / scale - 1) < room for scale in scales)
