"""The artificial run that other tests read holds what they expect of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from epochal.journal.reader import PartReader
from epochal.records import KINDS, Record, scalars_of
from tests.doubles.every_kind import ODD_NAMES, write_every_kind


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_every_kind(tmp_path_factory.mktemp("runs"), seed=1, ended=1.8e9)


def records(path: Path, *, kind: str | None = None, writer: str | None = None) -> Iterator[Record]:
    folder = RunFolder(path)
    for name in folder.parts():
        if writer in (None, name.writer):
            reader = PartReader(folder.part_path(name), name)
            yield from (r for _, r in reader.read() if kind in (None, r["log"]))
            assert reader.damaged == 0


def test_every_kind_of_record_is_present(made_up: Path) -> None:
    assert {record["log"] for record in records(made_up)} == set(KINDS)


def test_every_field_of_the_made_up_run_is_declared(made_up: Path) -> None:
    common = {"log", "t", "step", "m", "nonfinite"}
    found = {
        (kind.name, field)
        for record in records(made_up)
        if (kind := KINDS[record["log"]]).name not in ("event", "graph")
        for field in record
        if field not in common and not field.startswith(tuple(kind.families))
    }
    declared = {(kind.name, field) for kind in KINDS.values() for field in kind.by_name}
    assert found - declared == set()


def test_odd_names_come_back_as_they_were(made_up: Path) -> None:
    names = {name for record in records(made_up) for name, _ in scalars_of(record)}
    assert names >= set(ODD_NAMES)


def test_times_never_run_backwards_and_end_when_asked(made_up: Path) -> None:
    for writer in {name.writer for name in RunFolder(made_up).parts()}:
        times = [record["t"] for record in records(made_up, writer=writer)]
        assert times == sorted(times)
    assert max(record["t"] for record in records(made_up)) == pytest.approx(1.8e9, abs=0.01)
