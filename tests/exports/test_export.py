from __future__ import annotations

import re

import pytest

from epochal.cli.main import COMMANDS
from epochal.errors import UsageError
from epochal.exports.export import BINARY, FORMATS, export_named


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="csv, jsonl, html"):
        export_named("xls")


def test_the_command_names_every_format_there_is() -> None:
    for name in (*FORMATS, *BINARY):
        assert re.search(rf"\b{name}\b", COMMANDS["export"]), name
