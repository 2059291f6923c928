"""The events of a TensorBoard file, as bytes.

The layouts are those of ``tensorboard/compat/proto/{event,summary,tensor}.proto`` and of the
hparams plugin's ``plugin_data.proto``; scalars, histograms and images take the form that
``SummaryWriter`` writes.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from epochal.exchange.sinks import protobuf as pb
from epochal.records.values import as_float

if TYPE_CHECKING:
    from numpy.typing import NDArray


_START = 1  # SessionLog.START
_DT_FLOAT, _DT_STRING = 1, 7
_AS_TENSOR = 2  # DATA_CLASS_TENSOR
_RGB = 3
_GRAPH_VERSION = 22
# The numbers of TensorFlow's types of values, by NumPy's names.
_TENSOR_TYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6}
_TENSOR_TYPES |= {"int64": 9, "bool": 10, "uint16": 17, "float16": 19, "uint32": 22, "uint64": 23}
_SUCCESS, _FAILURE, _RUNNING = 1, 2, 3
# How the hparams plugin calls the ways in which a run can end.
_STATUSES = {"finished": _SUCCESS, "failed": _FAILURE, "terminated": _FAILURE}


def version_event(t: float, *, writer: str) -> bytes:
    """The first event of a file."""
    return pb.double(1, t) + pb.text(3, "brain.Event:2") + pb.chunk(10, pb.text(1, writer))


def start_event(t: float, step: int) -> bytes:
    """The mark of a start: readers forget what came before from this step on, but for the first."""
    return pb.double(1, t) + pb.whole(2, step) + pb.chunk(7, pb.whole(1, _START))


def summary_event(t: float, step: int, values: Sequence[bytes]) -> bytes:
    """One event with any number of values."""
    summary = b"".join([pb.chunk(1, value) for value in values])
    return pb.double(1, t) + pb.whole(2, step) + pb.chunk(5, summary)


def scalar_value(tag: str, value: float) -> bytes:
    """A number; TensorBoard keeps 32 bits of it."""
    return _tag(tag) + pb.single(2, value)


def text_value(tag: str, text: str) -> bytes:
    """A text, which TensorBoard shows as Markdown."""
    shape = pb.chunk(2, pb.chunk(2, pb.whole(1, 1)))
    tensor = pb.whole(1, _DT_STRING) + shape + pb.text(8, text)
    return _plugin_value(f"{tag}/text_summary", tensor, "text")


def audio_value(tag: str, data: bytes, *, rate: int, channels: int, frames: int) -> bytes:
    """A WAV file."""
    facts = pb.single(1, rate) + pb.whole(2, channels) + pb.whole(3, frames)
    return pb.text(1, tag) + pb.chunk(6, facts + pb.chunk(4, data) + pb.text(5, "audio/wav"))


def tensor_value(tag: str, array: NDArray[Any], *, plugin: str, content: bytes) -> bytes:
    """An array for a plugin; raises ``ValueError`` for values other than numbers."""
    kind = _TENSOR_TYPES.get(array.dtype.name)
    if kind is None:
        raise ValueError(f"a tensor of {array.dtype} cannot be written")
    shape = b"".join(pb.chunk(2, pb.whole(1, size)) for size in array.shape)
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    tensor = pb.whole(1, kind) + pb.chunk(2, shape) + pb.chunk(4, data)
    return _plugin_value(tag, tensor, plugin, content)


def graph_event(t: float, nodes: Iterable[Mapping[str, Any]]) -> bytes:
    """A model as TensorBoard's graph: slashes in the names of its nodes make groups."""
    graph = b"".join(
        pb.chunk(
            1,
            pb.text(1, _node_name(node["name"]))
            + pb.text(2, str(node["op"]))
            + b"".join(pb.text(3, _node_name(source)) for source in node["inputs"]),
        )
        for node in nodes
    )
    return pb.double(1, t) + pb.chunk(4, graph + pb.chunk(4, pb.whole(1, _GRAPH_VERSION)))


def _node_name(key: Any) -> str:
    return str(key).strip().replace(".", "/")


def image_value(tag: str, data: bytes) -> bytes:
    """An encoded image."""
    width, height = image_size(data)
    image = pb.whole(1, height) + pb.whole(2, width) + pb.whole(3, _RGB) + pb.chunk(4, data)
    return pb.text(1, tag) + pb.chunk(4, image)


