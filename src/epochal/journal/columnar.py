"""Journal lines to columns: hundreds of lines in one call, exact or not at all.

Lines with the same keys in the same order have the same *keys*, and with values of the same types
the same *shape*. Lines of a known shape are decoded as structs, which takes no dictionary and
hardly any Python, and the structs are encoded again. Their values become columns only if that gives
back the very bytes. So whatever a decoder forgives shows there: another order, a key twice, ``-0``,
1 for 1.0, a missing newline. Every other line is decoded by itself.

A reader of series does without the order of keys, and 1 is 1.0 to it. For such a reader it is
enough that the lines without their numbers are all the same text.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Union

import msgspec

from epochal.journal.line import decode, decode_whole, encode_lines
from epochal.journal.line_columns import (
    MAX_DECODERS,
    Column,
    LineGroup,
    LineModel,
    Lines,
    LineShape,
    line_model,
    merged_groups,
    pack,
    take,
)
from epochal.records import Record

_SCALARS = frozenset({int, float, bool, str, type(None)})
_NUMBERS = frozenset({int, float})
# What numbers are made of. Lines that differ in nothing else probably have the same keys.
_NUMBER_BYTES = b"0123456789.eE+-"
_FINISH = b'{"log":"finish",'
_KEY = re.compile(rb'"([^"\\]*)":')
# Keys that the encoder writes otherwise than they are spelled.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
# So few bytes that their structs are in the processor's cache when their values are taken out, and
# so few lines that the garbage collector, which counts tuples, does not start meanwhile.
_SLICE_BYTES = 64 * 1024
_SLICE_LINES = 160
# Making a decoder takes as long as decoding this many lines without it.
_WORTH_A_DECODER = 64
_MAX_FIELDS = 2000
_MAX_PAUSE = 8

# A shape, and a column of values for each of its types.
ShapedColumns = tuple[LineShape, list[tuple[Any, ...]]]


class Line(NamedTuple):
    """A line that was decoded by itself: its record, or None for a damaged one.

    ``start`` and ``end`` are its bytes in the text, the newline included. ``is_whole`` is False
    where the record follows the beginning of a torn one.
    """

    ordinal: int
    start: int
    end: int
    record: Record | None
    is_whole: bool


class Decoded(NamedTuple):
    """All that a text holds: records by their shapes, and lines by themselves, in file order."""

    groups: list[Lines]
    lines: list[Line]
    num_records: int

    def spans(self, text: bytes) -> list[tuple[int, int]]:
        """Where each record lies in the text that was decoded, its newline included."""
        damaged = {line.start for line in self.lines if line.record is None}
        found: list[tuple[int, int]] = []
        start = 0
        for line in text.split(b"\n"):
            end = start + len(line) + 1
            if line and start not in damaged:
                found.append((start, end))
            start = end
        return found

    def first_record(self) -> Record | None:
        """The first of all records."""
        alone = next((line for line in self.lines if line.record is not None), None)
        if self.groups and (alone is None or self.groups[0].ordinals[0] < alone.ordinal):
            return self.groups[0].records()[0]
        return None if alone is None else alone.record


class KnownShapes:
    """What decoders have learnt of the shapes of lines: thousands of small parts are alike.

    Several threads may share one: what is replaced is replaced as a whole.
    """

    def __init__(self) -> None:
        self.latest: tuple[dict[str, LineModel], Callable[[bytes], list[Any]] | None] = ({}, None)
        self.seen: set[bytes] = set()
        # The shape of the last text whose lines were all alike; shapes by lines without numbers.
        self._usual: LineModel | None = None
        self._by_look: dict[bytes, LineModel | None] = {}

    def usual_columns(self, text: bytes) -> ShapedColumns | None:
        """The columns of whole lines; None unless they have the shape of those before."""
        usual = self._usual
        columns = None if usual is None else usual.scalar_columns(text)
        return None if usual is None or columns is None else (usual.shape, columns)

    def columns_by_look(self, lines: list[bytes]) -> list[ShapedColumns] | None:
        """The columns of lines by shape, in the order of first appearance; None if some have none.

        Lines that differ in nothing but their numbers are decoded together.
        """
        alike: dict[bytes, list[bytes]] = {}
        for line in lines:
            alike.setdefault(line.translate(None, _NUMBER_BYTES), []).append(line)
        found: list[ShapedColumns] = []
        for look, some in alike.items():
            text = b"\n".join([*some, b""])
            model = self._by_look.get(look)
            columns = None if model is None else model.scalar_columns(text)
            if columns is None:
                model = _typed_model_of(some[0])
                columns = None if model is None else model.scalar_columns(text)
                if len(self._by_look) < MAX_DECODERS or look in self._by_look:
                    self._by_look[look] = model
            if model is None or columns is None:
                return None
            found.append((model.shape, columns))
            self._usual = model if len(alike) == 1 else self._usual
        return found


class ColumnarDecoder:
    """Decodes the lines of one part; it learns their shapes as it goes.

    With ``shapes`` it begins with what others have learnt, and passes on what it learns. Of a shape
    that ``are_series`` accepts, only numbers are needed, whatever the order of the keys in a line.
    Where most values of a column are floats, 1 stands as 1.0.
    """

    def __init__(
        self,
        shapes: KnownShapes | None = None,
        *,
        are_series: Callable[[LineShape], bool] = lambda _: False,
    ) -> None:
        self._shapes = KnownShapes() if shapes is None else shapes
        # The shape that the records of each kind had last, and what decodes all of them.
        latest, self._decode_latest = self._shapes.latest
        self._latest = dict(latest)
        # By the text of lines without their numbers: that it was seen, and the shape it had.
        self._seen = self._shapes.seen
        self._known: dict[bytes, LineModel] = {}
        # How often in turn a slice was not of the latest shapes, and how many slices to wait.
        self._misses = 0
        self._pause = 0
        self._slice_bytes = _SLICE_BYTES
        self._are_series = are_series
        # Where the last slice was of one shape of series: its model, and its lines without numbers.
        self._series: tuple[LineModel, bytes] | None = None

    def decode(self, text: bytes, *, first: int) -> Decoded:
        """Decode whole lines, each ended by a newline; ``first`` is the first record's ordinal."""
        work = _Work(first)
        start = 0
        # Header and last record have shapes of their own: among others they would slow down all.
        if first == 0 and text:
            start = text.index(b"\n") + 1
            _number(work, [text[: start - 1]], 0, [])
        last = text.rfind(b"\n", 0, len(text) - 1) + 1
        end_of_rest = last if last >= start and text.startswith(_FINISH, last) else len(text)
        while start < end_of_rest:
            end = text.rfind(b"\n", start, min(start + self._slice_bytes, end_of_rest)) + 1
            end = end or text.index(b"\n", start) + 1
            piece = text[start:end]
            if not (self._take_series(piece, work) or self._take_latest(piece, work)):
                self._take_groups(piece, start, work)
            start = end
        if end_of_rest < len(text):
            _number(work, [text[last:-1]], last, [])
        groups = sorted(work.groups.values(), key=lambda group: group.ordinals[0])
        return Decoded(groups, work.lines, work.ordinal - first)

    def _take_series(self, text: bytes, work: _Work) -> bool:
        """Take in lines of the series that came last, without a look at the order of keys.

        With the same punctuation, as many keys as the struct has fields, and none of them missing,
        each stands there once. So the values are those that belong to them.
        """
        if self._series is None:
            return False
        model, line = self._series
        rest = text.translate(None, _NUMBER_BYTES)
        size = len(rest) // len(line)
        if rest == line * size:
            try:
                columns = model.packed(model.decode_numbers(text))
            except (ValueError, RecursionError, OverflowError, struct.error):
                pass  # an int beyond 64 bits, a step of 1.0, other keys
            else:
                work.add(model.shape, range(work.ordinal, work.ordinal + size), columns)
                work.ordinal += size
                return True
        self._series = None
        return False

    def _take_latest(self, text: bytes, work: _Work) -> bool:
        if self._pause:
            self._pause -= 1
            return False
        if self._decode_latest is None:
            return False
        records = _exactly(self._decode_latest, text)
        if records is not None:
            self._misses = 0
            return self._add(records, text, work)
        self._misses = min(self._misses + 1, _MAX_PAUSE)
        self._pause = self._misses - 1
        return False

    def _add(self, records: list[Any], text: bytes, work: _Work) -> bool:
        """Add records of the latest shapes; False, adding nothing, for an int beyond 64 bits."""
        first = work.ordinal
        line_bytes = len(text) // len(records)
        self._slice_bytes = min(_SLICE_BYTES, _SLICE_LINES * line_bytes)
        ordinals: dict[type, Sequence[int]] = {}
        if len(self._latest) == 1:
            ordinals[type(records[0])] = range(first, first + len(records))
        else:
            for ordinal, kind in enumerate(map(type, records), first):
                ordinals.setdefault(kind, []).append(ordinal)  # type: ignore[attr-defined]
        packed: list[tuple[LineShape, Sequence[int], list[Column]]] = []
        for model in self._latest.values():
            some = ordinals.get(model.struct)
            if some is None:
                continue
            is_all = len(some) == len(records)
            if is_all:
                self._learn_series(model, text)
            chosen = records if is_all else [records[ordinal - first] for ordinal in some]
            try:
                packed.append((model.shape, some, model.packed(chosen)))
            except struct.error:
                return False
        for shape, some, columns in packed:
            work.add(shape, some, columns)
        work.ordinal += len(records)
        return True

    def _learn_series(self, model: LineModel, text: bytes) -> None:
        """Know the series that lines of one shape are, however their numbers are spelled."""
        if not (_NUMBERS.issuperset(model.shape.types) and self._are_series(model.shape)):
            return
        line = text[: text.index(b"\n") + 1]
        written = _rewritten([line])
        # A key that stands twice is one key of the record.
        if written is not None and _punctuation(written) == _punctuation(line):
            self._series = model, line.translate(None, _NUMBER_BYTES)

    def _take_groups(self, text: bytes, start: int, work: _Work) -> None:
        """Take in lines that are not all of the latest shapes."""
        lines = text.split(b"\n")
        lines.pop()
        alike: dict[bytes, list[int]] = {}
        for place, line in enumerate(lines):
            alike.setdefault(line.translate(None, _NUMBER_BYTES), []).append(place)
        taken: list[LineGroup] = []
        for signature, places in alike.items():
            known = self._of_known_shape(signature, lines, places)
            if known is not None:
                taken.append(known)
            elif self._is_worth(signature, len(places)):
                groups = [
                    group
                    for model, some, records in _of_same_keys(lines, places)
                    for group in model.by_types(some, records)
                ]
                if len(groups) == 1 and len(self._known) < MAX_DECODERS:
                    self._known[signature] = line_model(*groups[0].shape)
                taken += groups
        taken = merged_groups(taken)
        self._learn(taken)
        if len(taken) == 1 and len(taken[0].places) == len(lines):
            self._learn_series(line_model(*taken[0].shape), text)
        _number(work, lines, start, taken)

    def _of_known_shape(
        self, signature: bytes, lines: list[bytes], places: list[int]
    ) -> LineGroup | None:
        """Lines that look like others of one shape before, if they have that shape."""
        model = self._known.get(signature)
        if model is None:
            return None
        records = _exactly(model.decode_lines, _joined(lines, places))
        if records is None:
            del self._known[signature]
            return None
        try:
            return LineGroup(model.shape, places, model.packed(records))
        except struct.error:
            return None

    def _is_worth(self, signature: bytes, count: int) -> bool:
        """Whether lines are many, or of a sort that comes again."""
        if count >= _WORTH_A_DECODER or signature in self._seen:
            return True
        if len(self._seen) < MAX_DECODERS:
            self._seen.add(signature)
        return False

    def _learn(self, taken: Iterable[LineGroup]) -> None:
        counts: dict[str, int] = {}
        before = dict(self._latest)
        for shape, places, _ in taken:
            if len(places) > counts.get(shape.kind, 0):
                counts[shape.kind] = len(places)
                self._latest[shape.kind] = line_model(shape.kind, shape.keys, shape.types)
        if self._latest != before:
            structs = tuple(model.struct for model in self._latest.values())
            self._decode_latest = msgspec.json.Decoder(Union[structs]).decode_lines  # noqa: UP007
            self._shapes.latest = (dict(self._latest), self._decode_latest)


