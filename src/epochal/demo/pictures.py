"""Pictures of a model: its layers as SVG, a matrix of weights as colours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from epochal.demo.model import Floats, Model

_BOX_WIDTH, _BOX_HEIGHT, _GAP = 168, 56, 40
_RED = np.array([178, 24, 43])
_BLUE = np.array([33, 102, 172])
_WHITE = np.array([255, 255, 255])


def draw_layers(model: Model) -> str:
    """The model from left to right as SVG, with the parameters of each layer."""
    shape, sizes = model.shape, {name: p.size for name, p in model.parameters.items()}
    hidden = sizes["hidden.weight"] + sizes["hidden.bias"]
    output = sizes["output.weight"] + sizes["output.bias"]
    boxes = (
        ("context", f"{shape.context} characters"),
        ("embedding", f"{shape.embedding} each · {sizes['embedding']:,}"),
        ("hidden, tanh", f"{shape.hidden} units · {hidden:,}"),
        ("softmax", f"{shape.vocabulary} characters · {output:,}"),
    )
    width, middle = len(boxes) * (_BOX_WIDTH + _GAP), _BOX_WIDTH // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_BOX_HEIGHT}"'
        ' font-family="sans-serif" font-size="13" text-anchor="middle">'
    ]
    for place, (title, caption) in enumerate(boxes):
        parts.append(
            f'<g transform="translate({place * (_BOX_WIDTH + _GAP)} 0)"><rect width="{_BOX_WIDTH}"'
            f' height="{_BOX_HEIGHT}" rx="6" fill="#f4f6fa" stroke="#888"/>'
            f'<text x="{middle}" y="23" fill="#222">{title}</text>'
            f'<text x="{middle}" y="42" fill="#666" font-size="11">{caption}</text></g>'
        )
    return "".join([*parts, "</svg>"])


def colour_matrix(weights: Floats) -> npt.NDArray[np.uint8]:
    """A matrix as pixels: blue below zero, white at zero, red above, full colour at the largest."""
    share = (weights / (np.abs(weights).max() + 1e-12))[..., None]
    colour = np.where(share > 0, _RED, _BLUE)
    pixels: npt.NDArray[np.uint8] = np.rint(_WHITE + np.abs(share) * (colour - _WHITE)).astype(
        np.uint8
    )
    return pixels
