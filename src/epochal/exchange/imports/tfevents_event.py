"""Reads one TensorBoard event field by field: every kind of summary, old style and new."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.exchange.imports.histogram import edges_from_limits, histogram_record, moments_of
from epochal.exchange.imports.protobuf import (
    BYTES,
    FIXED32,
    VARINT,
    Field,
    WireError,
    message,
    varint,
)
from epochal.exchange.media.types import Audio, Image, Keep, Markdown, Sample, Table
from epochal.journal.blobs import PR_CURVE_COLUMNS
from epochal.journal.boards import MAX_BLOCKS, Block, Board
from epochal.records import Record

# Tags of charts by category and title, as ``add_custom_scalars`` takes them; and their board.
Layout = dict[str, dict[str, list[str]]]
LAYOUT_BOARD = "custom scalars"
_START = 1
_TEXT_SUFFIX = "/text_summary"  # what the writers of torch and tensorboardX add to a tag
_LEVELS = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}
_STATUS = {1: "success", 2: "failure", 3: "running"}
_MAX_DEPTH = 20
_PROTOBUF = "application/x-protobuf"
# How the tags of the mesh plugin end, and the arrays of our files of meshes.
_MESH = {"VERTEX": "vertices", "FACE": "faces", "COLOR": "colors"}
_FLOAT, _STRING, _BFLOAT16, _HALF = 1, 7, 14, 19
# Number of a type: how its raw content is laid out, and the field that else holds its values.
_TYPES: dict[int, tuple[str, int]] = {
    _FLOAT: ("<f4", 5),
    2: ("<f8", 6),
    3: ("<i4", 7),
    4: ("<u1", 7),
    5: ("<i2", 7),
    6: ("<i1", 7),
    9: ("<i8", 10),
    10: ("?", 11),
    _BFLOAT16: ("<u2", 13),
    17: ("<u2", 7),
    _HALF: ("<f2", 13),
    22: ("<u4", 16),
    23: ("<u8", 17),
}
_MAX_DIMENSIONS = 32
_MAX_FILLED = 1_000_000


class Tags(msgspec.Struct):
    """Metadata of tags from earlier events: only the first value of a tag has it."""

    plugins: dict[str, str] = {}
    described: set[str] = msgspec.field(default_factory=set)


class KeptFile(Sample):
    """A file that the page offers and does not show, such as a mesh."""

    def __init__(self, data: bytes, media_type: str) -> None:
        super().__init__()
        self._data, self._media_type = data, media_type

    def _stored(self, keep: Keep) -> Record:
        file = keep.file(self._data, self._media_type)
        size = len(self._data)
        return {"log": "file", "file": file, "media_type": self._media_type, "bytes": size}


class Event(msgspec.Struct):
    """The records and the samples of one event."""

    t: float = 0.0
    step: int = 0
    points: list[tuple[str, float]] = []
    records: list[Record] = []
    samples: list[tuple[str, Sample | list[Sample]]] = []
    # By the name of a mesh, its arrays.
    meshes: dict[str, dict[str, NDArray[Any]]] = {}
    layout: Layout = {}
    writer: str | None = None
    is_restart: bool = False
    # Where the last point ends, if it is a 32-bit float.
    float_end: int | None = None

    @property
    def is_scalar(self) -> bool:
        """Whether it is one number and nothing else."""
        is_more = self.records or self.samples or self.layout or self.writer or self.is_restart
        return len(self.points) == 1 and not is_more

    def add_file(self, name: str, data: bytes, media_type: str) -> None:
        """Add a file that the page offers and does not show."""
        self.samples.append((name, KeptFile(data, media_type)))

    def add_histogram(self, name: str, **bins: Any) -> None:
        self.records.append(histogram_record(name, t=self.t, step=self.step, **bins))


def read_event(data: bytes, tags: Tags) -> Event:
    """Read one event; raises ``WireError`` for bytes that are none."""
    found = message(data)
    t = found[1].real
    event = Event(t if math.isfinite(t) else 0.0, found[2].signed)
    for summary in found.each(5):
        for value in summary.each(1):
            _read_value(value, event, tags)
    for name, arrays in event.meshes.items():
        event.add_file(f"{name}.npz", npz(arrays), "application/x-npz")
    for graph in found.each(4):
        event.add_file("graph.pb", graph.content, _PROTOBUF)
    for run in found.each(8):
        if 1 in run and 2 in run:
            event.add_file(f"run_metadata/{run[1].text}.pb", run[2].content, _PROTOBUF)
    for line in found.each(6):
        level = _LEVELS.get(line[1].number, "info")
        event.records.append({"log": "message", "t": event.t, "level": level, "text": line[2].text})
    for session in found.each(7):
        event.is_restart = session[1].number == _START
    for source in found.each(10):
        event.writer = source[1].text or None
    return event


def _read_value(value: Field, event: Event, tags: Tags) -> None:
    tag, metadata = value[1].text, value[9]
    plugin = metadata[1][1].text
    if plugin:
        tags.plugins.setdefault(tag, plugin)
    plugin = plugin or tags.plugins.get(tag, "")
    named = (("title", metadata[2].text), ("description", metadata[3].text))
    words = {key: word for key, word in named if word}
    if words and tag not in tags.described:
        tags.described.add(tag)
        event.records.append({"log": "define", "t": event.t, "name": tag, **words})
    name = tag or "unnamed"
    if plugin == "hparams":
        event.records.extend(_hparam_records(metadata[1][2].content, event.t))
    elif value[2].wire == FIXED32:
        event.points.append((name, value[2].real))
        event.float_end = value[2].end
    elif 4 in value:
        event.samples.append((name, Image(value[4][4].content)))
    elif 6 in value:
        event.samples.append((name, Audio(value[6][4].content)))
    elif 5 in value:
        _read_histogram(value[5], event, name)
    elif value.each(8):
        _read_tensor(value[8], event, name, plugin, message(metadata[1][2].content))


def _read_histogram(given: Field, event: Event, name: str) -> None:
    low, high, num, total, squares = (given[tag].real for tag in range(1, 6))
    limits, counts = (_raw_numbers(given, tag, "<f8").tolist() for tag in (6, 7))
    edges: list[float] = []
    if limits and math.isfinite(low) and math.isfinite(high) and low <= high:
        edges = edges_from_limits(limits, low=low, high=high)
    moments = moments_of(num, total, squares)
    event.add_histogram(name, edges=edges, counts=counts, moments=moments)


def _read_tensor(tensor: Field, event: Event, name: str, plugin: str, about: Field) -> None:
    """A ``TensorProto``; nothing for types other than numbers and strings."""
    kind = tensor[1].number
    if kind == _STRING:
        _read_strings(tensor.each(8), event, name, plugin)
    if kind not in _TYPES:
        return
    numbers = _shaped(_numbers(tensor, kind), tensor)
    stem, _, part = name.rpartition("_")
    if numbers.ndim == 0 or (plugin in ("", "scalars") and numbers.size == 1):
        event.points.append((name, float(numbers.reshape(-1)[0])))
        values = [value for tag, each in tensor.inner.items() if tag > 2 for value in each]
        if kind == _FLOAT and len(values) == 1 and values[0].end - values[0].start == 4:
            event.float_end = values[0].end
    elif plugin == "histograms" and numbers.ndim == 2 and numbers.shape[1] == 3:
        rows = numbers.astype(np.float64)
        edges = [*rows[:1, 0].tolist(), *rows[:, 1].tolist()]
        event.add_histogram(name, edges=edges, counts=rows[:, 2])
    elif plugin == "pr_curves" and numbers.ndim == 2 and numbers.shape[0] == 6:
        event.samples.append((name, curve_table(numbers)))
    elif plugin == "mesh" and part in _MESH:
        mesh = event.meshes.setdefault(stem, {})
        mesh[_MESH[part]] = numbers
        if (config := about[5].text) not in ("", "{}"):
            mesh["config"] = np.array(config)
    else:  # numbers that no kind of ours is made for, kept as they are
        event.add_file(f"{name}.npy", npy(numbers), "application/x-npy")


def _read_strings(strings: list[Field], event: Event, name: str, plugin: str) -> None:
    if plugin in ("images", "audio"):
        # Images are [width, height, image…]; audio is [[clip, label], …].
        chosen = strings[2:] if plugin == "images" else strings[::2]
        make = Image if plugin == "images" else Audio
        made: list[Sample] = [make(place.content) for place in chosen]
        event.samples.append((name, made[0] if len(made) == 1 else made))
    elif plugin == "custom_scalars":
        for layout in strings:
            event.layout.update(_layout(message(layout.content)))
    else:
        words = "\n\n".join(string.text for string in strings)
        name = name.removesuffix(_TEXT_SUFFIX) or name
        if plugin == "text":
            event.samples.append((name, Markdown(words)))
        else:
            record = {"log": "text", "t": event.t, "step": event.step, "name": name, "text": words}
            event.records.append(record)


def _layout(layout: Field) -> Layout:
    found: Layout = {}
    for category in layout.each(2):
        charts = found.setdefault(category[1].text, {})
        for chart in category.each(2):
            margins = [series[number] for series in chart[3].each(1) for number in (1, 2, 3)]
            charts[chart[1].text] = [tag.text for tag in margins or chart[2].each(1)]
    return found


def layout_board(layout: Layout) -> Board:
    """The charts of ``add_custom_scalars``; ``.*`` in a tag stands for any characters."""
    blocks: list[Block] = []
    for category, charts in layout.items():
        blocks.append(Block(kind="text", text=f"## {category}", width=12, height=1))
        for title, tags in charts.items():
            series = [tag.replace(".*", "*") for tag in tags]
            blocks.append(Block(kind="chart", series=series, title=title))
    return Board(LAYOUT_BOARD, blocks[:MAX_BLOCKS])


def curve_table(curve: NDArray[Any]) -> Table:
    """A precision-recall curve; its rows are all columns but the thresholds, which are even."""
    thresholds = np.linspace(0.0, 1.0, curve.shape[1])
    rows = np.vstack((thresholds, curve)).T.tolist()
    chart = {"kind": "line", "x": "recall", "y": "precision"}
    return Table(rows, PR_CURVE_COLUMNS, chart=chart)


def npy(array: NDArray[Any]) -> bytes:
    """A NumPy file of an array."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A NumPy file of several arrays."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _numbers(tensor: Field, kind: int) -> NDArray[Any]:
    layout, listed = _TYPES[kind]
    numbers = _raw_numbers(tensor, 4, layout)
    if not len(numbers) and layout in ("<f4", "<f8"):
        numbers = _raw_numbers(tensor, listed, layout)
    elif not len(numbers):
        whole = np.array(list(_varints(tensor, listed)), dtype=np.uint64)
        # The 16 bits of a half are the lower ones of an integer.
        numbers = whole.astype("<u2").view(layout) if kind == _HALF else whole.astype(layout)
    if kind == _BFLOAT16:
        return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return numbers


