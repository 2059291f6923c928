"""Pictures as bytes; numpy and Pillow are imported only when one is encoded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.errors import MissingPackageError, UsageError, ValueTypeError
from epochal.media.files import media_type_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def encode_image(image: Any, *, name: str) -> tuple[bytes, str]:
    """The bytes and the media type of an array, a PIL image, encoded bytes or a path."""
    if isinstance(image, (str, Path)):
        try:
            image = Path(image).read_bytes()
        except OSError as error:
            raise UsageError(f"image {name!r} cannot be read: {error}") from error
    if isinstance(image, (bytes, bytearray, memoryview)):
        data = bytes(image)
        media_type = media_type_of(data)
        if media_type not in _IMAGE_TYPES:
            raise ValueTypeError(f"image {name!r} is not PNG, JPEG, GIF or WebP data.")
        return data, media_type
    if hasattr(image, "convert") and hasattr(image, "getdata"):  # a PIL image
        image = image.convert("RGBA" if "A" in image.getbands() else "RGB")
    return encode_png(_as_pixels(image, name=name)), "image/png"


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG of an H×W, H×W×1, H×W×3 or H×W×4 array of bytes; raises ``MissingPackageError``."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingPackageError("a picture of an array", error) from error
    is_grey = pixels.ndim == 3 and pixels.shape[2] == 1
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if is_grey else pixels).save(file, format="PNG")
    return file.getvalue()


def _as_pixels(image: Any, *, name: str) -> npt.NDArray[np.uint8]:
    """H×W×C bytes of an array: floats are taken as 0 to 1, a leading channel axis is moved last."""
    import numpy as np

    array = as_array(image, what=f"image {name!r}")
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise ValueTypeError(
            f"image {name!r} has shape {tuple(array.shape)}: use H×W, H×W×3, H×W×4 or C×H×W."
        )
    if array.size == 0:
        raise ValueTypeError(f"image {name!r} is empty.")
    if array.dtype != np.uint8:
        scale = 255.0 if array.dtype.kind in "fb" else 1.0
        filled = np.nan_to_num(array.astype(np.float64) * scale)
        array = np.clip(np.rint(filled), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(array)


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
