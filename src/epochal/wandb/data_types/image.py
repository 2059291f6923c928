"""``wandb.Image``: pixels, a figure, a picture of Pillow or a file."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

from epochal.media.files import media_type_of
from epochal.wandb.data_types.media import Media, MediaFile
from epochal.wandb.notices import not_supported

# Modes of Pillow that a format can hold.
_MODES = {"jpeg": ("L", "RGB", "CMYK"), "png": ("1", "L", "LA", "P", "RGB", "RGBA", "I")}


class Image(Media):
    """A picture with a caption. Boxes and masks are accepted and not drawn."""

    _log_type = "image-file"

    def __init__(
        self,
        data_or_path: Any,
        mode: str | None = None,
        caption: str | None = None,
        grouping: int | None = None,
        classes: Any = None,
        boxes: Any = None,
        masks: Any = None,
        file_type: str | None = None,
    ) -> None:
        super().__init__(caption)
        if boxes or masks:
            not_supported("Image(boxes=, masks=)", "the picture is kept without them")
        self._data: bytes
        self._type: str
        if isinstance(data_or_path, Image):
            self._data, self._type = data_or_path._data, data_or_path._type
            self._caption = caption or data_or_path._caption
        elif isinstance(data_or_path, (str, os.PathLike)):
            with open(data_or_path, "rb") as file:
                self._data = file.read()
            self._type = media_type_of(self._data, otherwise="image/png")
        else:
            self._data, self._type = _encoded(data_or_path, mode, file_type)
        self.format = self._type.rpartition("/")[2]
        self.grouping = grouping

    @property
    def image(self) -> Any:
        """The picture as one of Pillow, which must be installed."""
        from PIL import Image as pillow  # noqa: N813 (its module of that name)

        return pillow.open(io.BytesIO(self._data))

    def files(self) -> Iterator[MediaFile]:
        """The picture."""
        yield MediaFile(self._data, self._type, self._caption)


def is_figure(value: Any) -> bool:
    """Whether a value is of Matplotlib: a figure, an artist, or its module ``pyplot``."""
    name = getattr(value, "__name__", "") or ""
    return name == "matplotlib.pyplot" or type(value).__module__.startswith("matplotlib.")


def _encoded(value: Any, mode: str | None, file_type: str | None) -> tuple[bytes, str]:
    if file_type not in (None, "png", "jpg", "jpeg", "bmp"):
        raise ValueError("file_type must be one of ['png', 'jpg', 'jpeg', 'bmp']")
    if is_figure(value):
        buffer = io.BytesIO()
        _figure_of(value).savefig(buffer, format="png")
        return buffer.getvalue(), "image/png"
    if hasattr(value, "convert") and hasattr(value, "getbands"):  # Pillow's
        return _saved(value if mode is None else value.convert(mode), file_type)
    pixels = _pixels(value)
    if mode is None and file_type in (None, "png"):
        from epochal.media.encode import encode_png
        from epochal.media.pixels import pixels_of

        return encode_png(pixels_of(pixels)), "image/png"
    from PIL import Image as pillow  # noqa: N813

    grey = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
    picture = pillow.fromarray(grey)
    return _saved(picture if mode is None else picture.convert(mode), file_type)


def _saved(picture: Any, file_type: str | None) -> tuple[bytes, str]:
    kind = {"jpg": "jpeg"}.get(file_type or "png", file_type or "png")
    if picture.mode not in _MODES.get(kind, ("L", "RGB")):
        picture = picture.convert("RGB")
    buffer = io.BytesIO()
    picture.save(buffer, format=kind)
    return buffer.getvalue(), f"image/{kind}"


def _figure_of(value: Any) -> Any:
    if hasattr(value, "savefig") and not hasattr(value, "gcf"):
        return value
    if hasattr(value, "gcf"):
        return value.gcf()
    figure = getattr(value, "figure", None)
    if figure is None:
        raise ValueError("only matplotlib.pyplot, figures and their artists are accepted.")
    return figure


def _pixels(value: Any) -> Any:
    """H×W or H×W×C bytes; a tensor of torch has its channels first."""
    import numpy as np

    from epochal.integrations.tensorboard_values import as_array

    is_channels_first = hasattr(value, "permute") and hasattr(value, "detach")
    if hasattr(value, "numpy") and not is_channels_first:
        value = value.numpy()
    array = as_array(value)
    if is_channels_first and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.ndim > 3 or (array.ndim == 3 and array.shape[-1] == 1):
        array = array.squeeze()
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (1, 3, 4)):
        raise ValueError(f"Un-supported shape for image conversion {list(array.shape)}")
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype.kind == "f" and array.size:
        low, high = float(np.nanmin(array)), float(np.nanmax(array))
        if low >= 0 and high <= 1:
            array = array * 255
        elif low >= -1 and high <= 1:
            array = (array + 1) * 127.5
    return np.nan_to_num(array.astype(float)).clip(0, 255).astype(np.uint8)
