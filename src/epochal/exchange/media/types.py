"""The values besides numbers that ``run.log`` takes: pictures, sounds, videos, tables, pages.

A value copies what it is given when it is made, so you may change your array afterwards. A value
that cannot be read does not raise: the run reports it when it is logged, and goes on.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec

from epochal.base.guard import attempt
from epochal.errors import UsageError, ValueTypeError
from epochal.exchange.media.pixels import (
    Note,
    as_array,
    figure_png,
    frames_of,
    is_figure,
    is_pil_image,
    pixels_of,
)
from epochal.journal.blobs import PLOTLY, TABLE, Pixels, files_of, media_type_of
from epochal.journal.line import without_surrogates
from epochal.journal.regular_file import read_regular
from epochal.records import Record
from epochal.records.format import format_bytes
from epochal.records.values import element_count, plain_float, shown_text

_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
# A file is read into memory.
MAX_BYTES = 2**30
# A longer table is cut, and the run says so.
MAX_ROWS = 100_000
MAX_COLUMNS = 1_000
MAX_CELLS = 1_000_000
# The kinds of charts, and what names columns in each.
CHARTS = {"line": "x y", "scatter": "x y", "bar": "x y", "histogram": "x", "matrix": "x y value"}
_CHART_FIELDS = frozenset({"kind", "x", "y", "color", "value", "title"})
_EXACT = 2**53


class Keep(Protocol):
    """Stores what a sample consists of; raises ``OSError`` or ``UsageError`` when it cannot."""

    def file(self, data: bytes, media_type: str) -> str:
        """Store some bytes, and return the name of their file."""

    def pixels(self, pixels: Pixels) -> str:
        """Store pixels as they are, and return the name of the file that they become."""

    def note(self, sentence: str) -> None:
        """Report something about the sample that the user should know, once."""


class Sample:
    """What all of them have in common.

    ``caption`` is shown below the sample. ``error`` is what was raised when it was read, and
    ``notes`` are what its user should know.
    """

    def __init__(self, caption: object = None) -> None:
        self.caption = None if caption is None else shown_text(caption)
        self.notes: list[str] = []
        self.error: Exception | None = None

    def record(self, keep: Keep) -> Record:
        """Store the sample, and return its record without name, time and step.

        Args:
            keep: Stores bytes with the run; the run passes it.
        """
        if self.error is not None:
            raise self.error
        for note in self.notes:
            keep.note(note)
        caption = {} if self.caption is None else {"caption": self.caption}
        return {"log": "blob", **self._stored(keep), **caption}

    def _stored(self, keep: Keep) -> Record:
        """Store the files, and return the fields of the record that say what they are."""
        raise NotImplementedError

    def _read(self, call: Callable[..., Any], *args: Any) -> Any:
        """What a call returns; None, and an error for later, if it raises."""
        value, error = attempt(call, *args)
        self.error = self.error or error
        return value


class Image(Sample):
    """A picture: an array or tensor, a PIL image, a Matplotlib figure, encoded bytes or a path.

    An array is H×W, H×W×C or C×H×W, with floats from 0 to 1 or integers from 0 to 255.

    ``boxes`` are drawn over the picture: an array N×4 of left, top, right and bottom (in pixels, or
    all from 0 to 1), or dicts with such a ``box`` and if you like ``label``, ``score`` and
    ``group``. ``masks`` is an array H×W of class numbers, or several by group; with
    ``{"mask": array, "labels": {1: "cat"}}`` you name the classes.

    Args:
        data: The picture.
        caption: A text below it.
        boxes: Boxes to draw over the picture.
        masks: Areas to draw over the picture, by class.

    Example:
        run.log({"sample": epochal.Image([[0.0, 0.5], [0.5, 1.0]], caption="a small one")})
    """

    def __init__(
        self, data: Any, caption: object = None, *, boxes: Any = None, masks: Any = None
    ) -> None:
        super().__init__(caption)
        self._picture: Pixels | bytes | None = self._read(_picture, data, self.notes.append)
        self._boxes: list[Record] = []
        self._masks: list[tuple[str, Pixels, dict[str, str]]] = []
        if self._picture is not None and (boxes is not None or masks is not None):
            size = self._read(_size, self._picture)
            self._boxes = self._read(_boxes, boxes, size) or []
            self._masks = self._read(_masks, masks) or []

    def _stored(self, keep: Keep) -> Record:
        picture = self._picture
        if isinstance(picture, Pixels):
            record: Record = {"file": keep.pixels(picture), "media_type": picture.media_type}
            record |= {"width": picture.width, "height": picture.height}
        else:
            record = _kept(keep, picture or b"", media_type_of(picture or b""))
        masks = [
            {"group": group, "file": keep.pixels(mask), "labels": labels}
            for group, mask, labels in self._masks
        ]
        own = {"boxes": self._boxes, "masks": masks}
        return record | {name: items for name, items in own.items() if items}


class Audio(Sample):
    """A sound: an array of samples (or samples×channels) with its rate, encoded bytes or a path.

    Floats are taken as -1 to 1.

    Args:
        data: The samples, encoded bytes, or the path of a file.
        sample_rate: Samples per second of an array.
        caption: A text below it.

    Example:
        run.log({"voice": epochal.Audio([0.0, 0.5, -0.5, 0.0] * 800, sample_rate=8000)})
    """

    def __init__(
        self, data: Any, sample_rate: int | None = None, *, caption: object = None
    ) -> None:
        super().__init__(caption)
        self._data: bytes = self._read(_audio, data, sample_rate) or b""

    def _stored(self, keep: Keep) -> Record:
        return _kept(keep, self._data, media_type_of(self._data, otherwise="audio/wav"))


class Video(Sample):
    """A video: an array (T×H×W×C or T×C×H×W), encoded bytes or a path.

    An array becomes an animated picture, which needs Pillow. MP4 and WebM are kept as they are.

    Args:
        data: The frames, encoded bytes, or the path of a file.
        fps: Frames per second of an array.
        caption: A text below it.

    Example:
        run.log({"episode": epochal.Video("episode.mp4")})
    """

    def __init__(self, data: Any, fps: float = 8, *, caption: object = None) -> None:
        super().__init__(caption)
        self._video: Pixels | bytes | None = self._read(_video, data, fps, self.notes.append)

    def _stored(self, keep: Keep) -> Record:
        video = self._video
        if not isinstance(video, Pixels):
            return _kept(keep, video or b"", media_type_of(video or b""))
        size = {"width": video.width, "height": video.height, "frames": video.frames}
        return {"file": keep.pixels(video), "media_type": video.media_type, **size}


class Table(Sample):
    """A table: a list of dicts, rows under ``columns``, a dict of columns, a pandas/polars frame.

    Cells may be numbers, texts, pictures and other samples. ``chart`` says how to draw the table:
    ``kind`` is line, scatter, bar, histogram or matrix; ``x``, ``y``, ``color`` and ``value`` name
    columns.

    Args:
        data: The rows, columns or data frame.
        columns: The names of the columns, for rows without names.
        chart: How to draw the table.
        caption: A text below it.

    Example:
        rows = [{"prompt": "2 + 2", "answer": "4", "reward": 1.0}]
        run.log({"answers": epochal.Table(rows)})
    """

    def __init__(
        self,
        data: Any = (),
        columns: Sequence[Any] | None = None,
        *,
        chart: Mapping[str, Any] | None = None,
        caption: object = None,
    ) -> None:
        super().__init__(caption)
        self.columns: list[str] = []
        self.rows: list[list[Any]] = []
        if (read := self._read(_table, data, columns, self.notes.append)) is not None:
            self.columns, self.rows = read
        self.chart: dict[str, str] | None = None
        if chart is not None:
            self.chart = self._read(_chart, chart, self.columns)

    def _stored(self, keep: Keep) -> Record:
        files: dict[str, None] = {}
        most = _most_rows(len(self.columns), len(self.rows), keep.note)
        rows = [[_kept_cell(value, keep, files) for value in row] for row in self.rows[:most]]
        content = msgspec.json.encode({"columns": self.columns, "data": rows})
        record = _kept(keep, content, TABLE) | {"rows": len(rows)}
        own = {"chart": self.chart, "files": list(files)}
        return record | {name: value for name, value in own.items() if value}


class Html(Sample):
    """A page of HTML, which is shown in a frame without scripts and network.

    Takes the text, or a ``Path`` to read it from.

    Args:
        data: The page as text or bytes, or the path of a file.
        caption: A text below it.

    Example:
        run.log({"report": epochal.Html("<h1>Done</h1>")})
    """

    def __init__(self, data: str | Path, *, caption: object = None) -> None:
        super().__init__(caption)
        self._data: bytes = self._read(_text, data) or b""

    def _stored(self, keep: Keep) -> Record:
        return _kept(keep, self._data, "text/html")


class Markdown(Sample):
    """A text that is shown with its headings, lists, tables and code.

    Args:
        text: The text.
        caption: A text below it.

    Example:
        run.log({"notes": epochal.Markdown("## Epoch 3")})
    """

    def __init__(self, text: str, *, caption: object = None) -> None:
        super().__init__(caption)
        self.text: str = self._read(_markdown, text) or ""

    def _stored(self, keep: Keep) -> Record:
        return {"log": "text", "text": self.text, "format": "markdown"}


class Plotly(Sample):
    """A figure of Plotly, which the page draws with your installed package."""

    def __init__(self, figure: Any, *, caption: object = None) -> None:
        super().__init__(caption)
        self._data: bytes = self._read(_plotly, figure) or b""

    def _stored(self, keep: Keep) -> Record:
        return _kept(keep, self._data, PLOTLY)


def may_be_sample(value: Any) -> bool:
    """Whether a single value is a sample, or would become one."""
    return isinstance(value, Sample) or _type_for(value) is not None


def sample_of(value: Any) -> Sample | list[Sample] | None:
    """The sample that a value of ``log`` is, or several of them; None for any other value."""
    return _samples_of(value) if isinstance(value, (list, tuple)) else _single(value)


def _single(value: Any) -> Sample | None:
    if isinstance(value, Sample):
        return value
    made = _type_for(value)
    return None if made is None else made(value)


def _type_for(value: Any) -> type[Image | Plotly | Table] | None:
    """The sample that a picture, a figure or a frame of another library becomes."""
    if is_pil_image(value) or is_figure(value):
        return Image
    if type(value).__module__.partition(".")[0] == "plotly" and hasattr(value, "to_json"):
        return Plotly
    return Table if _is_frame(value) else None


def _samples_of(values: Sequence[Any]) -> Sample | list[Sample] | None:
    if not values or isinstance(values[0], (int, float)):
        return None
    if all(isinstance(value, Mapping) for value in values):
        return Table(values)
    found = [_single(value) for value in values if value is not None]
    samples = [sample for sample in found if sample is not None]
    if samples and len(samples) < len(found):
        raise ValueTypeError("a list of samples must not have other values in it.")
    return samples or None


def _kept(keep: Keep, data: bytes, media_type: str) -> Record:
    return {"file": keep.file(data, media_type), "media_type": media_type, "bytes": len(data)}


def _content(data: Any) -> bytes | None:
    """Bytes, or those of a path or an open file; None for anything else."""
    if isinstance(data, (str, Path)):
        path = Path(data).expanduser()
        if (size := path.stat().st_size) > MAX_BYTES:
            most = f"has {format_bytes(size)}, and a sample at most {format_bytes(MAX_BYTES)}"
            raise ValueTypeError(f"{path} {most}: keep it with run.log_file.")
        return read_regular(path)
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    return bytes(data.read()) if hasattr(data, "read") and not hasattr(data, "getbands") else None


def _text(data: Any) -> bytes:
    content = data.encode(errors="replace") if isinstance(data, str) else _content(data)
    if content is None:
        raise ValueTypeError(f"HTML must be a text or a path, not {type(data).__name__}.")
    return content


def _markdown(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueTypeError(f"Markdown must be a text, not {type(text).__name__}.")
    return str.__str__(text)


def _plotly(figure: Any) -> bytes:
    text = figure.to_json()
    if not isinstance(text, str):
        raise ValueTypeError("this figure of Plotly has no JSON.")
    return text.encode(errors="replace")


def _picture(data: Any, note: Note) -> Pixels | bytes:
    if is_figure(data):
        return figure_png(data)
    content = _content(data)
    if content is None:
        if data is None:
            raise ValueTypeError("a picture must hold numbers, and None has none.")
        return pixels_of(data, note)
    if media_type_of(content) not in _IMAGE_TYPES:
        raise ValueTypeError("a picture must be PNG, JPEG, GIF, WebP or BMP data.")
    return content


def _size(picture: Pixels | bytes) -> tuple[int, int]:
    if isinstance(picture, Pixels):
        return picture.width, picture.height
    from PIL import Image as pillow  # noqa: N813 (its module of that name)

    with pillow.open(io.BytesIO(picture)) as opened:
        width, height = opened.size
    return width, height


def _boxes(boxes: Any, size: tuple[int, int]) -> list[Record]:
    if boxes is None:
        return []
    given = as_array(boxes, what="boxes").tolist() if hasattr(boxes, "shape") else list(boxes)
    dicts = [one if isinstance(one, Mapping) else {"box": one} for one in given]
    if any(one.get("box") is None for one in dicts):
        raise ValueTypeError("each of the boxes needs a 'box' of left, top, right and bottom.")
    all_edges = [as_array(one["box"], what="a box").ravel().tolist() for one in dicts]
    if any(len(edges) != 4 or not all(map(math.isfinite, edges)) for edges in all_edges):
        raise ValueTypeError("a box has four finite numbers: left, top, right and bottom.")
    # One small box of an array is in pixels if the others are.
    is_array_of_pixels = hasattr(boxes, "shape") and any(max(edges) > 1 for edges in all_edges)
    found: list[Record] = []
    for one, edges in zip(dicts, all_edges, strict=True):
        left, top, right, bottom = edges
        is_in_pixels = is_array_of_pixels or any(abs(edge) > 1 for edge in edges)
        width, height = size if is_in_pixels else (1, 1)
        x, y = sorted((left / width, right / width)), sorted((top / height, bottom / height))
        box: Record = {"x0": x[0], "y0": y[0], "x1": x[1], "y1": y[1]}
        for name in ("label", "group"):
            if one.get(name) is not None:
                box[name] = shown_text(one[name])
        if one.get("score") is not None:
            box["score"] = plain_float(one["score"], name="score")
        found.append(box)
    return found


def _masks(masks: Any) -> list[tuple[str, Pixels, dict[str, str]]]:
    if masks is None:
        return []
    groups = masks if isinstance(masks, Mapping) and "mask" not in masks else {"mask": masks}
    found = []
    for group, given in groups.items():
        about = given if isinstance(given, Mapping) else {"mask": given}
        array = as_array(about.get("mask"), what=f"mask {group!r}")
        if array.ndim != 2:
            raise ValueTypeError(f"mask {group!r} has shape {tuple(array.shape)}: use H×W.")
        numbers = array.astype("u1") if ((array >= 0) & (array <= 255)).all() else None
        if numbers is None or (numbers != array).any():
            raise ValueTypeError(f"mask {group!r} must hold class numbers from 0 to 255.")
        labels = dict(about.get("labels") or {})
        names = {shown_text(number): shown_text(label) for number, label in labels.items()}
        found.append((shown_text(group), pixels_of(numbers), names))
    return found


def _audio(data: Any, rate: int | None) -> bytes:
    import wave

    import numpy as np

    content = _content(data)
    if content is None:
        if rate is None:
            raise ValueTypeError("the sound of an array needs its sample_rate.")
        array = as_array(data, what="a sound")
        if array.ndim == 2 and array.shape[0] < array.shape[1]:
            array = array.T  # channels come first in torchaudio
        if array.ndim not in (1, 2) or array.size == 0:
            raise ValueTypeError(f"a sound of shape {tuple(array.shape)} has no samples to play.")
        if array.dtype.kind == "f":
            array = np.nan_to_num(np.clip(array, -1.0, 1.0)) * 32767
        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setnchannels(1 if array.ndim == 1 else array.shape[1])
            out.setsampwidth(2)
            out.setframerate(int(rate))
            out.writeframes(np.clip(array, -32768, 32767).astype("<i2").tobytes())
        content = file.getvalue()
    if not media_type_of(content).startswith("audio/"):
        raise ValueTypeError("a sound must be WAV, MP3, Ogg or FLAC data.")
    return content


def _video(data: Any, fps: float, note: Note) -> Pixels | bytes:
    content = _content(data)
    if content is None:
        from importlib.util import find_spec

        if find_spec("PIL") is None:
            raise ValueTypeError("a video of an array needs Pillow: pip install pillow.")
        return frames_of(data, fps, note)
    kind = media_type_of(content)
    if not kind.startswith("video/") and kind not in ("image/gif", "image/webp"):
        raise ValueTypeError("a video must be MP4, WebM, Ogg, GIF or WebP data.")
    return content


def _is_frame(value: Any) -> bool:
    """Whether a value is a data frame of pandas or polars, or one like them."""
    rows = hasattr(value, "itertuples") or hasattr(value, "iter_rows")
    return rows and hasattr(value, "columns")


def _most_rows(num_columns: int, num_rows: int, note: Note) -> int:
    """How many rows of a table are kept."""
    if num_columns > MAX_COLUMNS:
        raise ValueTypeError(f"a table has at most {MAX_COLUMNS:,} columns, not {num_columns:,}.")
    most = min(MAX_ROWS, MAX_CELLS // max(num_columns, 1))
    if num_rows > most:
        note(f"a table of {num_rows:,} rows is cut after {most:,} rows.")
    return most


def _table(
    data: Any, columns: Sequence[Any] | None, note: Note
) -> tuple[list[str], list[list[Any]]]:
    if _is_frame(data):
        names = [str(name) for name in data.columns]
        frame = data.iter_rows() if hasattr(data, "iter_rows") else data.itertuples(index=False)
        most = _most_rows(len(names), len(data), note)
        return names, [list(row) for row in islice(frame, most)]
    if isinstance(data, Mapping):
        most = _most_rows(len(data), max(map(len, data.values()), default=0), note)
        values = [list(islice(column, most)) for column in data.values()]
        if len({len(column) for column in values}) > 1:
            raise ValueTypeError("the columns of a table have different lengths.")
        return [str(name) for name in data], [list(row) for row in zip(*values, strict=True)]
    listed = data.tolist() if hasattr(data, "tolist") else list(data)
    if listed and all(isinstance(row, Mapping) for row in listed):
        names = list(dict.fromkeys(name for row in listed for name in row))
        names = list(columns) if columns is not None else names
        listed = listed[: _most_rows(len(names), len(listed), note)]
        return [str(name) for name in names], [[row.get(name) for name in names] for row in listed]
    rows = [list(row) for row in listed[:MAX_ROWS]]
    if columns is None:
        columns = range(max(map(len, rows), default=0))
    if any(len(row) != len(columns) for row in rows):
        raise ValueTypeError(f"each row of this table must have {len(columns)} values.")
    return [str(name) for name in columns], rows[: _most_rows(len(columns), len(listed), note)]


def _chart(chart: Any, columns: Sequence[str]) -> dict[str, str]:
    given = dict(chart) if isinstance(chart, Mapping) else {"kind": chart}
    wanted = {str(name): str(value) for name, value in given.items() if value is not None}
    needed = CHARTS.get(wanted.get("kind", ""))
    if needed is None or not wanted.keys() <= _CHART_FIELDS:
        raise ValueTypeError(f"chart={chart!r}: kind must be one of {', '.join(CHARTS)}.")
    if missing := [name for name in needed.split() if name not in wanted]:
        raise ValueTypeError(f"chart={chart!r} does not name the columns of {', '.join(missing)}.")
    for name in wanted.keys() - {"kind", "title"}:
        if wanted[name] not in columns:
            raise ValueTypeError(f"chart: the table has no column {wanted[name]!r}.")
    return wanted


def _kept_cell(value: Any, keep: Keep, files: dict[str, None]) -> Any:
    """A cell; None for a value that cannot be read, which is noted."""
    cell, error = attempt(_cell, value, keep, files)
    if isinstance(error, (OSError, UsageError)):  # of the disk, or of the budget
        raise error
    if error is not None:
        keep.note(f"a cell of a table is left empty, because it cannot be read: {error}")
    return cell


def _cell(value: Any, keep: Keep, files: dict[str, None]) -> Any:
    """A value as JSON has it: a sample by its file, numbers that are not finite as texts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):  # one of numpy, too
        return without_surrogates(str.__str__(value))
    if hasattr(value, "item") and element_count(value) == 1:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if abs(value) < _EXACT else shown_text(value)
    sample = sample_of(value)
    if isinstance(sample, Sample) and not isinstance(sample, Table):
        if sample.error is not None:
            keep.note(f"a cell of a table is left empty, because it cannot be read: {sample.error}")
            return None
        record = sample.record(keep)
        if record.pop("log") == "text":
            return record["text"]
        files.update(dict.fromkeys(files_of(record)))
        return record
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _cell(item, keep, files) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_cell(item, keep, files) for item in value]
    return shown_text(value)
