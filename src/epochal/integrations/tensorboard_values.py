"""What TensorBoard's ``add_*`` calls make of their arguments: pixels, frames, sound, curves.

The results are those of ``torch.utils.tensorboard``: the same pixels, the same counts, and the same
types of exceptions for arguments that cannot be accepted. NumPy is imported by whoever imports
this, torch and TensorBoard by nobody.
"""

from __future__ import annotations

import io
import json
import math
import wave
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from epochal.errors import MissingPackageError
from epochal.journal.line import encode_json
from epochal.media.encode import encode_png
from epochal.media.files import PR_CURVE_COLUMNS
from epochal.media.pixels import pixels_of

Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]

_GRID_COLUMNS = 8
_TSV = "text/tab-separated-values"
_SMALLEST_COUNT = 1e-7
# TensorBoard's table of curves has no more thresholds.
MAX_THRESHOLDS = 127


def as_array(value: Any) -> Array:
    """A NumPy array, a number or a torch tensor on any device as an array.

    Raises ``NotImplementedError`` for anything else, ``ValueError`` for a text.
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 (what torch raises for it)
            f"{value!r} is a text: names of Caffe2 blobs are not supported, pass the values."
        )
    if np.isscalar(value):
        return np.array([value])
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        tensor = value.detach()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        array: Array = tensor.cpu().numpy()
        return array
    raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")


def image_pixels(value: Any, dataformats: str) -> Pixels:
    """H×W×C bytes of an image, or of a batch of images as a grid; floats are taken as 0 to 1."""
    return to_bytes(_to_hwc(as_array(value), dataformats))


def to_bytes(array: Array) -> Pixels:
    """Values of pixels as bytes; those out of range are clipped."""
    scale = 1 if array.dtype == np.uint8 else 255
    scaled = (array.astype(np.float32) * scale).clip(0, 255)
    return scaled.astype(np.uint8)


def grid(images: Array, columns: int = _GRID_COLUMNS) -> Array:
    """N×C×H×W images of one or three channels as one 3×H×W image."""
    if images.ndim == 4 and images.shape[1] == 1:
        images = np.concatenate([images, images, images], 1)
    if images.ndim != 4 or images.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, _, height, width = images.shape
    columns = min(count, columns)
    rows = int(np.ceil(count / columns))
    canvas = np.zeros((3, height * rows, width * columns), dtype=images.dtype)
    for number, image in enumerate(images):
        top, left = number // columns * height, number % columns * width
        canvas[:, top : top + height, left : left + width] = image
    return canvas


def with_boxes(pixels: Pixels, boxes: Any, labels: Any, rescale: float) -> Pixels:
    """An image with boxes (left, top, right, bottom) and their labels drawn into it, resized.

    Labels that are not one for each box are left out, as torch does.
    """
    labels = [labels] if isinstance(labels, str) else labels
    if labels is not None and len(labels) != len(boxes):
        labels = None
    image_module = _pillow("add_image_with_boxes")
    from PIL import ImageDraw, ImageFont

    image = image_module.fromarray(pixels)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default()
    for number, box in enumerate(as_array(boxes)):
        left, top, right, bottom = (float(edge) for edge in box)
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(corners, width=2, fill="Red")
        if labels is None or not labels[number]:
            continue
        inner = font.getbbox(labels[number])
        width, height = inner[2] - inner[0], inner[3] - inner[1]
        margin = np.ceil(0.05 * height)
        draw.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
        place = (left + margin, bottom - height - margin)
        draw.text(place, labels[number], fill="black", font=font)
    size = (int(image.width * rescale), int(image.height * rescale))
    return np.asarray(image.resize(size, image_module.Resampling.LANCZOS))


def figure_pixels(figures: Any, *, close: bool) -> Pixels:
    """C×H×W bytes of a Matplotlib figure, N×C×H×W of a list of them."""
    if isinstance(figures, list):
        return np.stack([figure_pixels(figure, close=close) for figure in figures])
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[:, :, :3]
    if close:
        from matplotlib import pyplot

        pyplot.close(figures)
    return np.moveaxis(drawn, 2, 0)


def gif(value: Any, fps: float) -> bytes:
    """An animated GIF of N×T×C×H×W frames; the N videos stand side by side in a grid."""
    image_module = _pillow("add_video")
    frames = to_bytes(video_frames(as_array(value)))
    images = [image_module.fromarray(_as_rgb(frame)) for frame in frames]
    out = io.BytesIO()
    images[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=max(1, round(1000 / fps)),
        loop=0,
    )
    return out.getvalue()


def video_frames(videos: Array) -> Array:
    """N×T×C×H×W videos as T×H×W×C frames, the N of them in a grid that is filled up."""
    count, length, channels, height, width = videos.shape
    if videos.dtype == np.uint8:
        videos = videos.astype(np.float32) / 255.0
    if count & (count - 1):
        missing = 2 ** int(count).bit_length() - count
        nothing = np.zeros((missing, length, channels, height, width))
        videos = np.concatenate((videos, nothing), axis=0)
    rows = 2 ** ((int(count).bit_length() - 1) // 2)
    columns = videos.shape[0] // rows
    tiles = videos.reshape(rows, columns, length, channels, height, width)
    ordered = tiles.transpose(2, 0, 4, 1, 5, 3)
    return ordered.reshape(length, rows * height, columns * width, channels)


def wav(value: Any, sample_rate: int) -> bytes:
    """A WAV file of one channel; values are between -1 and 1, those beyond are clipped."""
    sound = as_array(value).squeeze()
    if sound.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    samples = (sound.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.tobytes())
    return out.getvalue()


def pr_curve(labels: Any, predictions: Any, num_thresholds: int, weights: Any) -> Array:
    """The rows of ``PR_CURVE_COLUMNS`` at evenly spaced thresholds."""
    num_thresholds = min(num_thresholds, MAX_THRESHOLDS)
    truth = as_array(labels).astype(np.float64)
    weight = 1.0 if weights is None else weights
    bucket = np.floor(as_array(predictions) * (num_thresholds - 1)).astype(np.int32)

    def reached(amounts: Array) -> Array:
        edges = (0, num_thresholds - 1)
        counts, _ = np.histogram(bucket, bins=num_thresholds, range=edges, weights=amounts)
        return np.asarray(np.cumsum(counts[::-1])[::-1])

    tp, fp = reached(truth * weight), reached((1.0 - truth) * weight)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(_SMALLEST_COUNT, tp + fp)
    recall = tp / np.maximum(_SMALLEST_COUNT, tp + fn)
    return np.stack((tp, fp, tn, fn, precision, recall))


def raw_curve(*rows: Any) -> Array:
    """The rows of ``PR_CURVE_COLUMNS`` as they are given: lists, arrays or tensors."""
    return np.stack([row if isinstance(row, list) else as_array(row) for row in rows])


def curve_table(curve: Array) -> bytes:
    """A curve as JSON, with ``columns`` and ``data``: one row for each threshold."""
    thresholds = np.linspace(0.0, 1.0, curve.shape[1])
    rows = np.vstack((thresholds, curve)).T.tolist()
    return encode_json({"columns": PR_CURVE_COLUMNS, "data": rows})


def npy(array: Array) -> bytes:
    """A NumPy file of an array."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def mesh_arrays(vertices: Any, colors: Any, faces: Any) -> dict[str, Array]:
    """The arrays of meshes by name; raises ValueError for one that is not of shape B×N×3."""
    given = {"vertices": vertices, "colors": colors, "faces": faces}
    arrays = {name: as_array(value) for name, value in given.items() if value is not None}
    for name, array in arrays.items():
        if array.ndim != 3 or array.shape[-1] != 3:
            raise ValueError(f"{name} should be of shape BxNx3, but got {array.shape}.")
    return arrays


