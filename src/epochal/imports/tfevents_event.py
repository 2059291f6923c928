"""Reads one TensorBoard event field by field: every kind of summary, old style and new.

This is the way for the first event of a shape; ``tfevents_file`` reads others like it faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.imports import protobuf
from epochal.imports.histogram import edges_from_limits, histogram_record, moments_of
from epochal.imports.media import blob_record, media_type_of
from epochal.imports.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, WireError
from epochal.records import Record

# Reads the ``TensorProto`` of a TensorBoard summary: numbers as an array, strings as bytes.

_STRING, _BFLOAT16, _HALF = 7, 14, 19
# Number of a type: how its raw content is laid out, and the field that else holds its values.
_TYPES: dict[int, tuple[str, int]] = {
    1: ("<f4", 5),
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
SCALARS = "scalars"
_MAX_FILLED = 1_000_000


class NumberPlace(NamedTuple):
    """Where a number lies in an event, and how it is laid out."""

    start: int
    layout: str


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor of numbers or of strings; the other of the two is empty."""

    shape: tuple[int, ...]
    numbers: NDArray[Any]
    strings: tuple[bytes, ...] = ()
    is_text: bool = False
    # Where the only number lies, if the tensor is one.
    number: NumberPlace | None = None


def read_tensor(data: bytes, field: Field) -> Tensor | None:
    """The tensor in a field; None for types other than numbers and strings."""
    kind, shape = 0, tuple[int, ...]()
    values: list[Field] = []
    for inner in protobuf.fields(data, field.start, field.end):
        if inner.tag == 1 and inner.wire == VARINT:
            kind = inner.number
        elif inner.tag == 2 and inner.wire == BYTES:
            shape = _shape(data, inner)
        else:
            values.append(inner)
    if kind == _STRING:
        strings = tuple(data[v.start : v.end] for v in values if (v.tag, v.wire) == (8, BYTES))
        return Tensor(shape, np.zeros(0), strings, is_text=True)
    if kind not in _TYPES:
        return None
    numbers = _shaped(_numbers(data, kind, values), shape, field)
    return Tensor(shape, numbers, number=_place_of(kind, values) if numbers.size == 1 else None)


def _place_of(kind: int, values: list[Field]) -> NumberPlace | None:
    """Where the only value of a tensor of floats lies; None where that is not plain."""
    layout = _TYPES[kind][0]
    if layout not in ("<f4", "<f8") or len(values) != 1:
        return None
    is_one = values[0].end - values[0].start == int(layout[2])
    return NumberPlace(values[0].start, layout) if is_one else None


def _shape(data: bytes, field: Field) -> tuple[int, ...]:
    sizes = []
    for dimension in protobuf.fields(data, field.start, field.end):
        if (dimension.tag, dimension.wire) == (2, BYTES):
            size = 0  # how 0 is written
            for inner in protobuf.fields(data, dimension.start, dimension.end):
                if inner.tag == 1:
                    size = protobuf.signed(inner.number)
            sizes.append(size)
    if len(sizes) > _MAX_DIMENSIONS or any(size < 0 for size in sizes):
        raise WireError("a tensor of impossible shape", field.start)
    return tuple(sizes)