def _raw_numbers(holder: Field, tag: int, layout: str) -> NDArray[Any]:
    """The numbers of a repeated field of fixed size, packed or one by one."""
    text = b"".join(field.data[field.start : field.end] for field in holder.inner.get(tag, ()))
    size = np.dtype(layout).itemsize
    return np.frombuffer(text[: len(text) // size * size], dtype=layout)


def _varints(holder: Field, tag: int) -> Iterator[int]:
    """The numbers of a repeated field of varints, packed or one by one."""
    for value in holder.inner.get(tag, ()):
        place = value.start if value.wire in (BYTES, VARINT) else value.end
        while place < value.end:
            number, place = varint(value.data, place, value.end)
            yield number


def _shaped(numbers: NDArray[Any], tensor: Field) -> NDArray[Any]:
    """The numbers in their shape; missing ones equal the last, or 0 if there is none."""
    shape = [dimension[1].signed for dimension in tensor[2].each(2)]
    if len(shape) > _MAX_DIMENSIONS or any(size < 0 for size in shape):
        raise WireError("a tensor of impossible shape", tensor.start)
    missing = math.prod(shape) - len(numbers)
    # A short message that claims to hold billions must not make us hold them.
    if missing < 0 or missing > max(0, _MAX_FILLED - len(numbers)):
        raise WireError("a tensor whose shape does not fit its values", tensor.start)
    if missing:
        last = numbers[-1] if len(numbers) else 0
        numbers = np.concatenate([numbers, np.full(missing, last, dtype=numbers.dtype)])
    return numbers.reshape(shape)


def _hparam_records(content: bytes, t: float) -> Iterator[Record]:
    """One ``option`` per hyperparameter; the end of a session is an event.

    The end is no ``finish``: some writers note it in the same call as the hyperparameters.
    """
    found = message(content)
    for start in found.each(3):
        for option in start.each(1):
            value = _value(option[2])
            yield {"log": "option", "t": t, "name": option[1].text, "value": value}
        if group := start[4].text:
            yield {"log": "event", "t": t, "name": "hparams-group", "group": group}
    for end in found.each(4):
        status = _STATUS.get(end[1].number, "unknown")
        yield {"log": "event", "t": t, "name": "session-end", "status": status}


def _value(given: Field, depth: int = 0) -> Any:
    """A ``google.protobuf.Value``; whole numbers come back as such."""
    if 2 in given:
        number = given[2].real
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    if 3 in given:
        return given[3].text
    if 4 in given:
        return bool(given[4].number)
    if 5 in given and depth < _MAX_DEPTH:
        pairs = (entry for entry in given[5].each(1) if 1 in entry and 2 in entry)
        return {pair[1].text: _value(pair[2], depth + 1) for pair in pairs}
    if 6 in given and depth < _MAX_DEPTH:
        return [_value(item, depth + 1) for item in given[6].each(1)]
    return None
