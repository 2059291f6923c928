"""The guide's examples run as they stand, and its table names every verb."""

from __future__ import annotations

import re

import pytest

from epochal import FlowBuilder
from tests.doubles.guides import GUIDES, run_examples

GUIDE = GUIDES / "graphs.md"


def test_every_example_runs_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    run_examples("graphs.md", at_least=12)
    assert "measuring took" in capsys.readouterr().out


def test_the_table_names_every_verb() -> None:
    table = "".join(re.findall(r"^\| (`.*) \|.*\|$", GUIDE.read_text(encoding="utf-8"), re.M))
    written = set(re.findall(r"`(\w+)\(", table))
    verbs = {name for name in vars(FlowBuilder) if not name.startswith("_")}
    assert verbs - {"build"} == written