class _Work:
    """What was made of a text so far, and the ordinal of the next record."""

    def __init__(self, first: int) -> None:
        self.ordinal = first
        self.groups: dict[LineShape, Lines] = {}
        self.lines: list[Line] = []

    def add(self, shape: LineShape, ordinals: Sequence[int], columns: list[Column]) -> None:
        """Add records of one shape."""
        group = self.groups.get(shape)
        if group is None:
            self.groups[shape] = Lines(shape, pack(int, ordinals), columns)
            return
        group.ordinals.extend(pack(int, ordinals))
        for column, more in zip(group.columns, columns, strict=True):
            column += more


def _exactly(decode_lines: Callable[[bytes], list[Any]], text: bytes) -> list[Any] | None:
    """The records of a text; None unless encoding them gives back the text."""
    try:
        records = decode_lines(text)
    except (ValueError, RecursionError):
        return None
    return records if encode_lines(records) == text else None


def _of_same_keys(
    lines: list[bytes], places: list[int]
) -> Iterator[tuple[LineModel, list[int], list[Any]]]:
    """Lines that look alike, by their keys; those that are not what they look like are left out."""
    model = model_of(lines[places[0]])
    records = None if model is None else _exactly(model.decode_lines, _joined(lines, places))
    if model is not None and records is not None:
        yield model, places, records
        return
    if model is None and decode_whole(lines[places[0]]) is not None:
        return  # lists and deeper objects: their lines are read one by one
    by_keys: dict[tuple[bytes, ...], list[int]] = {}
    for place in places:
        by_keys.setdefault(tuple(_KEY.findall(lines[place])), []).append(place)
    for some in by_keys.values():
        model = model_of(lines[some[0]]) if len(some) >= _WORTH_A_DECODER else None
        if model is not None and (text := _rewritten(take(lines, some))) is not None:
            records = _exactly(model.decode_lines, text)
            if records is not None:
                yield model, some, records


