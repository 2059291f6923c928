"""The types of ``wandb.data_types``: Epochal's own samples, with W&B's arguments and rules.

What is wrong with a value is reported when it is logged, and nothing else is lost.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.base.guard import attempt
from epochal.errors import ValueTypeError
from epochal.exchange.media import types
from epochal.exchange.media.pixels import as_array, is_pil_image
from epochal.journal.blobs import UNKNOWN, media_type_of_name
from epochal.journal.line import encode_json
from epochal.records import Record
from epochal.records.values import plain_json
from epochal.wandb.notices import ExplainsMissingMembers

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WBValue(ExplainsMissingMembers):
    """The base of all values that W&B has a type for."""


class Media(WBValue, types.Sample):
    """A value that is kept as a file."""


class Image(Media, types.Image):
    """A picture with a caption: pixels, a figure, a PIL image or a path; with boxes and masks."""

    def __init__(
        self,
        data_or_path: Any,
        mode: str | None = None,
        caption: str | None = None,
        grouping: int | None = None,
        classes: Any = None,
        boxes: Mapping[str, Any] | None = None,
        masks: Mapping[str, Any] | None = None,
        **ignored: Any,
    ) -> None:
        if isinstance(data_or_path, Image):
            self.__dict__.update(data_or_path.__dict__)
            self.caption = caption or data_or_path.caption
            return
        data, error = attempt(_picture, data_or_path, mode)
        listed = getattr(classes, "_class_set", classes) or ()
        names = {one["id"]: one["name"] for one in listed}
        found_boxes, in_boxes = attempt(lambda: list(_boxes(boxes or {}, names)))
        found_masks, in_masks = attempt(_masks, masks or {}, names)
        super().__init__(
            data, caption=caption, boxes=found_boxes or None, masks=found_masks or None
        )
        self.error = error or in_boxes or in_masks or self.error


class Audio(Media, types.Audio):
    """A sound: a file's path, or samples between -1 and 1 with their rate."""

    def __init__(
        self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None
    ) -> None:
        super().__init__(data_or_path, sample_rate, caption=caption)


class Video(Media, types.Video):
    """A video: a file's path, an open file, or frames (T×C×H×W, or N×T×C×H×W)."""

    def __init__(
        self,
        data_or_path: Any,
        caption: str | None = None,
        fps: int | None = None,
        format: str | None = None,  # noqa: A002 (W&B's name)
    ) -> None:
        is_file = isinstance(data_or_path, (str, os.PathLike)) or hasattr(data_or_path, "read")
        data, error = (data_or_path, None) if is_file else attempt(_frames, data_or_path)
        super().__init__(data, fps or 4, caption=caption)
        self.error = error or self.error


class Html(Media, types.Html):
    """A page: a text, an open file, or the path of a file that ends in ``.html``."""

    def __init__(self, data: Any, inject: bool = True, data_is_not_path: bool = False) -> None:
        is_path = isinstance(data, str) and data.endswith(".html") and os.path.isfile(data)
        if hasattr(data, "read"):
            data.seek(0)
            data = data.read()
        super().__init__(Path(data) if is_path and not data_is_not_path else data)


class Plotly(Media, types.Plotly):
    """A figure of plotly."""

    def __init__(self, val: Any) -> None:
        super().__init__(val)

    @classmethod
    def make_plot_media(cls, val: Any) -> Image | Plotly:
        """A figure of plotly or Matplotlib as what it is kept as."""
        return Image(val) if is_matplotlib(val) else cls(val)


class Object3D(Media):
    """A cloud of points, a scene, or the file of a shape: kept as a file."""

    def __init__(self, data_or_path: Any, caption: str | None = None, **kwargs: Any) -> None:
        super().__init__(caption)
        self._file: tuple[bytes, str] = self._read(_shape, data_or_path) or (b"", UNKNOWN)

    def _stored(self, keep: types.Keep) -> Record:
        data, kind = self._file
        return {"file": keep.file(data, kind), "media_type": kind, "bytes": len(data)}

    @classmethod
    def from_file(cls, data_or_path: Any, file_type: str | None = None) -> Object3D:
        """The shape of a file."""
        return cls(data_or_path)

    from_numpy = from_file

    @classmethod
    def from_point_cloud(
        cls, points: Any, boxes: Any = (), vectors: Any = None, point_cloud_type: str = "lidar/beta"
    ) -> Object3D:
        """A scene of points, boxes and vectors."""
        scene = {"type": point_cloud_type, "points": points, "boxes": boxes, "vectors": vectors}
        return cls(scene)


