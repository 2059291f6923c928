from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.layout import PartName
from epochal.journal.line import encode_json
from epochal.journal.reader import PartReader
from epochal.journal.rows import Decoded, LineDecoder, Rows
from epochal.journal.segments.footer import Group
from epochal.records import Record

NAME = PartName("loop", 1, 0)


def metrics(step: Any, **values: Any) -> Record:
    return {"log": "metrics", "t": 1700000000.125, "step": step, "m": values}


def text_of(*records: Any) -> bytes:
    return b"".join(encode_json(record) + b"\n" for record in records)


def canonical(record: Record) -> bytes:
    """A record as JSON, which tells types apart, whatever the order of its keys."""
    return msgspec.json.encode(record, order="sorted")


def rows_of(decoded: Decoded) -> list[Rows]:
    return [item for item in decoded.items if isinstance(item, Rows)]


def records_of(rows: Rows) -> Iterator[Record]:
    size = rows.ordinals.size
    columns = [list(map(plain, column)) for column in rows.columns().values()]
    return Group(rows.kind, rows.keys, (), rows.gpu, size).records(columns, size)


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def in_order(decoded: Decoded) -> dict[int, bytes]:
    """Every record by its ordinal."""
    found: dict[int, bytes] = {}
    for group in rows_of(decoded):
        for ordinal, record in zip(group.ordinals.tolist(), records_of(group), strict=True):
            assert ordinal not in found
            found[ordinal] = canonical(record)
        assert group.ordinals.tolist() == sorted(group.ordinals)
    for line in decoded.lines:
        if line.record is not None:
            assert line.ordinal not in found
            found[line.ordinal] = canonical(line.record)
    return found


