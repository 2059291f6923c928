"""Decides what becomes a column, what is kept in long form and what stays JSON.

A column costs a cell for every record of its kind, so there are at most ``MAX_COLUMNS`` and not
many more cells than values. Free metrics beyond that go to long form; records whose other fields
have no column are kept whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis, axis_of
from epochal.segments.collect import Bucket, Collected, milliseconds_of
from epochal.segments.long import LONG_CODES, NO_NUMBER, Along, LongForm, LongKey
from epochal.segments.shape import NUMBERS, VALUED, Path, Shape, is_flat

MAX_COLUMNS = 500
_CELLS_PER_VALUE = 16
_FREE_CELLS = 4_000_000
# How many letters the dictionary of shapes may have: it is read whenever a segment is opened.
_MAX_LETTERS = 20_000
# Classes of letters that can share a column, the first of a path's classes wins.
_CLASSES = (NUMBERS, frozenset("u"), frozenset("I"), frozenset("F"))
# What has a value, but for times, steps and JSON, which have columns of their own.
_IN_COLUMNS = VALUED - frozenset("tTsj")


@dataclass(slots=True)
class Piece:
    """Records of one bucket as they will lie in the table."""

    shape: Shape
    ordinals: NDArray[np.int64]
    cells: list[NDArray[Any] | list[Any]]
    bucket: Bucket


@dataclass(slots=True)
class Plan:
    """What goes where: columns by path, pieces in their shapes, and the long points."""

    codes: dict[Path, set[str]] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)


def make_plan(found: Collected) -> Plan:
    """Plan the table; what finds no column moves to the documents or long points of ``found``."""
    buckets = _of_one_class(list(found.buckets.values()), found)
    wide = _wide_paths(buckets, len(found.long))
    plan = Plan()
    for bucket, paths in _affordable(buckets, wide, found):
        piece = _cut(bucket, paths, found.long)
        if piece is None:
            found.dissolve(bucket)
            continue
        plan.pieces.append(piece)
        for path, code in _columns_of(piece.shape.paths(), piece.shape.codes):
            plan.codes.setdefault(path, set()).add(code)
    return plan


def _columns_of(paths: list[Path], codes: str) -> list[tuple[Path, str]]:
    return [(path, code) for path, code in zip(paths, codes, strict=True) if code in _IN_COLUMNS]


def _of_one_class(buckets: list[Bucket], found: Collected) -> list[Bucket]:
    """Dissolve buckets that have a text where others have a number, and the like."""
    codes: dict[Path, set[str]] = {}
    for bucket in buckets:
        for path, code in _columns_of(bucket.paths, bucket.shape.codes):
            codes.setdefault(path, set()).add(code)
    accepted = {path: _accepted(used) for path, used in codes.items()}
    kept = []
    for bucket in buckets:
        if all(
            code in accepted[path] for path, code in _columns_of(bucket.paths, bucket.shape.codes)
        ):
            kept.append(bucket)
        else:
            found.dissolve(bucket)
    return kept


def _accepted(used: set[str]) -> frozenset[str]:
    letters = next(letters for letters in _CLASSES if letters & used)
    if used & {"f", "x"}:
        return letters - {"l"}  # a column of floats cannot hold it
    return letters


def _wide_paths(buckets: list[Bucket], num_long: int) -> set[Path]:
    """The paths that become columns: fields first, then the metrics that are logged most."""
    counts: Counter[Path] = Counter()
    rows: Counter[str] = Counter()
    kinds: dict[Path, set[str]] = {}
    for bucket in buckets:
        rows[bucket.shape.kind] += bucket.size
        for path, _ in _columns_of(bucket.paths, bucket.shape.codes):
            counts[path] += bucket.size
            kinds.setdefault(path, set()).add(bucket.shape.kind)
    cells_left = max(_FREE_CELLS, _CELLS_PER_VALUE * (counts.total() + num_long))
    wide: set[Path] = set()
    for path, _ in sorted(counts.items(), key=lambda item: (len(item[0]), -item[1])):
        cells_left -= sum(rows[kind] for kind in kinds[path])
        if len(wide) == MAX_COLUMNS or cells_left < 0:
            break
        wide.add(path)
    return wide


def _affordable(
    buckets: list[Bucket], wide: set[Path], found: Collected
) -> Iterable[tuple[Bucket, set[Path]]]:
    """Each bucket with the paths it may use; rare shapes may use fields only, or nothing."""
    fields: set[Path] = {path for path in wide if len(path) == 1}
    letters_left = _MAX_LETTERS
    known: set[Shape] = set()
    for bucket in sorted(buckets, key=lambda bucket: -bucket.size):
        for paths in (wide, fields):
            shape = _reduced(bucket, paths)
            letters = 0 if shape in known else len(shape.codes)
            if letters <= letters_left:
                known.add(shape)
                letters_left -= letters
                yield bucket, paths
                break
        else:
            found.dissolve(bucket)


def _reduced(bucket: Bucket, wide: set[Path]) -> Shape:
    """The bucket's shape without the members that go to long form."""
    shape = bucket.shape
    if all(path in wide for path, _ in _columns_of(bucket.paths, shape.codes)):
        return shape
    names: list[str] = []
    codes: list[str] = []
    begun = 0
    for path, name, code in zip(bucket.paths, shape.names, shape.codes, strict=True):
        if code == "o":
            begun = len(codes)
        if len(path) == 2 and code in NUMBERS and path not in wide:
            codes[begun] = "w"
            continue
        names.append(name)
        codes.append(code)
    return Shape(shape.kind, tuple(names), "".join(codes))


