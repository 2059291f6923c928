from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal.cli.main import COMMANDS
from epochal.errors import UsageError
from epochal.exports.export import FORMATS, PICTURES, export_named, new_file


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="csv, jsonl, json, log"):
        export_named("xls")


def test_the_command_names_every_format_there_is() -> None:
    for name in (*FORMATS, *PICTURES):
        assert re.search(rf"\b{name}\b", COMMANDS["export"]), name


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), new_file(path) as out:
        out.write("new \udc80")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text() == "old"