def npz(arrays: Mapping[str, Array], config: Mapping[str, Any] | None) -> bytes:
    """A NumPy file of several arrays, and of a configuration as JSON."""
    out = io.BytesIO()
    words = {} if config is None else {"config": np.array(json.dumps(config, sort_keys=True))}
    np.savez_compressed(out, **arrays, **words)  # type: ignore[arg-type]
    return out.getvalue()


def counted(values: Array, bins: Any, max_bins: int | None) -> tuple[Array, Array]:
    """Edges and counts of given bins, the empty ones at both ends left out."""
    counts, edges = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        together = len(counts) // max_bins
        padding = -len(counts) % together
        last = edges[-1:]
        counts = np.pad(counts, (0, padding)).reshape(-1, together).sum(axis=-1)
        edges = np.concatenate((edges[:-1:together], last))
    held = np.flatnonzero(counts)
    if not held.size:
        return edges, counts
    first, end = int(held[0]), int(held[-1]) + 1
    return edges[first : end + 1], counts[first:end]


def _to_hwc(array: Array, dataformats: str) -> Array:
    if len(set(dataformats)) != len(dataformats):
        raise AssertionError(f"dataformats={dataformats!r} names one dimension twice.")
    if array.ndim != len(dataformats):
        raise AssertionError(
            "size of input tensor and input format are different."
            f" tensor shape: {array.shape}, input_format: {dataformats}"
        )
    order = {4: "NCHW", 3: "HWC", 2: "HW"}.get(len(dataformats), "")
    if not order or set(dataformats.upper()) != set(order):
        raise AssertionError(f"dataformats={dataformats!r} must be an order of NCHW, CHW or HW.")
    placed = array.transpose([dataformats.upper().find(axis) for axis in order])
    if len(order) == 4:
        return grid(placed).transpose(1, 2, 0)
    if len(order) == 2:
        return np.stack([placed, placed, placed], 2)
    return np.concatenate([placed] * 3, 2) if placed.shape[2] == 1 else placed


def _as_rgb(frame: Pixels) -> Pixels:
    return np.repeat(frame, 3, axis=2) if frame.shape[2] == 1 else frame


def _pillow(call: str) -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingPackageError(call, error) from error
    return Image


def projector_files(
    mat: Any, metadata: Any, label_img: Any, metadata_header: Any
) -> Mapping[str, tuple[bytes, str]]:
    """The files that TensorBoard's projector takes: points, their labels, and their pictures.

    Name to content and media type, the points first.

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
    return encode_png(pixels_of((square * 255).clip(0, 255).astype(np.uint8)))
