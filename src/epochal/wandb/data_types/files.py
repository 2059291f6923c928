"""Sounds, videos, shapes and molecules: kept as the files they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from epochal.errors import MissingPackageError
from epochal.journal.line import encode_json
from epochal.media.files import UNKNOWN, media_type_of_name
from epochal.wandb.data_types.media import Media, MediaFile, path_or_data
from epochal.wandb.notices import say_once

_FORMATS = {"gif": "image/gif", "mp4": "video/mp4", "webm": "video/webm", "ogg": "video/ogg"}


class _File(Media):
    """A value that is one file; data that is given is encoded by the subclass."""

    def __init__(self, data: bytes, media_type: str, caption: str | None) -> None:
        super().__init__(caption)
        self._data, self._media_type = data, media_type

    def files(self) -> Iterator[MediaFile]:
        """The file."""
        if not self._media_type.startswith("image/"):
            say_once(
                f"what wandb.{type(self).__name__} holds is kept as a file of the run; the page"
                " links to it and does not show it yet."
            )
        yield MediaFile(self._data, self._media_type, self._caption)


class Audio(_File):
    """A sound: a file's path, or samples between -1 and 1 with their rate."""

    _log_type = "audio-file"

    def __init__(
        self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None
    ) -> None:
        if isinstance(data_or_path, (str, os.PathLike)):
            name = str(data_or_path)
            super().__init__(path_or_data(name, what="Audio"), media_type_of_name(name), caption)
            return
        if sample_rate is None:
            raise ValueError(
                'Argument "sample_rate" is required when instantiating wandb.Audio with raw data.'
            )
        import numpy as np

        from epochal.integrations.tensorboard_values import as_array, wav

        samples = data_or_path
        samples = np.asarray(samples) if isinstance(samples, (list, tuple)) else as_array(samples)
        if samples.dtype.kind in "iu":
            samples = samples / float(np.iinfo(samples.dtype).max)
        super().__init__(wav(samples, sample_rate), "audio/wav", caption)


class Video(_File):
    """A video: a file's path, an open file, or frames (T×C×H×W, or N×T×C×H×W) as bytes."""

    _log_type = "video-file"
    EXTS = tuple(_FORMATS)

    def __init__(
        self,
        data_or_path: Any,
        caption: str | None = None,
        fps: int | None = None,
        format: str | None = None,  # noqa: A002 (W&B's name)
    ) -> None:
        if format is not None and format not in _FORMATS:
            raise ValueError(f"wandb.Video accepts {', '.join(_FORMATS)} formats")
        if isinstance(data_or_path, (str, os.PathLike)) or hasattr(data_or_path, "read"):
            data = path_or_data(data_or_path, what="Video")
            known = media_type_of_name(str(getattr(data_or_path, "name", data_or_path)))
            super().__init__(data, known if format is None else _FORMATS[format], caption)
            return
        from epochal.integrations import tensorboard_values as values

        frames = values.as_array(data_or_path)
        batch = frames[None] if frames.ndim == 4 else frames
        if format not in (None, "gif"):
            say_once(
                "frames given to wandb.Video are kept as an animated GIF, not as another format."
            )
        try:
            super().__init__(values.gif(batch, fps or 4), "image/gif", caption)
        except MissingPackageError:
            say_once(
                "frames given to wandb.Video are kept as a NumPy file: Pillow is not installed."
            )
            super().__init__(values.npy(frames), "application/x-npy", caption)


class Object3D(_File):
    """A cloud of points (N×3, N×4 or N×6), a scene, or the file of a shape."""

    _log_type = "object3D-file"
    SUPPORTED_TYPES = ("obj", "gltf", "glb", "babylon", "stl", "pts.json")

    def __init__(self, data_or_path: Any, caption: str | None = None, **kwargs: Any) -> None:
        if isinstance(data_or_path, (str, os.PathLike)) or hasattr(data_or_path, "read"):
            data = path_or_data(data_or_path, what="Object3D")
            name = str(getattr(data_or_path, "name", data_or_path))
            super().__init__(data, media_type_of_name(name), caption)
        elif isinstance(data_or_path, dict):
            super().__init__(encode_json(_plain(data_or_path)), "application/json", caption)
        else:
            from epochal.integrations.tensorboard_values import as_array, npy

            points = as_array(data_or_path)
            if points.ndim != 2 or points.shape[1] not in (3, 4, 6):
                raise ValueError("The shape of the numpy array must be one of either N×3, 4 or 6.")
            super().__init__(npy(points), "application/x-npy", caption)

    @classmethod
    def from_file(cls, data_or_path: Any, file_type: str | None = None) -> Object3D:
        """The shape of a file."""
        return cls(data_or_path)

    @classmethod
    def from_numpy(cls, data: Any) -> Object3D:
        """A cloud of points."""
        return cls(data)

    @classmethod
    def from_point_cloud(
        cls, points: Any, boxes: Any = (), vectors: Any = None, point_cloud_type: str = "lidar/beta"
    ) -> Object3D:
        """A scene of points, boxes and vectors."""
        scene = {"type": point_cloud_type, "points": points, "boxes": boxes, "vectors": vectors}
        return cls(scene)


class Molecule(_File):
    """A molecule: the path of its file, or an open file with its type."""

    _log_type = "molecule-file"

    def __init__(self, data_or_path: Any, caption: str | None = None, **kwargs: str) -> None:
        super().__init__(path_or_data(data_or_path, what="Molecule"), UNKNOWN, caption)


def box3d(
    *,
    center: Any,
    size: Any,
    orientation: Any,
    color: Any,
    label: str | None = None,
    score: float | None = None,
) -> dict[str, Any]:
    """A box of a scene, as a dict."""
    box = {"center": center, "size": size, "orientation": orientation, "color": color}
    return {**box, "label": label, "score": score}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
