"""Arrays, tensors, PIL images and figures as pixels; numpy is imported only when one is read."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from epochal.errors import ValueTypeError
from epochal.journal.blobs import MAX_VALUES, Pixels

if TYPE_CHECKING:
    import numpy.typing as npt

_CHANNELS = (1, 3, 4)
_PIL_CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
# WebP has no longer sides.
_MOST_PIXELS = 16_383
Note = Callable[[str], object]


def is_pil_image(value: Any) -> bool:
    """Whether a value is a PIL image."""
    return hasattr(value, "getbands") and hasattr(value, "tobytes")


def is_figure(value: Any) -> bool:
    """Whether a value is a figure of Matplotlib, or axes or another part of one."""
    is_own = type(value).__module__.startswith("matplotlib.")
    return is_own and (hasattr(value, "savefig") or hasattr(value, "get_figure"))


def pixels_of(image: Any, note: Note = bool) -> Pixels:
    """The pixels of an array (H×W, H×W×C, C×H×W) or of a PIL image.

    Floats are taken as 0 to 1, integers as 0 to 255; ``note`` is told of others.
    """
    if is_pil_image(image):
        if image.mode not in _PIL_CHANNELS:
            has_alpha = "A" in image.getbands() or "transparency" in image.info
            image = image.convert("RGBA" if has_alpha else "RGB")
        if 0 in image.size:
            raise ValueTypeError(f"a picture of {image.width}×{image.height} pixels is empty.")
        return Pixels(image.tobytes(), image.width, image.height, _PIL_CHANNELS[image.mode])
    array = as_array(image, what="a picture")
    if array.ndim == 3 and array.shape[0] in _CHANNELS and array.shape[2] not in _CHANNELS:
        array = array.transpose(1, 2, 0)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in _CHANNELS):
        raise ValueTypeError(
            f"a picture of shape {tuple(array.shape)} is not known: use H×W, H×W×3, H×W×4 or C×H×W."
            " For a batch, log a list of pictures."
        )
    if not 0 < array.size <= MAX_VALUES:
        size = "empty" if array.size == 0 else f"too large: use at most {MAX_VALUES:,} values"
        raise ValueTypeError(f"a picture of shape {tuple(array.shape)} is {size}.")
    channels = array.shape[2] if array.ndim == 3 else 1
    return Pixels(_bytes(array, note), array.shape[1], array.shape[0], channels)


def frames_of(video: Any, fps: float, note: Note = bool) -> Pixels:
    """The pixels of a video: an array T×H×W×C or T×C×H×W."""
    array = as_array(video, what="a video")
    if array.ndim == 4 and array.shape[1] in _CHANNELS and array.shape[3] not in _CHANNELS:
        array = array.transpose(0, 2, 3, 1)
    if array.ndim != 4 or array.shape[3] not in _CHANNELS or array.size == 0:
        raise ValueTypeError(
            f"a video of shape {tuple(array.shape)} is not known: use T×H×W×C or T×C×H×W."
        )
    if max(array.shape) > _MOST_PIXELS or array.size > MAX_VALUES:
        raise ValueTypeError(f"a video of shape {tuple(array.shape)} is too large.")
    if not 0 < fps < 1000:
        raise ValueTypeError(f"fps={fps!r} must be a number above 0.")
    frames, height, width, channels = array.shape
    return Pixels(_bytes(array, note), width, height, channels, frames, float(fps))


def figure_png(figure: Any) -> bytes:
    """A Matplotlib figure as it looks now."""
    file = io.BytesIO()
    whole = figure if hasattr(figure, "savefig") else figure.get_figure()
    whole.savefig(file, format="png")
    return file.getvalue()


def as_array(values: Any, *, what: str) -> npt.NDArray[Any]:
    """Numbers of any library as a numpy array; raises for anything else."""
    import numpy as np

    if hasattr(values, "detach"):  # a torch tensor, wherever it lives
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        values = values.numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueTypeError(f"{what} must hold numbers, not {array.dtype}.")
    return array


def _bytes(array: npt.NDArray[Any], note: Note) -> bytes:
    """The values of pixels as bytes, a copy in any case; those out of range are clipped."""
    import numpy as np

    pixels: npt.NDArray[np.uint8]
    if array.dtype == np.uint8:
        return array.tobytes()
    if array.dtype.kind == "b":
        pixels = array * np.uint8(255)
        return pixels.tobytes()
    low, high = float(array.min()), float(array.max())
    is_float = array.dtype.kind == "f"
    most = 1.0 if is_float else 255
    if not (-0.01 * most <= low and high <= 1.01 * most):  # not numbers, too
        taken = "floats of a picture as 0 to 1" if is_float else "integers of a picture as 0 to 255"
        note(f"Epochal reads {taken}. Yours go from {low:g} to {high:g}; the rest is clipped.")
    if is_float:
        kind = np.float64 if array.dtype.itemsize == 8 else np.float32
        scaled = np.multiply(array, 255.0, dtype=kind)
        if not np.isfinite(high - low):
            np.nan_to_num(scaled, copy=False)
        scaled += 0.5
        pixels = np.clip(scaled, 0.0, 255.0, out=scaled).astype(np.uint8)
    else:
        pixels = np.clip(array, 0, 255).astype(np.uint8)
    return pixels.tobytes()
