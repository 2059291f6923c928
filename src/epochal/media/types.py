"""The values besides numbers that ``run.log`` takes: pictures, sounds, videos, tables, pages.

A value copies what it is given when it is made, so you may change your array afterwards. A value
that cannot be read does not raise: the run reports it when it is logged, and goes on.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from epochal.errors import ValueTypeError
from epochal.format import format_bytes
from epochal.guard import attempt
from epochal.journal.regular_file import read_regular
from epochal.media.encode import Pixels
from epochal.media.files import PLOTLY, TABLE, files_of, media_type_of
from epochal.media.pixels import as_array, figure_png, frames_of, is_figure, is_pil_image, pixels_of
from epochal.records import Record
from epochal.values import element_count, shown_text

_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
# A file is read into memory.
MAX_BYTES = 2**30
# A longer table is cut, and the run says so.
MAX_ROWS = 100_000
CHARTS = ("line", "scatter", "bar", "histogram", "matrix")
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

    ``caption`` is shown below the sample. ``error`` is what was raised when it was read.
    """

    def __init__(self, caption: object = None) -> None:
        self.caption = None if caption is None else shown_text(caption)
        self.error: Exception | None = None

    def record(self, keep: Keep) -> Record:
        """Store the sample, and return its record without name, time and step."""
        if self.error is not None:
            raise self.error
        caption = {} if self.caption is None else {"caption": self.caption}
        return {"log": "blob", **self._stored(keep), **caption}

    def _stored(self, keep: Keep) -> Record:
        raise NotImplementedError

    def _read(self, call: Callable[..., Any], *args: Any) -> Any:
        """What a call returns; None, and an error for later, if it raises."""
        value, error = attempt(call, *args)
        self.error = self.error or error
        return value


