"""How large weights start, beside what torch's own initialisation gives to such a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

# More than this, or less, is worth an event. He and Glorot give 0.5 to 3 times torch's own.
_LARGE, _SMALL = 3.0, 0.1
_LEAST = 2  # matrices that tell


@dataclass(frozen=True, slots=True)
class Scale:
    """The median of several weights, over the scale that they have by default."""

    value: float
    parameter: str  # one with the median scale
    parameters: int


class InitialScale:
    """The weight matrices of a model with the usual size of their elements.

    Tables of vectors and parameters of other modules start at any size up to 1. They count only
    where there are hardly any layers, and only if they are large.
    """

    def __init__(self, model: nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
        names = {id(one): name for name, one in parameters.items()}
        self._layers: dict[str, nn.Module] = {}
        for module in model.modules():
            for one in module.parameters(recurse=False):
                if id(one) in names and isinstance(module, _KNOWN):
                    self._layers[names[id(one)]] = module

    def unusual(self, sizes: Mapping[str, float], shapes: Mapping[str, torch.Size]) -> Scale | None:
        """The median scale, if it is far from 1; ``sizes`` are root mean squares of elements."""
        drawn = {name: size for name, size in sizes.items() if len(shapes[name]) > 1 and size > 0}
        layers = {
            name: size / _usual(self._layers[name], shapes[name])
            for name, size in drawn.items()
            if name in self._layers
        }
        scales = layers if len(layers) >= _LEAST else drawn
        if len(scales) < _LEAST:
            return None
        middle = median(scales.values())
        is_small = middle < _SMALL and scales is layers
        if not math.isfinite(middle) or not (middle > _LARGE or is_small):
            return None
        nearest = min(scales, key=lambda name: abs(scales[name] - middle))
        return Scale(middle, nearest, len(scales))


_KNOWN = (nn.Linear, _ConvNd, nn.Bilinear, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)


def _usual(layer: nn.Module, shape: torch.Size) -> float:
    """The standard deviation of elements that torch draws for a layer."""
    if isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        return 1 / math.sqrt(3 * layer.hidden_size)
    inputs = shape[1] if isinstance(layer, nn.Bilinear) else math.prod(shape[1:])
    return 1 / math.sqrt(3 * max(1, inputs))
