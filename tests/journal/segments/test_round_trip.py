from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.journal.line import decode, encode
from epochal.journal.segments import content, read, seal
from epochal.journal.segments.read import Segment
from epochal.records import KINDS, Record, axis_of, scalars_of
from tests.journal.segments.parts import (
    FINISH,
    HEADER,
    copied,
    finished_part,
    journal_texts,
    lines,
    metrics,
    texts,
    write_part,
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
_SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-3, 3)
    | _FLOAT
    | st.floats(width=32, allow_nan=False, allow_infinity=False)
    | _TEXT
)
_JSON = st.recursive(
    _SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3)
)
_KEY = st.sampled_from(["loss", "a", "m.loss", "", "log", "t", "ordinal", "LOSS", "id"]) | _TEXT
_DECLARED = [field for kind in KINDS.values() for field in kind.fields]
_OBJECTS = sorted({"nonfinite", *(field.name for field in _DECLARED if field.type == "object")})
_KINDS = st.sampled_from(sorted(KINDS))
_FIELDS = st.sampled_from(["t", "step", *sorted({field.name for field in _DECLARED})])


@st.composite
def _records(draw: st.DrawFn) -> Record:
    record: dict[str, Any] = {"log": draw(_KINDS | _TEXT)}
    fields = st.sampled_from(["t", "step", "epoch", *_OBJECTS]) | _FIELDS | _KEY
    for name in draw(st.lists(fields, max_size=6, unique=True)):
        if name == "log":
            continue
        if name in _OBJECTS:
            inner = st.sampled_from(["nan", "inf"]) if name == "nonfinite" else _SCALAR
            record[name] = draw(st.dictionaries(_KEY, inner, max_size=5) | _JSON)
        else:
            record[name] = draw(_JSON | st.integers(0, 9) | st.just(1700000000.123))
    if draw(st.booleans()):
        record = dict(reversed(record.items()))
    return record


def columns_for_few(patch: pytest.MonkeyPatch) -> None:
    """Columns for a few lines already, several chunks and row groups of them."""
    patch.setattr(seal, "_WORTH_COLUMNS", 2)
    patch.setattr(content, "_CHUNK_BYTES", 500)
    patch.setattr(seal, "_ROWS_IN_GROUP", 3)
    patch.setattr(read, "_BATCH_ROWS", 2)


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(_records(), max_size=12))
def test_every_record_comes_back_as_it_was(records: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_folder = finished_part(Path(folder), *records)
        with Segment(copied(run_folder, Path(folder) / "cache").path) as segment:
            assert texts(segment.records()) == journal_texts(run_folder)


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(_records(), max_size=6), st.lists(st.dictionaries(_KEY, _SCALAR), max_size=4))
def test_records_that_become_columns_at_once_come_back(
    records: list[Record], objects: list[dict[str, Any]]
) -> None:
    records = records + [{**metrics(step), "m": values} for step, values in enumerate(objects)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        columns_for_few(patch)
        run_folder = finished_part(Path(folder), *records * 4)
        with Segment(copied(run_folder, Path(folder) / "cache").path) as segment:
            assert texts(segment.records()) == journal_texts(run_folder)


_NUMBER = st.floats() | st.integers(-(2**53), 2**53) | st.booleans()


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["metrics", "step", "moe", "gpu", "unknown"]),
            st.integers(0, 20),
            st.dictionaries(st.sampled_from(["loss", "power", "aux_loss", "moe_x"]), _NUMBER),
            st.dictionaries(st.sampled_from(["loss", "train/loss", "acc"]), _NUMBER | _SCALAR),
        ),
        max_size=15,
    ),
    st.booleans(),
)
def test_series_are_what_the_records_say(entries: list[Any], in_columns: bool) -> None:
    written = [
        {"log": kind, "t": 1700000000.5 + step, "step": step, "id": step % 2, **fields, "m": inner}
        for kind, step, fields, inner in entries
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if in_columns:
            columns_for_few(patch)
        text = lines(HEADER) + b"".join(map(encode, written)) + lines(FINISH)
        run_folder = write_part(Path(folder), text)
        expected: dict[tuple[str, str], list[tuple[int, float, str]]] = {}
        for line in text.splitlines():
            record = decode(line)
            assert record is not None
            for name, value in scalars_of(record):
                points = expected.setdefault((name, axis_of(record)), [])
                points.append((record["step"], record["t"], repr(value)))
        with Segment(copied(run_folder, Path(folder) / "cache").path) as segment:
            found = {
                (name, axis): [
                    (step, t, repr(value))
                    for step, t, value in zip(
                        *(column.tolist() for column in _columns(segment, name, axis)), strict=True
                    )
                ]
                for name, axis in segment.footer.names
            }
        assert found == expected


def _columns(segment: Segment, name: str, axis: Any) -> tuple[Any, Any, Any]:
    series = segment.series(name, axis)
    return series.steps, series.times, series.values


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(_records(), max_size=8), st.lists(st.dictionaries(_KEY, _SCALAR), max_size=6))
def test_series_and_records_are_the_same_in_columns_and_as_json(
    records: list[Record], objects: list[dict[str, Any]]
) -> None:
    records = records + [{**metrics(step), "m": values} for step, values in enumerate(objects)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        run_folder = finished_part(Path(folder), *records * 3)
        with Segment(copied(run_folder, Path(folder) / "one").path) as whole:
            footer = whole.footer
            series = {key: whole.series(*key) for key in footer.names}
        columns_for_few(patch)
        with Segment(copied(run_folder, Path(folder) / "many").path) as segment:
            written = journal_texts(run_folder)
            assert texts(segment.records()) == written
            assert texts(segment.records(first=3)) == written[3:]
            assert set(segment.footer.names) == set(footer.names)
            assert segment.footer.extents == footer.extents
            assert segment.footer.kinds == footer.kinds
            assert str(segment.footer.summaries) == str(
                {key: footer.summaries[key] for key in segment.footer.names}
            )
            for key, points in series.items():
                found = segment.series(*key)
                assert found.steps.tolist() == points.steps.tolist()
                assert repr(found.values.tolist()) == repr(points.values.tolist())
            of_kind = [text for text in written if b'"log":"metrics"' in text]
            ours = [t for t in texts(segment.entries("metrics")) if b'"log":"metrics"' in t]
            assert ours == of_kind


def test_the_extremes_of_telemetry_have_columns_but_are_no_series(tmp_path: Path) -> None:
    records = [
        {"log": "gpu", "t": 1700000000.0 + i, "id": 0, "power": 5, "min": {"power": 4}}
        for i in range(100)
    ]
    report = copied(finished_part(tmp_path, *records), tmp_path / "copy")
    assert pq.read_table(report.path)["min.power"].drop_null().to_pylist() == [4] * 100
    with Segment(report.path) as segment:
        assert segment.footer.names == [("gpu/0/power", "time")]