def _cut(bucket: Bucket, wide: set[Path], long: LongForm) -> Piece | None:
    """A bucket's records in table and long form; None when some value has no place in either."""
    shape = bucket.shape
    reduced = _reduced(bucket, wide)
    if any(path not in wide for path, _ in _columns_of(reduced.paths(), reduced.codes)):
        return None
    if reduced == shape:
        return Piece(shape, _ordinals(bucket), bucket.columns(), bucket)
    if not _fits_long(bucket, wide):
        return None
    axis: Axis = axis_of({"log": shape.kind, "step": 0})
    columns = iter(bucket.columns())
    cells: list[NDArray[Any] | list[Any]] = []
    moved: list[tuple[LongKey, int, str, Any]] = []
    members = 0
    for path, code in zip(bucket.paths, shape.codes, strict=True):
        members = members + 1 if len(path) == 2 else 0
        values = next(columns) if code in VALUED else []
        if len(path) == 2 and code in NUMBERS and path not in wide:
            moved.append((long_key(shape.kind, path, axis), members - 1, code, values))
        elif code in VALUED:
            cells.append(values)
    steps, milliseconds = _along(reduced, cells, bucket.size, axis)
    ordinals = _ordinals(bucket)
    along = Along.of(ordinals, steps, milliseconds)
    for key, place, code, values in moved:
        long.add(key, along, values, place=place, code=code)
    return Piece(reduced, ordinals, cells, bucket)


def _ordinals(bucket: Bucket) -> NDArray[np.int64]:
    return np.frombuffer(bucket.ordinals, dtype=np.int64)


def _fits_long(bucket: Bucket, wide: set[Path]) -> bool:
    """Whether every member without a column may go to long form.

    The words of ``nonfinite`` are worked out from columns, and resources are no series.
    """
    if "y" in bucket.shape.codes:
        return False
    return all(
        path in wide or len(path) == 1 or (path[0] != "resources" and code in LONG_CODES)
        for path, code in _columns_of(bucket.paths, bucket.shape.codes)
    )


def long_key(kind: str, path: Path, axis: Axis) -> LongKey:
    """The series a member belongs to; nothing else than a flat object's member has one."""
    field_name, member = path
    assert is_flat(kind, field_name)
    return LongKey(f"abs_max/{member}" if field_name == "values" else member, axis, field_name)


def _along(
    shape: Shape, cells: list[NDArray[Any] | list[Any]], size: int, axis: Axis
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Step and time of each record of a piece."""
    found: Mapping[Path, tuple[str, Any]] = {
        path: (code, values)
        for (path, code), values in zip(
            [
                (path, code)
                for path, code in zip(shape.paths(), shape.codes, strict=True)
                if code in VALUED
            ],
            cells,
            strict=True,
        )
    }
    missing = np.full(size, NO_NUMBER)
    code, steps = found.get(("epoch",) if axis == "epoch" else ("step",), ("", missing))
    if code not in ("s", "i", "l"):
        steps = missing
    return steps, times_of(found, size)


def times_of(found: Mapping[Path, tuple[str, Any]], size: int) -> NDArray[np.int64]:
    """The time of each record in milliseconds, rounded where the record has it finer."""
    code, times = found.get(("t",), ("", []))
    if code in ("t", "T"):
        return np.asarray(times)
    if code not in ("f", "i"):
        return np.full(size, NO_NUMBER)
    rounded = [milliseconds_of({"t": t}) for t in times.tolist()]
    return np.array([NO_NUMBER if t is None else t for t in rounded], dtype=np.int64)
