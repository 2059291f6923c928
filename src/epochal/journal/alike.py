"""Records that are alike, for a reader that looks at only some of them.

A program that logs thousands of times a second writes lines with the same keys. Their numbers
are decoded into structs, which takes a third of the time of decoding the records; a record is
decoded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from epochal.journal.line import decode_json
from epochal.journal.shape import NUMBER, WORTH_A_STRUCT, LineStruct, paths_of, struct_of
from epochal.records import Record

_MAX_PAUSE = 8


class AlikeRecords:
    """Records of one kind that have the same keys, which hold numbers.

    ``names`` are those of the free metrics. ``times`` has the time of each record.
    """

    __slots__ = ("_columns", "_lines", "kind", "names", "times")

    def __init__(self, struct: LineStruct, structs: list[Any], lines: list[bytes]) -> None:
        self._columns = dict(zip(paths_of(struct.keys), struct.columns(structs), strict=True))
        self._lines = lines
        self.kind = struct.kind
        self.names = dict(struct.keys).get("m") or ()
        self.times = self.column("t")

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, place: int) -> Record:
        record: Record = decode_json(self._lines[place])
        return record

    def __iter__(self) -> Iterator[Record]:
        return map(decode_json, self._lines)

    def column(self, *path: str) -> Sequence[float]:
        """The number that each record has in a field; empty where they have no such field."""
        return self._columns.get(path, ())


def decode_alike(struct: LineStruct, text: bytes) -> AlikeRecords | None:
    """The records of whole lines; None unless all have the keys of the struct."""
    lines = text.split(b"\n")[:-1]
    structs = struct.decode(text, len(lines))
    records = None if structs is None else AlikeRecords(struct, structs, lines)
    return records if records and set(map(type, records.times)) == {float} else None


# Records that follow each other in a part.
Records = list[Record] | AlikeRecords


class AlikeDecoder:
    """Recognises lines with the keys of the lines before them."""

    def __init__(self) -> None:
        self._struct: LineStruct | None = None
        # How often in turn lines were not alike, and how often to wait until the next attempt.
        self._misses = 0
        self._pause = 0

    def decode(self, text: bytes) -> AlikeRecords | None:
        """The records of whole lines; None unless all have the keys of the lines before."""
        if self._pause:
            self._pause -= 1
            return None
        if self._struct is not None:
            found = decode_alike(self._struct, text)
            if found is not None:
                self._misses = 0
                return found
            self._misses = min(self._misses + 1, _MAX_PAUSE)
            self._pause = self._misses - 1
        self._learn(text)
        return None

    def _learn(self, text: bytes) -> None:
        """Expect lines like the last one from now on."""
        self._struct = None
        if text.count(b"\n") >= WORTH_A_STRUCT:
            struct = struct_of(text[text.rfind(b"\n", 0, -1) + 1 : -1], NUMBER)
            keys = [] if struct is None else [key for key, _ in struct.keys]
            if "t" in keys and "nonfinite" not in keys:
                self._struct = struct