class Molecule(Object3D):
    """A molecule: the path of its file, or an open file; kept as a file."""


def box3d(**box: Any) -> dict[str, Any]:
    """A box of a scene, as a dict."""
    return box


class Histogram(WBValue, types.Sample):
    """A distribution: of a sequence, or counted before as ``numpy.histogram`` does it."""

    MAX_LENGTH = 512

    def __init__(
        self,
        sequence: Sequence[Any] | None = None,
        np_histogram: tuple[Any, Any] | None = None,
        num_bins: int = 64,
    ) -> None:
        import numpy as np

        super().__init__()
        if np_histogram is None:
            if isinstance(sequence, (list, tuple, range)):
                sequence = [one.item() if hasattr(one, "item") else one for one in sequence]
            array = as_array(sequence, what="a histogram").astype(float).reshape(-1)
            np_histogram = np.histogram(array[np.isfinite(array)], bins=num_bins)
        self.histogram, self.bins = (np.asarray(part).tolist() for part in np_histogram)
        if len(self.histogram) + 1 != len(self.bins):
            raise ValueError("len(bins) must be len(histogram) + 1")

    def record(self, keep: types.Keep) -> Record:
        """Counts between edges, which are stored in the journal itself."""
        from epochal.exchange.imports.histogram import histogram_record

        record = histogram_record("", t=0.0, step=0, edges=self.bins, counts=self.histogram)
        return {key: value for key, value in record.items() if key not in ("t", "step", "name")}


class Table(Media, types.Table):
    """Rows under named columns: lists, an array, or a data frame of pandas."""

    MAX_ROWS = 10_000
    MAX_ARTIFACT_ROWS = 200_000

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        **ignored: Any,
    ) -> None:
        given = next((one for one in (dataframe, data, rows) if one is not None), ())
        is_list = isinstance(given, (list, tuple))
        if columns is None and is_list and (not given or len(given[0]) == 3):
            columns = ("Input", "Output", "Expected")
        super().__init__(given, columns)
        if self.error is not None:
            raise ValueError(str(self.error))

    @property
    def data(self) -> list[list[Any]]:
        """The rows."""
        return self.rows

    def add_data(self, *data: Any) -> None:
        """Append a row, with one value for each column."""
        if len(data) != len(self.columns):
            raise ValueError(
                f"This table expects {len(self.columns)} columns: {self.columns}, found {len(data)}"
            )
        self.rows.append(list(data))

    add_row = add_data

    def add_column(self, name: str, data: Any, optional: bool = False) -> None:
        """Append a column, with one value for each row."""
        values = list(data)
        if self.rows and len(values) != len(self.rows):
            raise ValueError(f"Expected {len(self.rows)} rows, found {len(values)}")
        self.rows = self.rows or [[] for _ in values]
        for row, value in zip(self.rows, values, strict=True):
            row.append(value)
        self.columns.append(str(name))

    def get_column(self, name: Any, convert_to: str | None = None) -> Any:
        """The values of a column, as a list or with ``convert_to="numpy"`` as an array."""
        index = self.columns.index(str(name))
        values = [row[index] for row in self.rows]
        return import_module("numpy").array(values) if convert_to == "numpy" else values

    def get_dataframe(self) -> Any:
        """The table as a data frame of pandas, which must be installed."""
        return import_module("pandas").DataFrame.from_records(self.rows, columns=self.columns)

    def get_index(self) -> list[int]:
        """The numbers of the rows."""
        return list(range(len(self.rows)))

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        """Each row with its number."""
        yield from enumerate(self.rows)

    def cast(self, col_name: str, dtype: Any, optional: bool = False) -> None:
        """Do nothing: columns have no types."""


class EvalTable(Table):
    """A table of an evaluation, kept as any table; ``*_columns`` and ``backend`` have no effect."""


class Classes(WBValue):
    """Names of classes, for ``Image(classes=)``."""

    def __init__(self, class_set: Iterable[Mapping[str, Any]]) -> None:
        self._class_set = list(class_set)


class Graph(WBValue):
    """A graph of layers; accepted, and not shown."""

    def __init__(self, format: str = "keras") -> None:  # noqa: A002 (W&B's name)
        self.format = format


