"""What TensorBoard gets for the files of a run: events for sounds, curves, meshes and graphs.

Points of an embedding are files for TensorBoard's projector, beside the event file.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from epochal.base.atomic_file import new_text_file
from epochal.exchange.sinks import protobuf as pb
from epochal.exchange.sinks import summaries
from epochal.exchange.sinks.keys import sample_name
from epochal.exchange.sinks.sink import Entry, NotHeldError
from epochal.journal.blobs import PR_CURVE_COLUMNS, TABLE

# Longer tables make TensorBoard's page slow.
_MAX_ROWS = 1000
_CONFIG = "projector_config.pbtxt"
# The files of an embedding: step, tag and part.
_EMBEDDING = re.compile(r"\d+/(?!\.\.?/)[^/\0]+/(tensors\.tsv|metadata\.tsv|sprite\.png)")
# The mesh plugin's numbers of the arrays of a mesh, and how its tags call them.
_MESH = {"vertices": (1, "VERTEX"), "faces": (2, "FACE"), "colors": (3, "COLOR")}


def file_events(entry: Entry, path: Path, folder: Path) -> list[bytes]:
    """The events of a file; ``folder`` is where the event file lies.

    Raises ``NotHeldError`` for a file that TensorBoard has no place for.
    """
    media_type = str(entry.record.get("media_type"))
    if entry.kind == "file" and (part := _EMBEDDING.fullmatch(str(entry.record.get("name")))):
        _place_embedding(folder / part[0], path.read_bytes(), folder)
        return []
    if media_type == "application/x-protobuf":
        return [_graph_event(entry, path.read_bytes())]
    if entry.kind == "file" and media_type in ("text/tab-separated-values", "image/png"):
        raise NotHeldError("the file is no part of an embedding.")
    if media_type == TABLE:
        value = _table(_name(entry), json.loads(path.read_bytes()))
        return [summaries.summary_event(entry.t, entry.step, [value])]
    make = _VALUES.get(media_type, _image)
    return [summaries.summary_event(entry.t, entry.step, make(_name(entry), path))]


def _image(name: str, path: Path) -> list[bytes]:
    return [summaries.image_value(name, path.read_bytes())]


def _webp(name: str, path: Path) -> list[bytes]:
    """WebP, which TensorBoard does not show, as PNG, and a video as GIF."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise NotHeldError("TensorBoard cannot show WebP, and Pillow is missing.") from error
    file = io.BytesIO()
    with Image.open(path) as opened:
        is_video = getattr(opened, "is_animated", False)
        opened.save(file, format="GIF" if is_video else "PNG", save_all=is_video)
    return [summaries.image_value(name, file.getvalue())]


def _audio(name: str, path: Path) -> list[bytes]:
    data = path.read_bytes()
    channels, rate, frame_bytes = 1, 0, 1
    if len(data) >= 44:
        channels, rate, _, frame_bytes = struct.unpack_from("<HIIH", data, 22)
    frames = (len(data) - 44) // max(1, frame_bytes)
    return [summaries.audio_value(name, data, rate=rate, channels=channels, frames=frames)]


def _table(name: str, table: dict[str, Any]) -> bytes:
    """A precision-recall curve; any other table is a text in Markdown."""
    columns, rows = tuple(table["columns"]), table["data"]
    if columns == PR_CURVE_COLUMNS:
        curve = np.array(rows, dtype="<f4").T[1:]
        content = pb.whole(2, curve.shape[1])  # the number of thresholds
        return summaries.tensor_value(name, curve, plugin="pr_curves", content=content)
    lines = [" | ".join(map(_cell, row)) for row in (columns, ["---"] * len(columns), *rows)]
    text = "\n".join(f"| {line} |" for line in lines[: _MAX_ROWS + 2])
    left_out = len(rows) - _MAX_ROWS
    text += f"\n\n{left_out:,} more rows are in the run's folder." if left_out > 0 else ""
    return summaries.text_value(name, text)


def _cell(cell: Any) -> str:
    if isinstance(cell, dict) and "file" in cell:
        cell = cell.get("caption") or cell.get("media_type")
    return str(cell).replace("|", "\\|").replace("\n", "<br>")


def _mesh(name: str, path: Path) -> list[bytes]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {part: file[part].astype("<f4") for part in _MESH if part in file}
        config = str(file["config"]) if "config" in file else "{}"
    if "vertices" not in arrays:
        raise NotHeldError("the arrays are no mesh.")
    components = sum(1 << _MESH[part][0] for part in arrays)
    values: list[bytes] = []
    for part, array in arrays.items():
        number, suffix = _MESH[part]
        shape = pb.chunk(6, b"".join(map(pb.varint, array.shape)))
        content = pb.text(2, name) + pb.whole(3, number) + pb.text(5, config) + shape
        content += pb.whole(7, components)
        tag = f"{name}_{suffix}"
        values.append(summaries.tensor_value(tag, array, plugin="mesh", content=content))
    return values


def _tensor(name: str, path: Path) -> list[bytes]:
    array = np.load(path, allow_pickle=False)
    return [summaries.tensor_value(name, array, plugin="tensor", content=b"")]


_VALUES: Mapping[str, Callable[[str, Path], list[bytes]]] = {
    "image/webp": _webp,
    "audio/wav": _audio,
    "application/x-npz": _mesh,
    "application/x-npy": _tensor,
}


def _graph_event(entry: Entry, data: bytes) -> bytes:
    """TensorBoard's own messages, which a run keeps under these names."""
    group, _, step = _name(entry).partition("/")
    start = pb.double(1, entry.t) + pb.whole(2, entry.step)
    if group == "graph":
        return start + pb.chunk(4, data)
    if group == "run_metadata":
        return start + pb.chunk(8, pb.text(1, step) + pb.chunk(2, data))
    raise NotHeldError("the message is no graph.")


def _place_embedding(path: Path, data: bytes, folder: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    with new_text_file(folder / _CONFIG) as out:
        for points in sorted(folder.glob("*/*/tensors.tsv")):
            out.write(_embedding_config(points.parent, folder))


def _embedding_config(place: Path, folder: Path) -> str:
    """An entry of the projector's configuration, in the text format of protobuf."""
    lines = [f"tensor_name: {_quoted(f'{unquote(place.name)}:{place.parent.name}')}"]
    points, labels, sprite = (
        place / file for file in ("tensors.tsv", "metadata.tsv", "sprite.png")
    )
    for path, field in ((points, "tensor_path"), (labels, "metadata_path")):
        if path.exists():
            lines.append(f"{field}: {_quoted(str(path.relative_to(folder)))}")
    if sprite.exists():
        num_points = points.read_bytes().count(b"\n")
        width, _ = summaries.image_size(sprite.read_bytes())
        side = width // max(1, math.ceil(num_points**0.5))  # the images are squares, in a square
        image = _quoted(str(sprite.relative_to(folder)))
        lines.append(f"sprite {{ image_path: {image} {f'single_image_dim: {side} ' * 2}}}")
    return "embeddings {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _name(entry: Entry) -> str:
    """The tag; the names of files have the suffix of their content."""
    name = sample_name(entry.record)
    suffix = Path(str(entry.record.get("file"))).suffix
    return name.removesuffix(suffix) if entry.kind == "file" else name
