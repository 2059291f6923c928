"""The files that TensorBoard's projector takes: points, their labels, and their pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from epochal.integrations.tensorboard_values import as_array, grid
from epochal.run.samples import encode_png

_TSV = "text/tab-separated-values"


def files(
    mat: Any, metadata: Any, label_img: Any, metadata_header: Any
) -> Mapping[str, tuple[bytes, str]]:
    """Name to content and media type, the points first.

    Raises AssertionError where the sizes do not fit.
    """
    points = as_array(mat)
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    rows = ("\t".join(str(number) for number in row) for row in points.tolist())
    found = {"tensors": ("".join(f"{row}\n" for row in rows).encode(), _TSV)}
    if metadata is not None:
        if points.shape[0] != len(metadata):
            raise AssertionError("#labels should equal with #data points")
        found["metadata"] = (_labels(metadata, metadata_header), _TSV)
    if label_img is not None:
        images = as_array(label_img)
        if points.shape[0] != images.shape[0]:
            raise AssertionError("#images should equal with #data points")
        found["sprite"] = (_sprite(images), "image/png")
    return found


def _labels(metadata: Any, header: Any) -> bytes:
    if not header:
        lines = [str(label) for label in metadata]
    else:
        if len(header) != len(metadata[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        lines = ["\t".join(str(cell) for cell in row) for row in (header, *metadata)]
    return ("\n".join(lines) + "\n").encode()


def _sprite(images: Any) -> bytes:
    """The pictures in a square, as the projector wants them."""
    arranged = grid(images, math.ceil(images.shape[0] ** 0.5)).transpose(1, 2, 0)
    square = np.zeros((arranged.shape[1], arranged.shape[1], 3))
    square[: arranged.shape[0]] = arranged
    return encode_png((square * 255).clip(0, 255).astype(np.uint8))
