"""A folder written by each released version of the format is read as it was on that day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder, read_json
from epochal.journal.line import encode_lines
from epochal.journal.reader import read_journal
from epochal.records import KINDS, scalars_of
from epochal.store.local.by_path import load_run

FORMAT_1 = Path(__file__).parent / "golden" / "format-1"


def test_every_record_is_read_and_would_be_written_the_same() -> None:
    folder = RunFolder(FORMAT_1)
    text = b"".join(folder.part_path(name).read_bytes() for name in folder.parts())
    assert b"".join(encode_lines([record]) for _, record in read_journal(folder)) == text


def test_it_holds_every_kind_and_one_of_the_future() -> None:
    kinds = {record["log"] for _, record in read_journal(RunFolder(FORMAT_1))}
    assert kinds == {*KINDS, "of-the-future"}


def test_its_series_have_the_names_and_values_of_the_specification() -> None:
    found: dict[str, float] = {}
    for _, record in read_journal(RunFolder(FORMAT_1)):
        found.update(scalars_of(record))
    assert found["train/norm_clipped"] == 0.4
    assert found["moe/router_entropy"] == 0.8
    assert found["gpu/1/power"] == 350000
    assert found["phase/forward"] == 4.0
    assert found["memory/gpu0/weights/device"] == 1024
    assert found["extra"] == float("inf")
    assert found["abs_max/b"] == float("-inf")
    assert found['odd "name"\n'] == 1.0


def test_the_store_merges_its_attempts() -> None:
    run = load_run(FORMAT_1)
    assert run.info.status.state == "finished"
    assert run.info.attempts == 2
    assert run.config == {"lr": 0.1, "depth": 3}
    assert run.series("train/loss").steps.tolist() == [0, 1, 2, 3, 4]
    assert run.series("loss", axis="step").values[1] == pytest.approx(0.5)


def test_its_identity_is_json_a_person_can_read() -> None:
    assert read_json(FORMAT_1 / "run.json") == json.loads((FORMAT_1 / "run.json").read_text())