def _numbers(data: bytes, kind: int, values: list[Field]) -> NDArray[Any]:
    layout, listed = _TYPES[kind]
    size = np.dtype(layout).itemsize
    content = b"".join(data[v.start : v.end] for v in values if (v.tag, v.wire) == (4, BYTES))
    chosen = [value for value in values if value.tag == listed]
    if not content and layout in ("<f4", "<f8"):
        content = b"".join(data[v.start : v.end] for v in chosen)
    if content:
        numbers = np.frombuffer(content[: len(content) // size * size], dtype=layout)
    else:
        whole = np.array([n for v in chosen for n in _varints(data, v)], dtype=np.uint64)
        # The 16 bits of a half are the lower ones of an integer.
        numbers = whole.astype("<u2").view(layout) if kind == _HALF else whole.astype(layout)
    if kind == _BFLOAT16:
        return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return numbers


def _varints(data: bytes, value: Field) -> Iterator[int]:
    """The numbers of a repeated field, packed or one by one."""
    if value.wire == VARINT:
        yield value.number
    place = value.start if value.wire == BYTES else value.end
    while place < value.end:
        number, place = protobuf.varint(data, place, value.end)
        yield number


def _shaped(numbers: NDArray[Any], shape: tuple[int, ...], field: Field) -> NDArray[Any]:
    """The numbers in their shape; missing ones equal the last, or 0 if there is none."""
    wanted = 1
    for size in shape:
        wanted *= size
    if len(numbers) == wanted:
        return numbers.reshape(shape)
    # A short message that claims to hold billions must not make us hold them.
    if len(numbers) < wanted <= _MAX_FILLED:
        last = numbers[-1] if len(numbers) else 0
        rest = np.full(wanted - len(numbers), last, dtype=numbers.dtype)
        return np.concatenate([numbers, rest]).reshape(shape)
    raise WireError("a tensor whose shape does not fit its values", field.start)


_START = 1
_TEXT_SUFFIX = "/text_summary"  # what the writers of torch and tensorboardX add to a tag
_MAX_KEPT_VALUES = 65_536
_LEVELS = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}


class BlobPlace(NamedTuple):
    """Where in an event the bytes of a blob lie."""

    start: int
    end: int


class Tags(msgspec.Struct):
    """Metadata of tags from earlier events: only the first value of a tag has it."""

    plugins: dict[str, str] = {}
    described: set[str] = msgspec.field(default_factory=set)


class Event(msgspec.Struct):
    """The records of one event."""

    t: float = 0.0
    step: int = 0
    points: list[tuple[str, float]] = []
    records: list[Record] = []
    blobs: dict[str, BlobPlace] = {}
    writer: str | None = None
    is_restart: bool = False
    # Where the number of the last point lies.
    number: NumberPlace | None = None


def read_event(data: bytes, tags: Tags) -> Event:
    """Read one event; raises ``WireError`` for bytes that are none."""
    event = Event()
    parts: list[Field] = []
    for part in protobuf.fields(data):
        if (part.tag, part.wire) == (1, FIXED64):
            event.t = protobuf.double(data, part)
        elif (part.tag, part.wire) == (2, VARINT):
            event.step = protobuf.signed(part.number)
        elif part.wire == BYTES:
            parts.append(part)
    if not math.isfinite(event.t):
        event.t = 0.0
    for part in parts:
        _read_part(data, part, event, tags)
    return event


def _read_part(data: bytes, part: Field, event: Event, tags: Tags) -> None:
    if part.tag == 5:
        for value in protobuf.fields(data, part.start, part.end):
            if (value.tag, value.wire) == (1, BYTES):
                _read_value(data, value, event, tags)
    elif part.tag == 4:
        _add_blob(event, data, part, name="graph", media_type="application/x-protobuf")
    elif part.tag == 9:
        _add_blob(event, data, part, name="meta_graph", media_type="application/x-protobuf")
    elif part.tag == 8:
        inner = protobuf.by_tag(data, part)
        if 1 in inner and 2 in inner:
            name = f"run_metadata/{protobuf.text(data, inner[1])}"
            _add_blob(event, data, inner[2], name=name, media_type="application/x-protobuf")
    elif part.tag == 6:
        inner = protobuf.by_tag(data, part)
        level = _LEVELS.get(inner[1].number if 1 in inner else 0, "info")
        words = protobuf.text(data, inner[2]) if 2 in inner else ""
        event.records.append({"log": "message", "t": event.t, "level": level, "text": words})
    elif part.tag == 7:
        inner = protobuf.by_tag(data, part)
        event.is_restart = 1 in inner and inner[1].number == _START
    elif part.tag == 10:
        inner = protobuf.by_tag(data, part)
        event.writer = protobuf.text(data, inner[1]) if 1 in inner else None


def _read_value(data: bytes, value: Field, event: Event, tags: Tags) -> None:
    parts = protobuf.by_tag(data, value)
    tag = protobuf.text(data, parts[1]) if 1 in parts else ""
    plugin, settings = _metadata(data, parts[9], tag, event, tags) if 9 in parts else ("", b"")
    if plugin:
        tags.plugins.setdefault(tag, plugin)
    plugin = plugin or tags.plugins.get(tag, "")
    if plugin == "hparams":
        event.records.extend(hparam_records(settings, event.t))
        return
    name = tag or "unnamed"
    if 2 in parts and parts[2].wire == FIXED32:
        event.points.append((name, protobuf.single(data, parts[2])))
        event.number = NumberPlace(parts[2].start, "<f4")
    elif 4 in parts or 6 in parts:  # an image or a sound
        content = protobuf.by_tag(data, parts[4] if 4 in parts else parts[6]).get(4)
        if content is not None and content.wire == BYTES:
            _add_blob(event, data, content, name=name)
    elif 5 in parts:
        _read_histogram(data, parts[5], event, name)
    elif 8 in parts and parts[8].wire == BYTES:
        _read_tensor_value(data, parts[8], event, name, plugin)


def _metadata(
    data: bytes, metadata: Field, tag: str, event: Event, tags: Tags
) -> tuple[str, bytes]:
    """The plugin a value belongs to and the plugin's own content; titles become a record once."""
    plugin, content = "", b""
    words: dict[str, str] = {}
    for part in protobuf.fields(data, metadata.start, metadata.end):
        if (part.tag, part.wire) == (1, BYTES):
            inner = protobuf.by_tag(data, part)
            plugin = protobuf.text(data, inner[1]) if 1 in inner else ""
            content = data[inner[2].start : inner[2].end] if 2 in inner else b""
        elif part.wire == BYTES and part.tag in (2, 3) and part.start < part.end:
            words["title" if part.tag == 2 else "description"] = protobuf.text(data, part)
    if words and tag not in tags.described:
        tags.described.add(tag)
        event.records.append({"log": "define", "t": event.t, "name": tag, **words})
    return plugin, content


def _read_tensor_value(data: bytes, part: Field, event: Event, name: str, plugin: str) -> None:
    tensor = read_tensor(data, part)
    if tensor is None:
        return
    if tensor.is_text:
        _read_strings(data, part, event, name, plugin, tensor)
    elif tensor.numbers.ndim == 0 or (plugin in ("", SCALARS) and tensor.numbers.size == 1):
        event.points.append((name, float(tensor.numbers.reshape(-1)[0])))
        event.number = tensor.number
    elif plugin == "histograms" and tensor.numbers.ndim == 2 and tensor.numbers.shape[1] == 3:
        rows = tensor.numbers.astype(np.float64)
        edges = [*rows[:1, 0].tolist(), *rows[:, 1].tolist()]
        event.records.append(
            histogram_record(name, t=event.t, step=event.step, edges=edges, counts=rows[:, 2])
        )
    else:
        event.records.append(_tensor_record(event, name, plugin, tensor))


def _tensor_record(event: Event, name: str, plugin: str, tensor: Tensor) -> Record:
    """Numbers that no kind of ours is made for, kept as they are."""
    record: Record = {"log": "tensor", "t": event.t, "step": event.step, "name": name}
    if plugin:
        record["plugin"] = plugin
    record["shape"] = list(tensor.shape)
    if tensor.numbers.size <= _MAX_KEPT_VALUES:
        record["values"] = _plain(tensor.numbers.reshape(-1).tolist())
    return record


def _plain(values: Iterable[float]) -> list[float | str]:
    """Numbers as JSON values: nan and infinities as words."""
    return [v if isinstance(v, int) or math.isfinite(v) else str(float(v)) for v in values]


def _read_strings(
    data: bytes, part: Field, event: Event, name: str, plugin: str, tensor: Tensor
) -> None:
    if plugin in ("images", "audio"):
        # Images are [width, height, image…]; audio is [[clip, label], …].
        places = [f for f in protobuf.fields(data, part.start, part.end) if f.tag == 8]
        chosen = places[2:] if plugin == "images" else places[::2]
        for number, place in enumerate(chosen):
            label = name if len(chosen) == 1 else f"{name}/{number}"
            _add_blob(event, data, place, name=label)
        return
    words = "\n\n".join(text.decode("utf-8", "replace") for text in tensor.strings)
    label = name.removesuffix(_TEXT_SUFFIX) or name
    event.records.append(
        {"log": "text", "t": event.t, "step": event.step, "name": label, "text": words}
    )


def _read_histogram(data: bytes, part: Field, event: Event, name: str) -> None:
    single: dict[int, float] = {}
    lists: dict[int, list[float]] = {6: [], 7: []}
    for inner in protobuf.fields(data, part.start, part.end):
        if inner.tag in lists and inner.wire == BYTES:
            text = data[inner.start : inner.end]
            lists[inner.tag] += np.frombuffer(text[: len(text) // 8 * 8], dtype="<f8").tolist()
        elif inner.tag in lists and inner.wire == FIXED64:
            lists[inner.tag].append(protobuf.double(data, inner))
        elif inner.wire == FIXED64:
            single[inner.tag] = protobuf.double(data, inner)
    limits, counts = lists[6], lists[7]
    low, high, num, total, squares = (single.get(tag, 0.0) for tag in range(1, 6))
    edges: list[float] = []
    if limits and math.isfinite(low) and math.isfinite(high) and low <= high:
        edges = edges_from_limits(limits, low=low, high=high)
    event.records.append(
        histogram_record(
            name,
            t=event.t,
            step=event.step,
            edges=edges,
            counts=counts,
            moments=moments_of(num, total, squares),
        )
    )


def _add_blob(
    event: Event, data: bytes, place: Field, *, name: str, media_type: str | None = None
) -> None:
    content = data[place.start : place.end]
    kind = media_type or media_type_of(content)
    record = blob_record(name, content, t=event.t, step=event.step, media_type=kind)
    event.records.append(record)
    event.blobs[record["file"]] = BlobPlace(place.start, place.end)


_STATUS = {1: "success", 2: "failure", 3: "running"}
_MAX_DEPTH = 20


def hparam_records(content: bytes, t: float) -> list[Record]:
    """One ``option`` per hyperparameter; the end of a session is an event.

    The end is no ``finish``: some writers note it in the same call as the hyperparameters.
    """
    records: list[Record] = []
    for part in protobuf.fields(content):
        if (part.tag, part.wire) == (3, BYTES):
            records += _start_records(content, part, t)
        elif (part.tag, part.wire) == (4, BYTES):
            inner = protobuf.by_tag(content, part)
            status = _STATUS.get(inner[1].number if 1 in inner else 0, "unknown")
            records.append({"log": "event", "t": t, "name": "session-end", "status": status})
    return records


def _start_records(content: bytes, start: Field, t: float) -> list[Record]:
    records: list[Record] = []
    for part in protobuf.fields(content, start.start, start.end):
        if part.wire != BYTES:
            continue
        if part.tag == 1:
            inner = protobuf.by_tag(content, part)
            name = protobuf.text(content, inner[1]) if 1 in inner else ""
            value = _value(content, inner[2], 0) if 2 in inner else None
            records.append({"log": "option", "t": t, "name": name, "value": value})
        elif part.tag == 4 and part.start < part.end:
            group = protobuf.text(content, part)
            records.append({"log": "event", "t": t, "name": "hparams-group", "group": group})
    return records


def _value(data: bytes, field: Field, depth: int) -> Any:
    """A ``google.protobuf.Value``; whole numbers come back as such."""
    found: Any = None
    for part in protobuf.fields(data, field.start, field.end):
        if (part.tag, part.wire) == (2, FIXED64):
            number = protobuf.double(data, part)
            found = int(number) if number.is_integer() and abs(number) < 2**53 else number
        elif (part.tag, part.wire) == (3, BYTES):
            found = protobuf.text(data, part)
        elif (part.tag, part.wire) == (4, VARINT):
            found = bool(part.number)
        elif part.tag in (5, 6) and part.wire == BYTES and depth < _MAX_DEPTH:
            found = (_struct if part.tag == 5 else _list)(data, part, depth + 1)
    return found


def _struct(data: bytes, field: Field, depth: int) -> dict[str, Any]:
    found = {}
    for entry in protobuf.fields(data, field.start, field.end):
        if (entry.tag, entry.wire) == (1, BYTES):
            inner = protobuf.by_tag(data, entry)
            if 1 in inner and 2 in inner:
                found[protobuf.text(data, inner[1])] = _value(data, inner[2], depth)
    return found


def _list(data: bytes, field: Field, depth: int) -> list[Any]:
    return [
        _value(data, item, depth)
        for item in protobuf.fields(data, field.start, field.end)
        if (item.tag, item.wire) == (1, BYTES)
    ]