class Image(Sample):
    """A picture: an array or tensor, a PIL image, a Matplotlib figure, encoded bytes or a path.

    An array is H×W, H×W×C or C×H×W, with floats from 0 to 1 or integers from 0 to 255.

    ``boxes`` are drawn over the picture: dicts with ``box`` (left, top, right, bottom; in pixels,
    or all from 0 to 1), and if you like ``label``, ``score`` and ``group``. ``masks`` are arrays of
    class numbers, H×W, by group; ``{"mask": array, "labels": {1: "cat"}}`` names the classes.

    Example:
        run.log({"sample": epochal.Image([[0.0, 0.5], [0.5, 1.0]], caption="a small one")})
    """

    def __init__(
        self,
        data: Any,
        *,
        caption: object = None,
        boxes: Iterable[Mapping[str, Any]] | None = None,
        masks: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(caption)
        self._picture: Pixels | bytes | None = self._read(_picture, data)
        self._boxes: list[Record] = []
        self._masks: list[tuple[str, Pixels, dict[str, str]]] = []
        if self._picture is not None and (boxes is not None or masks is not None):
            size = self._read(_size, self._picture)
            self._boxes = self._read(_boxes, boxes or (), size) or []
            self._masks = self._read(_masks, masks or {}) or []

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

    Example:
        run.log({"episode": epochal.Video("episode.mp4")})
    """

    def __init__(self, data: Any, fps: float = 8, *, caption: object = None) -> None:
        super().__init__(caption)
        self._video: Pixels | bytes | None = self._read(_video, data, fps)

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
        if (read := self._read(_table, data, columns)) is not None:
            self.columns, self.rows = read
        self.chart: dict[str, str] | None = None
        if chart is not None:
            self.chart = self._read(_chart, chart, self.columns)

    def _stored(self, keep: Keep) -> Record:
        files: dict[str, None] = {}
        if len(self.rows) > MAX_ROWS:
            keep.note(f"a table of {len(self.rows):,} rows is cut after {MAX_ROWS:,} rows.")
        rows = [[_cell(value, keep, files) for value in row] for row in self.rows[:MAX_ROWS]]
        content = msgspec.json.encode({"columns": self.columns, "data": rows})
        record = _kept(keep, content, TABLE) | {"rows": len(rows)}
        own = {"chart": self.chart, "files": list(files)}
        return record | {name: value for name, value in own.items() if value}


class Html(Sample):
    """A page of HTML, which is shown in a frame without scripts and network.

    Takes the text, or a ``Path`` to read it from.

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

    Example:
        run.log({"notes": epochal.Markdown("## Epoch 3")})
    """

    def __init__(self, text: str, *, caption: object = None) -> None:
        super().__init__(caption)
        self.text = str(text)

    def record(self, keep: Keep) -> Record:
        """The text, which is stored in the journal itself."""
        caption = {} if self.caption is None else {"caption": self.caption}
        return {"log": "text", "text": self.text, "format": "markdown", **caption}


class Plotly(Sample):
    """A figure of Plotly, which the page draws with your installed package."""

    def __init__(self, figure: Any, *, caption: object = None) -> None:
        super().__init__(caption)
        self._data: bytes = (self._read(figure.to_json) or "").encode()

    def _stored(self, keep: Keep) -> Record:
        return _kept(keep, self._data, PLOTLY)


def may_be_sample(value: Any) -> bool:
    """Whether a single value is a sample, or would become one."""
    is_plotly = type(value).__module__.partition(".")[0] == "plotly" and hasattr(value, "to_json")
    is_picture = is_pil_image(value) or is_figure(value)
    return isinstance(value, Sample) or is_picture or is_plotly or _is_frame(value)


def sample_of(value: Any) -> Sample | list[Sample] | None:
    """The sample that a value of ``log`` is, or several of them; None for any other value."""
    return _samples_of(value) if isinstance(value, (list, tuple)) else _single(value)


def _single(value: Any) -> Sample | None:
    if isinstance(value, Sample):
        return value
    if is_pil_image(value) or is_figure(value):
        return Image(value)
    package = type(value).__module__.partition(".")[0]
    if package == "plotly" and hasattr(value, "to_json"):
        return Plotly(value)
    if _is_frame(value):
        return Table(value)
    return None


def _samples_of(values: Sequence[Any]) -> Sample | list[Sample] | None:
    if not values or isinstance(values[0], (int, float)):
        return None
    if all(isinstance(value, Mapping) for value in values):
        return Table(values)
    found = [sample for value in values if (sample := _single(value)) is not None]
    return found if len(found) == len(values) else None


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
    content = data.encode() if isinstance(data, str) else _content(data)
    if content is None:
        raise ValueTypeError(f"HTML must be a text or a path, not {type(data).__name__}.")
    return content


def _picture(data: Any) -> Pixels | bytes:
    if is_figure(data):
        return figure_png(data)
    content = _content(data)
    if content is None:
        return pixels_of(data)
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


def _boxes(boxes: Iterable[Mapping[str, Any]], size: tuple[int, int]) -> list[Record]:
    found: list[Record] = []
    for one in boxes:
        edges = [float(edge) for edge in one["box"]]
        if len(edges) != 4 or not all(map(math.isfinite, edges)):
            raise ValueTypeError("a box has four finite numbers: left, top, right and bottom.")
        if any(abs(edge) > 1 for edge in edges):
            edges = [edge / size[number % 2] for number, edge in enumerate(edges)]
        box: Record = dict(zip(("x0", "y0", "x1", "y1"), edges, strict=True))
        for name in ("label", "group"):
            if one.get(name) is not None:
                box[name] = str(one[name])
        if one.get("score") is not None:
            box["score"] = float(one["score"])
        found.append(box)
    return found


def _masks(masks: Mapping[str, Any]) -> list[tuple[str, Pixels, dict[str, str]]]:
    import numpy as np

    found = []
    for group, given in masks.items():
        about = given if isinstance(given, Mapping) else {"mask": given}
        array = as_array(about["mask"], what=f"mask {group!r}")
        if array.ndim != 2:
            raise ValueTypeError(f"mask {group!r} has shape {tuple(array.shape)}: use H×W.")
        pixels = pixels_of(array.astype(np.int64))
        labels = {str(number): str(label) for number, label in about.get("labels", {}).items()}
        found.append((str(group), pixels, labels))
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


def _video(data: Any, fps: float) -> Pixels | bytes:
    content = _content(data)
    if content is None:
        from importlib.util import find_spec

        if find_spec("PIL") is None:
            raise ValueTypeError("a video of an array needs Pillow: pip install pillow.")
        return frames_of(data, fps)
    kind = media_type_of(content)
    if not kind.startswith("video/") and kind not in ("image/gif", "image/webp"):
        raise ValueTypeError("a video must be MP4, WebM, Ogg, GIF or WebP data.")
    return content


def _is_frame(value: Any) -> bool:
    """Whether a value is a data frame of pandas or polars, or one like them."""
    rows = hasattr(value, "itertuples") or hasattr(value, "iter_rows")
    return rows and hasattr(value, "columns")


def _table(data: Any, columns: Sequence[Any] | None) -> tuple[list[str], list[list[Any]]]:
    if _is_frame(data):
        names = [str(name) for name in data.columns]
        frame = data.iter_rows() if hasattr(data, "iter_rows") else data.itertuples(index=False)
        return names, [list(row) for row in frame]
    if isinstance(data, Mapping):
        values = [list(column) for column in data.values()]
        if len({len(column) for column in values}) > 1:
            raise ValueTypeError("the columns of a table have different lengths.")
        return [str(name) for name in data], [list(row) for row in zip(*values, strict=True)]
    listed = data.tolist() if hasattr(data, "tolist") else list(data)
    if listed and all(isinstance(row, Mapping) for row in listed):
        names = list(dict.fromkeys(name for row in listed for name in row))
        names = list(columns) if columns is not None else names
        return [str(name) for name in names], [[row.get(name) for name in names] for row in listed]
    rows = [list(row) for row in listed]
    if columns is None:
        columns = range(max(map(len, rows), default=0))
    if any(len(row) != len(columns) for row in rows):
        raise ValueTypeError(f"each row of this table must have {len(columns)} values.")
    return [str(name) for name in columns], rows


def _chart(chart: Mapping[str, Any], columns: Sequence[str]) -> dict[str, str]:
    wanted = {str(name): str(value) for name, value in chart.items() if value is not None}
    if wanted.get("kind") not in CHARTS or not wanted.keys() <= _CHART_FIELDS:
        raise ValueTypeError(f"chart={dict(chart)!r}: kind must be one of {', '.join(CHARTS)}.")
    for name in wanted.keys() - {"kind", "title"}:
        if wanted[name] not in columns:
            raise ValueTypeError(f"chart: the table has no column {wanted[name]!r}.")
    return wanted


def _cell(value: Any, keep: Keep, files: dict[str, None]) -> Any:
    """A value as JSON has it: a sample by its file, numbers that are not finite as texts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):  # one of numpy, too
        return str.__str__(value)
    if hasattr(value, "item") and element_count(value) == 1:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
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