def as_read(text: bytes) -> tuple[list[bytes], int]:
    """What the reader makes of whole lines, and how many of them it counts as damaged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.jsonl"
        path.write_bytes(text)
        reader = PartReader(path, NAME)
        return [canonical(record) for _, record in reader.read()], reader.damaged


def assert_as_read(text: bytes) -> Decoded:
    """With a decoder that has seen none of the names, which is returned, and with one that has."""
    decoder = LineDecoder()
    unseen = assert_decoded_as_read(decoder, text)
    assert_decoded_as_read(decoder, text)
    return unseen


def assert_decoded_as_read(decoder: LineDecoder, text: bytes) -> Decoded:
    decoded = decoder.decode(text, first=5)
    records, damaged = as_read(text)
    assert in_order(decoded) == dict(enumerate(records, start=5))
    assert decoded.num_records == len(records)
    assert sum(line.record is None for line in decoded.lines) == damaged
    return decoded


_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
_VALUE = (
    _FLOAT
    | st.integers(-3, 3)
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**53 + 1, -0.0, 1.0, 1e16, 5e-324, 2**63, None, True, "nan", "é\n"])
)
_KEY = st.sampled_from(["loss", "a", "log", "", "layer.0", "layer.1", 'a "b"', "ü"])
_MEMBERS = st.dictionaries(_KEY, _VALUE, max_size=3)
_ODD = st.sampled_from(
    [
        b"",
        b"\xff\xfe",
        b"[1]",
        b'{"log":"metr',
        b'{"log":"metrics","t":1,"st{"log":"metrics","t":2.5,"step":1,"m":{"a":1.5}}',
        b'{"log":"metrics","t":2.5,"step":1,"m":{"a":1.5}}{"log":"metrics","t":2.5,"step":1}',
        b'{"log":"metrics","t":2.5,"step":1,"m":{"a":1.5,"a":2.5}}',
        b'{"t":2.5,"log":"metrics","step":1,"m":{"a":1.5}}',
        b'{"log":"metrics","step":1,"t":2.5,"m":{"a":1.5}}',
        b'{"log":"metrics","t":2.50,"step":-0,"m":{"a":1E3}}',
        b'{"log":"metrics","t":2.5,"step":01,"m":{"a":1.5}}',
        b'{"log":"metrics", "t":2.5,"step":1,"m":{"a":1.5}}',
        b'{"log":"metrics","t":2.5,',
        b'"step":1,"m":{"a":1.5}}',
        b'{"log":"metrics","t":2.5,"step":1,"m":{"a":1e400}}',
        b'{"log":"metrics","t":2.5,"step":1,"m":{"\\u0061":1.5}}',
        b'{"log":"metrics","t":2.5,"step":1,"m":{"a":[1,2.0]},"x":{"y":{"z":1}}}',
        b'{"log":7,"t":2.5}',
        b'{"log":"alone"}',
    ]
)


@st.composite
def damaged_texts(draw: st.DrawFn) -> bytes:
    """Lines that repeat a few sets of keys and types, with damage and other odd ones between."""
    models = draw(st.lists(_MEMBERS, min_size=1, max_size=3))
    kinds = st.sampled_from(["metrics", "step", "eval"])
    lines: list[bytes] = []
    for _ in range(draw(st.integers(0, 25))):
        if draw(st.integers(0, 9)) == 0:
            lines.append(draw(_ODD))
            continue
        members = dict(draw(st.sampled_from(models)))
        if draw(st.integers(0, 3)) == 0 and members:
            members[draw(st.sampled_from(sorted(members)))] = draw(_VALUE)
        record = {"log": draw(kinds), "t": draw(_FLOAT), "step": draw(st.integers(0, 99))}
        lines.append(encode_json({**record, "m": members}))
    return b"".join(line + b"\n" for line in lines)


@given(damaged_texts())
def test_it_says_what_the_reader_says_of_damaged_lines_too(text: bytes) -> None:
    assert_as_read(text)


def test_records_with_the_same_keys_become_columns() -> None:
    records = [metrics(step, loss=step / 3, count=step) for step in range(500)]
    decoded = assert_as_read(text_of(*records))
    (group,) = rows_of(decoded)
    assert not decoded.lines
    assert list(group.numbers) == [("t",), ("m", "loss"), ("m", "count")]
    assert group.columns()["m", "count"] == list(range(500))


def test_records_with_other_names_are_not_mixed_up() -> None:
    names = [["a", "b"], ["b", "a"], ["a"], ["c", "b"], []]
    records = [metrics(step, **dict.fromkeys(names[step % 5], step / 7)) for step in range(700)]
    records.append({**metrics(700), "m": ["a", "b"]})
    found = [dict(group.keys)["m"] for group in rows_of(assert_as_read(text_of(*records)))]
    assert found == [("a", "b"), ("a",), ("b", "c"), (), ("a", "b"), ("a",)]


def test_kinds_and_devices_that_alternate_are_told_apart() -> None:
    records: list[Record] = []
    for step in range(200):
        records.append(metrics(step, loss=step / 7))
        records.append({"log": "step", "t": 1700000000.5, "step": step, "loss": 0.25})
        records.append({"log": "gpu", "t": 1700000000.5, "id": step % 2, "power": 3})
        records.append({"log": "text", "t": 1700000000.5, "step": step, "text": "x"})
    decoded = assert_as_read(text_of(*records))
    found = [(rows.kind, rows.gpu) for rows in rows_of(decoded)]
    assert found == [("metrics", ""), ("step", ""), ("gpu", "0"), ("gpu", "1")]
    assert len(decoded.lines) == 200


def test_an_odd_line_is_decoded_alone() -> None:
    odd = {**metrics(7, a=None), "nonfinite": {"a": "nan"}}
    records = [metrics(step, a=1.5) if step % 50 else odd for step in range(200)]
    decoded = assert_as_read(text_of(*records))
    assert [line.ordinal for line in decoded.lines] == [5, 55, 105, 155]


def test_names_that_never_come_again_make_no_struct_for_each_line() -> None:
    decoder = LineDecoder()
    text = text_of(*(metrics(step, **{f"name.{step}": 1.5, "a": 2.5}) for step in range(400)))
    assert len(decoder.decode(text, first=0).lines) > 300
    text = text_of(*(metrics(step, a=2.5) for step in range(400)))
    assert not decoder.decode(text, first=0).lines


def test_a_line_without_its_kind_is_damage() -> None:
    whole = text_of(*(metrics(step, a=1.5) for step in range(200)))
    decoded = assert_as_read(whole + whole.replace(b'"log":"metrics",', b"", 1) + whole)
    assert [line.is_whole for line in decoded.lines] == [False]


def test_a_record_over_two_lines_is_damage() -> None:
    whole = [metrics(step, a=1.5) for step in range(200)]
    broken = b'{"log":"metrics","t":1700000000.125,\n"step":1,"m":{"a":1.5}}\n'
    decoded = assert_as_read(text_of(*whole) + broken + text_of(*whole))
    assert [line.is_whole for line in decoded.lines] == [False, False]