def is_matplotlib(value: Any) -> bool:
    """Whether a value is of Matplotlib: a figure, an artist, or its module ``pyplot``."""
    name = getattr(value, "__name__", "") or ""
    return name == "matplotlib.pyplot" or type(value).__module__.startswith("matplotlib.")


def _picture(value: Any, mode: str | None) -> Any:
    """What ``epochal.Image`` takes, of what W&B's takes."""
    if is_matplotlib(value):
        return value.gcf() if hasattr(value, "gcf") else value
    if isinstance(value, (str, os.PathLike, bytes)) or is_pil_image(value):
        return value.convert(mode) if mode is not None and hasattr(value, "convert") else value
    pixels = _as_bytes(as_array(value, what="a picture"))
    if hasattr(value, "permute") and pixels.ndim == 3:  # torch's channels are first
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim > 3 or (pixels.ndim == 3 and pixels.shape[-1] == 1):
        pixels = pixels.squeeze()
    if mode is None:
        return pixels
    return import_module("PIL.Image").fromarray(pixels).convert(mode)


def _as_bytes(array: NDArray[Any]) -> NDArray[Any]:
    """Values from 0 to 255; floats from 0 to 1 and from -1 to 1 are scaled."""
    import numpy as np

    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype.kind == "f" and array.size:
        low, high = float(np.nanmin(array)), float(np.nanmax(array))
        if low >= 0 and high <= 1:
            array = array * 255
        elif low >= -1 and high <= 1:
            array = (array + 1) * 127.5
    return np.asarray(np.nan_to_num(array.astype(float)).clip(0, 255), np.uint8)


def _frames(value: Any) -> NDArray[Any]:
    """Frames T×H×W×C; several videos are put beside each other."""
    import numpy as np

    array = _as_bytes(as_array(value, what="a video"))
    if array.ndim == 5:
        array = np.concatenate(list(array), axis=-1)
    if array.ndim != 4:
        raise ValueTypeError("a video of an array must be T×C×H×W or N×T×C×H×W.")
    return array.transpose(0, 2, 3, 1)


def _boxes(groups: Mapping[str, Any], names: Mapping[Any, str]) -> Iterator[dict[str, Any]]:
    """The boxes of all groups as ``epochal.Image`` takes them."""
    for group, given in groups.items():
        labels = {**names, **(given.get("class_labels") or {})}
        for box in given["box_data"]:
            at = box["position"]
            if "middle" in at:
                (x, y), half = map(float, at["middle"]), (at["width"] / 2, at["height"] / 2)
                edges = [x - half[0], y - half[1], x + half[0], y + half[1]]
            else:
                edges = [float(at[key]) for key in ("minX", "minY", "maxX", "maxY")]
            if box.get("domain") != "pixel":  # fractions of the picture
                edges = [min(max(edge, 0.0), 1.0) for edge in edges]
            number = box.get("class_id")
            label = box.get("box_caption") or labels.get(number)
            score = next(iter((box.get("scores") or {}).values()), None)
            label = f"class_{number}" if label is None and number is not None else label
            yield {"box": edges, "label": label, "score": score, "group": group}


def _masks(groups: Mapping[str, Any], names: Mapping[Any, str]) -> dict[str, Any]:
    """The masks as ``epochal.Image`` takes them."""
    masks: dict[str, Any] = {}
    for group, given in groups.items():
        mask = given.get("mask_data")
        if mask is None:
            mask = import_module("numpy").asarray(import_module("PIL.Image").open(given["path"]))
        masks[group] = {"mask": mask, "labels": {**names, **(given.get("class_labels") or {})}}
    return masks


def _shape(value: Any) -> tuple[bytes, str]:
    """The content of a shape or a molecule, and its media type."""
    if isinstance(value, dict):
        return encode_json(plain_json(value)), "application/json"
    if isinstance(value, (str, os.PathLike)):
        return Path(value).read_bytes(), media_type_of_name(str(value))
    if hasattr(value, "read"):
        content, kind = value.read(), media_type_of_name(str(getattr(value, "name", "")))
        return content.encode() if isinstance(content, str) else content, kind
    points = as_array(value, what="a shape")
    if points.ndim != 2 or points.shape[1] not in (3, 4, 6):
        raise ValueTypeError("the points of a shape are an array N×3, N×4 or N×6.")
    file = io.BytesIO()
    import_module("numpy").save(file, points)
    return file.getvalue(), "application/x-npy"
