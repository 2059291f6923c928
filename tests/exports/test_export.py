from __future__ import annotations

import click
import pytest

from epochal.cli.export import command
from epochal.errors import UsageError
from epochal.exports.export import BINARY, FORMATS, export_named


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="csv, jsonl, html"):
        export_named("xls")


def test_the_command_names_every_format_there_is() -> None:
    format_ = next(one for one in command.params if one.name == "form")
    assert isinstance(format_.type, click.Choice)
    for name in (*FORMATS, *BINARY):
        assert name in format_.type.choices, name
