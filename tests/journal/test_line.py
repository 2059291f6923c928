import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.line import MetricsRecord, decode, encode, encode_lines, without_surrogates
from epochal.records import Record, scalars_of

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
metrics = st.dictionaries(names, st.floats() | st.integers() | st.booleans(), max_size=8)


def a_line(**fields: Any) -> bytes:
    return encode({"log": "metrics", "t": 1.5, "step": 3, **fields})


@given(metrics)
def test_free_metrics_come_back_as_they_were(values: dict[str, float]) -> None:
    record = decode(a_line(m=values)[:-1])
    assert record is not None
    back = dict(scalars_of(record))
    assert list(back) == list(values)
    for name, value in values.items():
        assert record["m"][name] == value or not math.isfinite(value)
        if isinstance(value, float):
            assert back[name] == value or (math.isnan(back[name]) and math.isnan(value))


@given(st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False)), st.integers())
def test_a_record_of_finite_metrics_is_written_as_the_dict_of_it(
    values: dict[str, float], step: int
) -> None:
    assert encode_lines([MetricsRecord(1.5, step, values)]) == a_line(m=values, step=step)


@given(metrics, st.integers())
def test_a_line_is_one_json_object_and_one_newline(values: dict[str, float], step: int) -> None:
    line = a_line(m=values, step=step)
    assert line.startswith(b'{"log":"metrics","t":1.5,"step":')
    assert line.count(b"\n") == 1
    assert b"\0" not in line
    assert json.loads(line)["step"] == step


@given(st.dictionaries(st.text(), st.text()))
def test_any_text_can_be_written_and_the_same_text_comes_back(texts: dict[str, str]) -> None:
    record = decode(encode({"log": "event", "t": 0.0, "texts": texts})[:-1])
    assert record is not None
    assert record["texts"] == without_surrogates(texts)


def test_lone_surrogates_are_spelled_out() -> None:
    record = decode(a_line(m={"a\udc80b": 1})[:-1])
    assert record is not None
    assert record["m"] == {"a\\udc80b": 1}


@pytest.mark.parametrize("field", ["m", "values"])
def test_nonfinite_values_are_null_and_named(field: str) -> None:
    record = decode(a_line(**{field: {"a": math.nan, "b": -math.inf, "c": 1}})[:-1])
    assert record is not None
    assert record[field] == {"a": None, "b": None, "c": 1}
    assert record["nonfinite"] == {"a": "nan", "b": "-inf"}


def test_nonfinite_fields_of_a_record_are_named_too() -> None:
    assert json.loads(a_line(loss=math.inf)) == {
        "log": "metrics",
        "t": 1.5,
        "step": 3,
        "loss": None,
        "nonfinite": {"loss": "inf"},
    }


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, 10**300])
def test_integers_beyond_64_bits_keep_every_digit(value: int) -> None:
    record = decode(a_line(m={"n": value})[:-1])
    assert record is not None
    assert record["m"]["n"] == value


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"17",
        b"null",
        b"rubbish",
        b'{"t":1}',
        b'{"log":3,"t":1}',
        b'{"log":"a","t":1',
        b'{"log":"a","t":1}}',
        b'{"log":"\xff","t":1}',
        b"[" * 100_000,
        b'{"log":"a","t":1e999}',
    ],
)
def test_what_is_no_record_decodes_to_nothing(line: bytes) -> None:
    assert decode(line) is None


@given(st.data())
def test_a_record_after_a_torn_one_is_found_wherever_it_was_torn(data: st.DataObject) -> None:
    first: Record = {"log": "run", "t": 1.0, "config": {"log": "info", "deep": [{"log": "x"}]}}
    second: Record = {"log": "event", "t": 2.0, "inner": {"log": "y", "t": "z"}}
    torn = encode(first)[:-1]
    cut = data.draw(st.integers(1, len(torn) - 1))
    assert decode(torn[:cut] + encode(second)[:-1]) == second


def test_a_torn_record_never_gives_one_of_its_inner_objects() -> None:
    line = encode({"log": "run", "t": 1.0, "config": {"log": "info"}, "end": 1})[:-1]
    assert [decode(line[:cut]) for cut in range(len(line))] == [None] * len(line)
