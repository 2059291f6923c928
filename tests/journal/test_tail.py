from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from epochal.journal import tail
from epochal.journal.facts import SeriesKey
from epochal.journal.reader import read_part
from epochal.journal.tail import TailedPart
from epochal.records import axis_of, scalars_of
from tests.journal.segments.parts import HEADER, NAME, lines, write_part
from tests.journal.test_rows import damaged_texts

STEP = {"epoch": 0.5, "step_tokens": 512, "duration_ms": 7, "norm": 1.5, "loss": 2.5, "lr": 1e-3}


def metrics(step: Any, **values: Any) -> dict[str, Any]:
    return {"log": "metrics", "t": 1000.25, "step": step, "m": values}


def one_of_each(step: int, random_: random.Random) -> list[dict[str, Any]]:
    """Lines that alternate, and now and then one that is like the others but for one thing."""
    odd: list[dict[str, Any]] = [
        metrics(step, loss=True, acc=1),
        metrics(float(step), loss=1.0, acc=1.0),
        metrics(2**64, loss=1.0, acc=1.0),
        metrics(step, loss=10**400, acc=1.0),
        {**metrics(step, loss=None, acc=1.0), "nonfinite": {"loss": "nan"}},
        {**metrics(step, loss=1.0, acc=1.0), "extra": 5},
        {**metrics(step, loss=1.0, acc=1.0), "t": 1001},
        metrics(step, acc=4.0, loss=1.0),
        metrics(step, loss=1.0),
        metrics(step, **{'a "quoted" name': 1.0, "back\\slash": 2.0}),
        {"log": "step", "t": 1000.5, "step": step, **STEP, "phase": "warm"},
        {"log": "step", "t": 1000.5, "step": step, **STEP, "loss": None},
        {"log": "text", "t": 1000.5, "step": step, "name": "s", "text": "x"},
    ]
    return [
        metrics(step, loss=random_.random(), acc=random_.randrange(9)),
        {"log": "step", "t": 1000.5 + step, "step": step, **STEP, "loss": random_.random()},
        {"log": "gpu", "t": 1000.5 + step, "id": step % 2, "power": step, "fan": 3.5},
        *random_.sample(odd, k=random_.randrange(3)),
    ]


@pytest.fixture
def part(tmp_path: Path) -> TailedPart:
    random_ = random.Random(7)
    records = [record for step in range(1500) for record in one_of_each(step, random_)]
    folder = write_part(tmp_path, lines({**HEADER, "t": 1000.0}, *records))
    part = TailedPart(folder.part_path(NAME), NAME)
    part.poll()
    return part


def test_lines_in_columns_say_the_same_as_records(part: TailedPart) -> None:
    expected: dict[SeriesKey, list[tuple[int, int, float]]] = {}
    for position, record in read_part(part.path, NAME):
        axis, step = axis_of(record), record.get("step", -1)
        if axis == "none" or type(step) is not int or step >= 2**63:
            continue
        for name, value in scalars_of(record):
            point = (position.ordinal, step, value)
            expected.setdefault(SeriesKey(name, axis), []).append(point)
    assert set(part.series_keys()) == set(expected)
    for key, points in expected.items():
        piece = part.series(key)
        assert piece is not None
        _, steps, values = zip(*points, strict=True)
        assert piece.steps.tolist() == list(steps)
        np.testing.assert_array_equal(piece.values, values)


@given(damaged_texts())
def test_columns_and_single_lines_make_the_same_of_damage(text: bytes) -> None:
    found = []
    for few in (1, 10**9):
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(tail, "_FEW", few)
            patch.setattr(tail, "_CHUNK_BYTES", 400)
            run_folder = write_part(Path(folder), text)
            part = TailedPart(run_folder.part_path(NAME), NAME)
            part.poll()
            found.append(_answers(part))
    assert found[0] == found[1]


def _answers(part: TailedPart) -> Any:
    facts = part.facts
    series = {key: part.series(key) for key in part.series_keys()}
    return (
        {
            key: (one.steps.tolist(), repr(one.times.tolist()), repr(one.values.tolist()))
            for key, one in series.items()
            if one is not None
        },
        list(part.entries("eval")),
        (facts.num_records, facts.num_damaged, facts.reached, facts.updated, facts.header),
    )


def test_evaluations_come_in_the_order_written(tmp_path: Path) -> None:
    evals = [
        {"log": "eval", "t": 1000.5, "step": step, "loss": 0.5 if step % 9 else None}
        for step in range(100)
    ]
    part = TailedPart(write_part(tmp_path, lines(HEADER, *evals)).part_path(NAME), NAME)
    part.poll()
    assert [record for _, record in part.entries("eval")] == evals
    assert [ordinal for ordinal, _ in part.entries("eval")] == list(range(1, 101))


def test_positions_count_lines_in_columns_too(part: TailedPart) -> None:
    written = [position for position, _ in read_part(part.path, NAME)]
    assert part.facts.num_records == len(written)
    assert [position for position, _ in part.records(first=700)] == written[700:]
    assert part.facts.reached == {"step": 1499}
    assert part.facts.updated == 1000.5 + 1499


@pytest.mark.parametrize(
    "odd",
    [
        b'"step":7,"m":{"a1":1,"a2":2.5}',
        b'"step":7,"m":{"a1":-0,"a2":-0.0}',
        b'"step":7,"m":{"a1":9007199254740993,"a2":1e300}',
        b'"step":7,"m":{"a1":%d,"a2":1.5}' % 10**30,
        b'"step":7,"m":{"a1":%d,"a2":1.5}' % 10**400,
        b'"step":7,"m":{"a2":2.5,"a1":1.5}',
        b'"step":7,"m":{"a1":2.5,"a1":1.5}',
        b'"step":7,"m":{"a1":2.5,"a3":1.5}',
        b'"step":7.0,"m":{"a1":2.5,"a2":1.5}',
        b'"step":%d,"m":{"a1":2.5,"a2":1.5}' % 2**64,
        b'"step":7,"m":{"a1":2.5,"a2":1.5e}',
        b'"step":7,"m":{"a1":2.5,"a2":}',
    ],
)
def test_a_line_that_is_like_the_others_but_for_its_numbers(tmp_path: Path, odd: bytes) -> None:
    usual = lines(*(metrics(step, a1=step / 3, a2=-step / 7) for step in range(1000)))
    odd_line = b'{"log":"metrics","t":1000.25,%s}\n' % odd
    text = lines({**HEADER, "t": 1000.0}) + usual + odd_line + usual
    part = TailedPart(write_part(tmp_path, text).part_path(NAME), NAME)
    part.poll()
    expected: dict[str, list[tuple[int, float]]] = {}
    for _, record in read_part(part.path, NAME):
        step = record.get("step")
        if type(step) is int and step < 2**63:
            for name, value in scalars_of(record):
                expected.setdefault(name, []).append((step, value))
    for name, points in expected.items():
        piece = part.series(SeriesKey(name, "step"))
        assert piece is not None
        assert list(zip(piece.steps.tolist(), map(repr, piece.values.tolist()), strict=True)) == [
            (step, repr(value)) for step, value in points
        ]
    assert part.facts.num_records + part.facts.num_damaged == 2002