def _rewritten(lines: list[bytes]) -> bytes | None:
    """The records of lines as this package writes them: others may have spaces, or 1.50."""
    records = list(map(decode_whole, lines))
    return None if None in records else encode_lines(records)


def _punctuation(line: bytes) -> bytes:
    return line.translate(None, _NUMBER_BYTES + b" ")


def model_of(line: bytes) -> LineModel | None:
    """The model of lines with the keys of this one; None where columns would not do for them."""
    record = decode_whole(line)
    if record is None:
        return None
    keys: list[tuple[str, tuple[str, ...] | None]] = []
    names: list[str] = [record["log"], *record]
    for name, value in record.items():
        inside = tuple(value) if type(value) is dict else None
        values = (value,) if inside is None else value.values()
        if not _SCALARS.issuperset(map(type, values)):
            return None
        if name != "log":
            keys.append((name, inside))
        names += inside or ()
    if not keys or len(names) > _MAX_FIELDS or any(map(_ESCAPED.search, names)):
        return None
    return line_model(record["log"], tuple(keys), None)


def _typed_model_of(line: bytes) -> LineModel | None:
    """The same with the types of its values."""
    record, model = decode_whole(line), model_of(line)
    if record is None or model is None:
        return None
    fields = (value for name, value in record.items() if name != "log")
    values = (value.values() if type(value) is dict else (value,) for value in fields)
    types = tuple(map(type, itertools.chain.from_iterable(values)))
    if any("log" in (members or ()) for _, members in model.shape.keys):
        return None  # an object inside a record would look like a record
    return line_model(model.shape.kind, model.shape.keys, types) if types else None


def _number(work: _Work, lines: list[bytes], start: int, taken: list[LineGroup]) -> None:
    """Take in lines and groups with their ordinals: only here is known which are records."""
    first = work.ordinal
    if sum(len(places) for _, places, _ in taken) == len(lines):
        work.ordinal += len(lines)
        for shape, places, columns in taken:
            work.add(shape, [first + place for place in places], columns)
        return
    is_taken = bytearray(len(lines))
    for _, places, _ in taken:
        for place in places:
            is_taken[place] = 1
    ordinals: list[int] = []
    for line, is_grouped in zip(lines, is_taken, strict=True):
        ordinals.append(work.ordinal)
        end = start + len(line) + 1
        if is_grouped:
            work.ordinal += 1
        elif line:  # an empty one is the newline a writer puts after a torn record
            whole = decode_whole(line)
            record = decode(line) if whole is None else whole
            work.lines.append(Line(work.ordinal, start, end, record, whole is not None))
            work.ordinal += record is not None
        start = end
    for shape, places, columns in taken:
        work.add(shape, take(ordinals, places), columns)


def _joined(lines: list[bytes], places: list[int]) -> bytes:
    return b"\n".join([*take(lines, places), b""])
