"""The metadata of a segment: what lists need of a part, and how to read its columns.

It is one JSON document among the key-value metadata of the Parquet file, so that no column has to
be read for a list of runs or for the summaries of a run.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from epochal.errors import FormatError
from epochal.journal.line import decode_json, encode_json
from epochal.journal.shape import FieldPath, Shape
from epochal.records import Axis, Record
from epochal.segments.columns import Extent, PartSummary, SeriesKey
from epochal.series.reduce import Summary
from epochal.values import nonfinite_word

KEY = b"epochal.part"
VERSION = 1
# The kinds whose records are kept in the metadata, unless they take more than this.
KEPT_KINDS = (
    "run", "finish", "define", "resume", "option", "summary", "epoch", "event", "finding",
)  # fmt: skip
MAX_KEPT_BYTES = 64 * 1024
# What earlier builds wrote into their segments.
_EARLIER_KEY = b"epochal.segment"
_DIGEST_CHARS = 32
_PLAIN_BYTES = 4096
_AXES: Mapping[str, Axis] = {"s": "step", "e": "epoch", "t": "time"}
_LETTERS = {axis: letter for letter, axis in _AXES.items()}
_TYPES: Mapping[str, type] = {"f": float, "i": int, "b": bool, "s": str, "n": type(None)}
_TYPE_LETTERS = {kind: letter for letter, kind in _TYPES.items()}


class Group(NamedTuple):
    """The records of one shape; of a kind whose series are named by its GPU, of one GPU."""

    shape: Shape
    gpu: Any
    num_rows: int


class Column(NamedTuple):
    """A column of the file: the path of its values, and how they are stored.

    ``stored`` is "ms" for times in whole milliseconds, else the name of the Parquet type.
    """

    name: str
    path: FieldPath
    type: type
    stored: str


class Footer(msgspec.Struct, dict=True, frozen=True):
    """The metadata of one segment; ``records`` are those of the kinds in ``kept``.

    ``documented`` are the numbers of the series that have points in records kept as JSON, and
    ``damage`` the ordinals of the records that damaged bytes stand before.
    """

    part: str
    num_records: int
    num_damaged: int
    num_malformed: int
    journal_bytes: int
    kinds: dict[str, int]
    extents: dict[str, Extent]
    groups: list[Group]
    columns: list[Column]
    names: list[SeriesKey]
    documented: list[int]
    summaries: dict[SeriesKey, PartSummary]
    kept: list[str]
    records: list[tuple[int, Record]]
    damage: list[int]

    @cached_property
    def keys(self) -> dict[SeriesKey, None]:
        """The series of the part, in order of first appearance."""
        return dict.fromkeys(self.names)

    def encode(self) -> bytes:
        """The text that is kept in the file; other programs read it as a string."""
        document = {
            **{name: getattr(self, name) for name in self.__struct_fields__},
            "v": VERSION,
            "groups": [
                (g.shape.kind, g.shape.keys, _letters(g.shape.types), g.gpu, g.num_rows)
                for g in self.groups
            ],
            "columns": [(c.name, c.path, _letters((c.type,)), c.stored) for c in self.columns],
            "names": [key.name for key in self.names],
            "axes": "".join(_LETTERS[key.axis] for key in self.names),
            "summaries": [_numbers(self.summaries[key]) for key in self.names],
        }
        text = encode_json(document)
        if len(text) > _PLAIN_BYTES:
            text = base64.b64encode(zlib.compress(text, 3))
        return _digest(text) + text


def decode_footer(metadata: Mapping[bytes, bytes], *, file: str) -> Footer:
    """The metadata of a file; raises ``FormatError``, naming the file, where it cannot be read."""
    value = metadata.get(KEY)
    if value is None:
        if _EARLIER_KEY in metadata:
            raise FormatError(
                f"{file} was sealed by an earlier build of Epochal; only that build can read it."
            )
        raise FormatError(f"{file} is not a sealed part of a journal.")
    text = value[_DIGEST_CHARS:]
    if value[:_DIGEST_CHARS] != _digest(text):
        raise FormatError(f"{file} is damaged: its metadata does not have its checksum.")
    document = decode_json(
        text if text.startswith(b"{") else zlib.decompress(base64.b64decode(text))
    )
    version = document.pop("v")
    if version > VERSION:
        raise FormatError(
            f"{file} was sealed by a newer Epochal: upgrade with 'pip install -U epochal'."
        )
    axes, numbers = document.pop("axes"), document["summaries"]
    names = [SeriesKey(n, _AXES[a]) for n, a in zip(document["names"], axes, strict=True)]
    document |= {
        "extents": {kind: Extent(*extent) for kind, extent in document["extents"].items()},
        "groups": [_group(*group) for group in document["groups"]],
        "columns": [
            Column(name, tuple(path), _TYPES[letter], stored)
            for name, path, letter, stored in document["columns"]
        ],
        "names": names,
        "summaries": {key: _summary(one) for key, one in zip(names, numbers, strict=True)},
        "records": [(ordinal, record) for ordinal, record in document["records"]],
    }
    return Footer(**document)


def _letters(types: tuple[type, ...]) -> str:
    return "".join(_TYPE_LETTERS[kind] for kind in types)


def _group(kind: str, keys: list[Any], letters: str, gpu: Any, num_rows: int) -> Group:
    frozen = tuple((name, None if inner is None else tuple(inner)) for name, inner in keys)
    return Group(Shape(kind, frozen, tuple(_TYPES[c] for c in letters)), gpu, num_rows)


def _numbers(known: PartSummary) -> list[Any]:
    """A summary as JSON holds it; nan and infinities are words."""
    numbers = (*msgspec.structs.astuple(known.summary), known.first_at, known.last_t)
    return [nonfinite_word(n) or n if type(n) is float else n for n in numbers]


def _summary(numbers: list[Any]) -> PartSummary:
    plain: list[Any] = [float(n) if type(n) is str else n for n in numbers]
    return PartSummary(Summary(*plain[:-2]), plain[-2], plain[-1])


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_CHARS // 2).hexdigest().encode()
