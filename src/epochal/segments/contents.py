"""What a segment says about itself: a JSON document in the Parquet file's own metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epochal.errors import FormatError
from epochal.journal.line import decode_json, encode_json
from epochal.records import Axis
from epochal.segments.footer import FOOTER_KEY, SeriesName, decode_footer, pack_text, unpack_text
from epochal.segments.shape import Path, Shape

METADATA_KEY = b"epochal.segment"
# The pages of a Parquet file have checksums, what it says of itself has none.
DIGEST_KEY = b"epochal.segment.blake2b"
# 2: names of series are in the footer, and long texts are packed.
SEGMENT_VERSION = 2


@dataclass(frozen=True, slots=True)
class Source:
    """Where points of a series lie: a column of one kind's records; of one GPU's where it says."""

    kind: str
    path: Path
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesSources:
    """All the places that hold points of one series; ``long``: also in long form."""

    name: str
    axis: Axis
    sources: tuple[Source, ...]
    long: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """The table of contents of a segment."""

    part: str
    num_records: int
    num_damaged: int
    journal_bytes: int
    first_step: int | None
    last_step: int | None
    kinds: Mapping[str, int]
    columns: Mapping[Path, str]
    shapes: tuple[Shape, ...]
    # The kinds of each row group; none for the one that holds long points and damage.
    groups: tuple[tuple[str, ...], ...]
    series: tuple[SeriesSources, ...]

    def metadata(self) -> dict[bytes, bytes]:
        """The document and its digest, as they are kept in the file."""
        text = self._encode()
        return {METADATA_KEY: text, DIGEST_KEY: _digest(text)}

    def _encode(self) -> bytes:
        """The document; paths are written once and meant by their number."""
        paths = {path: number for number, path in enumerate(self.columns)}
        document = {
            "v": SEGMENT_VERSION,
            "part": self.part,
            "num_records": self.num_records,
            "num_damaged": self.num_damaged,
            "journal_bytes": self.journal_bytes,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "kinds": self.kinds,
            "columns": [[*path, name] for path, name in self.columns.items()],
            "shapes": self.shapes,
            "groups": self.groups,
            # In the order of the names in the footer; 1 is a series in long form alone.
            "series": [
                [series.long, [[s.kind, paths[s.path], s.gpu] for s in series.sources]]
                if series.sources
                else 1
                for series in self.series
            ],
        }
        return pack_text(encode_json(document))


def decode_contents(metadata: Mapping[bytes, bytes], *, file: str) -> Contents:
    """Read the document back; raises FormatError naming the file."""
    text = metadata.get(METADATA_KEY)
    if text is None:
        raise FormatError(f"{file} is a Parquet file, but not a sealed journal part.")
    if metadata.get(DIGEST_KEY, _digest(text)) != _digest(text):
        raise FormatError(f"{file} has a damaged table of contents.")
    try:
        document = decode_json(unpack_text(text))
        _check_version(document["v"], file=file)
        if document["v"] == 1:
            return _contents(document, document["series"])
        return _contents(document, _named(document["series"], _names(metadata)))
    except FormatError:
        raise
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise FormatError(f"{file} has a damaged table of contents: {error!r}") from error


def _check_version(version: int, *, file: str) -> None:
    if version > SEGMENT_VERSION:
        raise FormatError(
            f"{file} was sealed by a newer Epochal (segment format {version}, this one reads up"
            f" to {SEGMENT_VERSION}): upgrade with 'pip install -U epochal'."
        )


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()


def _names(metadata: Mapping[bytes, bytes]) -> Sequence[SeriesName]:
    footer = decode_footer(metadata[FOOTER_KEY])
    if footer is None:
        raise ValueError("the footer is damaged")
    return footer.names


def _named(series: list[Any], names: Sequence[SeriesName]) -> Iterator[dict[str, Any]]:
    """The series as they were written in version 1."""
    for (name, axis), entry in zip(names, series, strict=True):
        long, sources = (True, []) if entry == 1 else entry
        yield {"name": name, "axis": axis, "long": long, "from": sources}


def _contents(document: dict[str, Any], entries: Iterable[dict[str, Any]]) -> Contents:
    columns = {tuple(path): name for *path, name in document["columns"]}
    paths = list(columns)
    series = tuple(
        SeriesSources(
            entry["name"],
            entry["axis"],
            tuple(Source(kind, paths[number], gpu) for kind, number, gpu in entry["from"]),
            entry["long"],
        )
        for entry in entries
    )
    return Contents(
        part=document["part"],
        num_records=document["num_records"],
        num_damaged=document["num_damaged"],
        journal_bytes=document["journal_bytes"],
        first_step=document["first_step"],
        last_step=document["last_step"],
        kinds=document["kinds"],
        columns=columns,
        shapes=tuple(Shape(kind, tuple(names), codes) for kind, names, codes in document["shapes"]),
        groups=tuple(map(tuple, document["groups"])),
        series=series,
    )