def histogram_value(tag: str, record: Mapping[str, Any]) -> bytes:
    """A histogram record; its equal bins become buckets, after an empty one for the lower end."""
    counts = [as_float(count) for count in record.get("counts") or ()]
    lo, hi = _number(record, "lo"), _number(record, "hi")
    width = (hi - lo) / len(counts) if counts else 0.0
    limits = [lo + width * index for index in range(len(counts))] + [hi]
    num, mean, std = sum(counts), _number(record, "mean"), _number(record, "std")
    histogram = b"".join(
        (
            pb.double(1, _number(record, "min")),
            pb.double(2, _number(record, "max")),
            pb.double(3, num),
            pb.double(4, mean * num),
            pb.double(5, (std * std + mean * mean) * num),
            pb.doubles(6, limits),
            pb.doubles(7, [0.0, *counts]),
        )
    )
    return pb.text(1, tag) + pb.chunk(5, histogram)


def session_start_value(hparams: Mapping[str, Any], *, name: str, t: float) -> bytes:
    """The hyperparameters of a run; its metrics are its scalars, which TensorBoard finds itself."""
    entries = b"".join(
        pb.chunk(1, pb.text(1, key) + pb.chunk(2, _hparam(value)))
        for key, value in hparams.items()
        if value is not None
    )
    content = pb.chunk(3, entries + pb.text(4, name) + pb.double(5, t))
    return _hparams_value("_hparams_/session_start_info", content)


def experiment_value(hparams: Mapping[str, Any], metrics: Iterable[str], *, t: float) -> bytes:
    """Which hyperparameters and which metrics the table has; without it, every scalar there is.

    TensorBoard takes the first run's for all runs that it shows.
    """
    columns = b"".join(
        pb.chunk(4, pb.text(1, name) + pb.whole(4, _hparam_type(value)))
        for name, value in hparams.items()
        if value is not None
    )
    values = b"".join(pb.chunk(5, pb.chunk(1, pb.text(2, tag))) for tag in metrics)
    return _hparams_value("_hparams_/experiment", pb.chunk(2, columns + values + pb.double(3, t)))


def session_end_value(status: str, *, t: float) -> bytes:
    """How a run ended."""
    ended = pb.whole(1, _STATUSES.get(status, _FAILURE)) + pb.double(2, t)
    return _hparams_value("_hparams_/session_end_info", pb.chunk(4, ended))


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height of an image; (0, 0) if unknown."""
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    try:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as opened:
            return opened.size
    except (ModuleNotFoundError, OSError):
        return 0, 0


@lru_cache(maxsize=4096)
def _tag(tag: str) -> bytes:
    return pb.text(1, tag)


def _hparams_value(tag: str, content: bytes) -> bytes:
    # The data is all in the metadata; readers still want a tensor, so there is an empty one.
    tensor = pb.whole(1, _DT_FLOAT) + pb.chunk(2, pb.chunk(2, pb.whole(1, 0)))
    return _plugin_value(tag, tensor, "hparams", content)


def _plugin_value(tag: str, tensor: bytes, plugin: str, content: bytes = b"") -> bytes:
    data = pb.text(1, plugin) + (pb.chunk(2, content) if content else b"")
    metadata = pb.chunk(1, data) + pb.whole(4, _AS_TENSOR)
    return pb.text(1, tag) + pb.chunk(8, tensor) + pb.chunk(9, metadata)


def _hparam_type(value: Any) -> int:
    """The plugin's word for a kind of value: text, switch or number."""
    return 2 if isinstance(value, bool) else 3 if isinstance(value, (int, float)) else 1


def _hparam(value: Any) -> bytes:
    """A ``google.protobuf.Value``; other than number, bool and text is written as JSON."""
    if isinstance(value, bool):
        return pb.whole(4, value)
    if isinstance(value, (int, float)):
        return pb.double(2, as_float(value))
    return pb.text(3, value if isinstance(value, str) else json.dumps(value))


def _number(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    return as_float(value) if isinstance(value, (int, float)) else 0.0


_LENGTH, _CHECK = struct.Struct("<Q"), struct.Struct("<I")
