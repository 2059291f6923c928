"""What TensorBoard's ``add_*`` calls make of their arguments: samples, histograms and files.

The results are those of ``torch.utils.tensorboard``: the same pixels, the same counts, and the same
types of exceptions for arguments that cannot be accepted. NumPy is imported by whoever imports
this, torch and TensorBoard by nobody.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from epochal.exchange.imports import histogram as binned
from epochal.exchange.imports.tfevents_event import KeptFile, Layout, curve_table, npy, npz
from epochal.exchange.media import pixels as media
from epochal.exchange.media.types import Audio, Image, Sample, Table, Video
from epochal.journal.blobs import encode_png, media_type_of_name
from epochal.records import Record
from epochal.records.values import element_count
from epochal.run import histogram as counted

if TYPE_CHECKING:
    pass


Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]

_GRID_COLUMNS = 8
# How many equal bins the default histogram has.
_BINS = 64
_MAX_BINS = 10_000
_SMALLEST_COUNT = 1e-7
# TensorBoard's table of curves has no more thresholds.
MAX_THRESHOLDS = 127


def as_array(value: Any) -> Array:
    """A NumPy array, a number or a torch tensor on any device as an array.

    Raises ``NotImplementedError`` for anything else, ``ValueError`` for a text.
    """
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 (what torch raises for it)
            f"{value!r} is a text: names of Caffe2 blobs are not supported, pass the values."
        )
    if not np.isscalar(value) and not hasattr(value, "__array__"):
        raise NotImplementedError(f"Got {type(value)}, but an array or a tensor is expected.")
    return media.as_array([value] if np.isscalar(value) else value, what="the argument")


def histogram(name: str, values: Any, bins: Any, max_bins: int | None) -> Record:
    """The record of a distribution, without time and step; ``bins`` are torch's or NumPy's."""
    count = element_count(values)
    if count == 0:
        raise ValueError("The input has no element.")
    is_default = isinstance(bins, str) and bins == "tensorflow"
    if count is None or not is_default:
        values = as_array(values)
    if not isinstance(bins, (str, int)):
        counts, edges = np.histogram(values, bins)
        moments = float(values.mean()), float(values.std())
        return binned.histogram_record(
            name, t=0.0, step=0, edges=edges, counts=counts, moments=moments
        )
    number = _BINS if is_default else len(np.histogram_bin_edges(values, bins)) - 1
    number = max(1, min(number, _MAX_BINS if max_bins is None else int(max_bins)))
    return counted.histogram_record(0.0, name=name, values=values, step=0, bins=number)


def image(value: Any, dataformats: str, boxes: Any = None, labels: Any = None) -> Image:
    """An image, or a batch of images as a grid; floats are taken as 0 to 1.

    Labels that are not one for each box are left out, as torch does.
    """
    pixels = _bytes(_to_hwc(as_array(value), dataformats))
    if boxes is None:
        return Image(pixels)
    edges = as_array(boxes).tolist()
    labels = [labels] if isinstance(labels, str) else labels
    if labels is None or len(labels) != len(edges):
        labels = [None] * len(edges)
    pairs = zip(edges, labels, strict=True)
    return Image(pixels, boxes=[{"box": box, "label": label} for box, label in pairs])


def videos(value: Any, fps: float) -> Sample | list[Sample]:
    """The videos of an N×T×C×H×W array; one of them by itself."""
    found = [Video(_bytes(frames.transpose(0, 2, 3, 1)), fps) for frames in as_array(value)]
    return found[0] if len(found) == 1 else list(found)


def audio(value: Any, sample_rate: int) -> Audio:
    """A sound of one channel."""
    sound = as_array(value).squeeze()
    if sound.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    return Audio(sound, sample_rate)


def tensor(value: Any) -> KeptFile:
    """A tensor as a NumPy file."""
    return KeptFile(npy(as_array(value)), "application/x-npy")


def checked_layout(layout: Mapping[str, Mapping[str, Any]]) -> Layout:
    """The tags of charts by category and title; raises what torch raises."""
    for charts in layout.values():
        for kind, tags in charts.values():
            if kind == "Margin" and len(tags) != 3:
                raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
    return {
        category: {title: list(tags) for title, (_, tags) in charts.items()}
        for category, charts in layout.items()
    }


def _bytes(array: Array) -> Pixels:
    """Values of pixels as torch turns them into bytes: it scales all but bytes, and truncates."""
    scale = 1 if array.dtype == np.uint8 else 255
    return (array.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def grid(images: Array, columns: int = _GRID_COLUMNS) -> Array:
    """N×C×H×W images of one or three channels as one 3×H×W image."""
    if images.ndim == 4 and images.shape[1] == 1:
        images = np.concatenate([images, images, images], 1)
    if images.ndim != 4 or images.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, _, height, width = images.shape
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    tiles = np.zeros((rows * columns, 3, height, width), dtype=images.dtype)
    tiles[:count] = images
    placed = tiles.reshape(rows, columns, 3, height, width).transpose(2, 0, 3, 1, 4)
    return placed.reshape(3, rows * height, columns * width)


def pr_curve(labels: Any, predictions: Any, num_thresholds: int, weights: Any) -> Table:
    """The precision-recall curve at evenly spaced thresholds."""
    num_thresholds = min(num_thresholds, MAX_THRESHOLDS)
    truth = as_array(labels).astype(np.float64)
    weight = 1.0 if weights is None else weights
    bucket = np.floor(as_array(predictions) * (num_thresholds - 1))
    if num_nan := int(np.isnan(bucket).sum()):
        warnings.warn(f"add_pr_curve leaves out {num_nan} predictions that are NaN.", stacklevel=3)

    def reached(amounts: Array) -> Array:
        edges = (0, num_thresholds - 1)
        counts, _ = np.histogram(bucket, bins=num_thresholds, range=edges, weights=amounts)
        return np.asarray(np.cumsum(counts[::-1])[::-1])

    tp, fp = reached(truth * weight), reached((1.0 - truth) * weight)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(_SMALLEST_COUNT, tp + fp)
    recall = tp / np.maximum(_SMALLEST_COUNT, tp + fn)
    return curve_table(np.stack((tp, fp, tn, fn, precision, recall)))


def raw_curve(*rows: Any) -> Table:
    """A curve as it is given: lists, arrays or tensors."""
    return curve_table(np.stack([row if isinstance(row, list) else as_array(row) for row in rows]))


def mesh(vertices: Any, colors: Any, faces: Any, config: Mapping[str, Any] | None) -> KeptFile:
    """A NumPy file of a mesh; raises ValueError for an array that is not of shape B×N×3."""
    given = {"vertices": vertices, "faces": faces, "colors": colors}
    arrays = {name: as_array(value) for name, value in given.items() if value is not None}
    for name, array in arrays.items():
        if array.ndim != 3 or array.shape[-1] != 3:
            raise ValueError(f"{name} should be of shape BxNx3, but got {array.shape}.")
    if config is not None:
        arrays["config"] = np.array(json.dumps(config, sort_keys=True))
    return KeptFile(npz(arrays), "application/x-npz")


def _to_hwc(array: Array, dataformats: str) -> Array:
    axes = dataformats.upper()
    order = {4: "NCHW", 3: "HWC", 2: "HW"}.get(array.ndim, "")
    if len(axes) != len(order) or set(axes) != set(order):
        raise AssertionError(f"shape {array.shape} does not have the dimensions {dataformats!r}.")
    placed = array.transpose([axes.find(axis) for axis in order])
    if len(order) == 4:
        return grid(placed).transpose(1, 2, 0)
    placed = placed if len(order) == 3 else placed[:, :, None]
    return np.concatenate([placed] * 3, 2) if placed.shape[2] == 1 else placed


def projector_files(
    mat: Any, metadata: Any, label_img: Any, metadata_header: Any
) -> dict[str, KeptFile]:
    """The files that TensorBoard's projector takes: points, their labels, and their pictures.

    Raises AssertionError where the sizes do not fit.
    """
    points = as_array(mat)
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    rows = ("\t".join(map(str, row)) for row in points.tolist())
    files = {"tensors.tsv": "".join(f"{row}\n" for row in rows).encode()}
    if metadata is not None:
        if points.shape[0] != len(metadata):
            raise AssertionError("#labels should equal with #data points")
        files["metadata.tsv"] = _labels(metadata, metadata_header)
    if label_img is not None:
        images = as_array(label_img)
        if points.shape[0] != images.shape[0]:
            raise AssertionError("#images should equal with #data points")
        files["sprite.png"] = _sprite(images)
    return {name: KeptFile(data, media_type_of_name(name)) for name, data in files.items()}


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
    return encode_png(media.pixels_of((square * 255).clip(0, 255).astype(np.uint8)))
