"""Records that are alike, for a reader that looks at only some of them.

A program that logs thousands of times a second writes lines with the same keys. Their numbers
are decoded into structs, which takes a third of the time of decoding the records; a record is
decoded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import Any

from epochal.journal.columnar import model_of
from epochal.journal.line import decode_json
from epochal.journal.line_columns import LineModel, LineShape
from epochal.records import Record

# Fewer lines are decoded sooner than a decoder for them is made.
_WORTH_A_DECODER = 64
_MAX_PAUSE = 8
_RECORD_START = b'{"log":"'
_FIRST_BYTES = itemgetter(slice(len(_RECORD_START)))


class AlikeRecords:
    """Records of one kind that have the same keys, which hold numbers.

    ``names`` are those of the free metrics. ``times`` has the time of each record.
    """

    __slots__ = ("_lines", "_numbers", "_shape", "kind", "names", "times")

    def __init__(self, shape: LineShape, numbers: list[Any], lines: list[bytes]) -> None:
        self._shape = shape
        self._numbers = numbers
        self._lines = lines
        self.kind = shape.kind
        self.names = dict(shape.keys).get("m") or ()
        self.times = self.column("t")

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, place: int) -> Record:
        record: Record = decode_json(self._lines[place])
        return record

    def __iter__(self) -> Iterator[Record]:
        return map(decode_json, self._lines)

    def column(self, *path: str) -> list[float]:
        """The number that each record has in a field; empty where they have no such field."""
        attribute = self._shape.attribute(path)
        return [] if attribute is None else list(map(attrgetter(attribute), self._numbers))


def decode_alike(model: LineModel, text: bytes) -> AlikeRecords | None:
    """The records of whole lines; None unless all have the keys of the model, and numbers."""
    try:
        numbers = model.decode_numbers(text)
    except (ValueError, RecursionError):
        return None
    lines = text.split(b"\n")
    lines.pop()
    # Each record begins a line, and none ends in a later one.
    if len(lines) != len(numbers) or set(map(_FIRST_BYTES, lines)) != {_RECORD_START}:
        return None
    records = AlikeRecords(model.shape, numbers, lines)
    return records if set(map(type, records.times)) == {float} else None


# Records that follow each other in a part.
Records = list[Record] | AlikeRecords


class AlikeDecoder:
    """Recognises lines with the keys of the lines before them."""

    def __init__(self) -> None:
        self._model: LineModel | None = None
        # How often in turn lines were not alike, and how often to wait until the next attempt.
        self._misses = 0
        self._pause = 0

    def decode(self, text: bytes) -> AlikeRecords | None:
        """The records of whole lines; None unless all have the keys of the lines before."""
        if self._pause:
            self._pause -= 1
            return None
        model = self._model
        if model is not None:
            found = decode_alike(model, text)
            if found is not None:
                self._misses = 0
                return found
            self._misses = min(self._misses + 1, _MAX_PAUSE)
            self._pause = self._misses - 1
        self._learn(text)
        return None

    def _learn(self, text: bytes) -> None:
        """Expect lines like the last one from now on."""
        self._model = None
        if text.count(b"\n") >= _WORTH_A_DECODER:
            model = model_of(text[text.rfind(b"\n", 0, -1) + 1 : -1])
            keys = [] if model is None else [key for key, _ in model.shape.keys]
            if "t" in keys and "nonfinite" not in keys:
                self._model = model
