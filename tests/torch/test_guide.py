"""The guide's examples run as they stand, and its table is the program's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal.torch.schedule.catalogue import KINDS, parameters_of
from tests.doubles.guides import GUIDES, run_examples

GUIDE = GUIDES / "around_the_loop.md"


def test_every_example_runs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples("around_the_loop.md", at_least=12)


def test_the_table_names_every_schedule_and_its_arguments() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (.*) \|$", GUIDE.read_text(encoding="utf-8"), re.M
    )
    written = {
        name: (kind, [argument.split("=")[0] for argument in arguments.split(", ")])
        for name, kind, arguments in rows
    }
    assert written == {
        name: (kind.__name__, [parameter.name for parameter in parameters_of(name)])
        for name, kind in KINDS.items()
    }
