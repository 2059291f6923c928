"""The examples of the guides run as they stand, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochal import FlowBuilder
from epochal.torch.moe.stats import COLUMNS
from tests.doubles.guides import GUIDES, run_examples


@pytest.mark.parametrize(
    ("guide", "examples", "printed"),
    [
        ("around-the-loop.md", 10, ""),
        ("checkpoints.md", 6, ""),
        ("graphs.md", 8, "median of"),
        ("speed-of-light.md", 3, "[Speed of Light]"),
        ("experts-and-memory.md", 5, "weights"),
    ],
)
def test_every_example_runs_in_order(
    guide: str,
    examples: int,
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    run_examples(guide, at_least=examples)
    shown = capsys.readouterr()
    assert printed in shown.out + shown.err


def test_tables_name_every_method_of_the_builder_and_every_figure_of_experts() -> None:
    graphs = (GUIDES / "graphs.md").read_text(encoding="utf-8")
    table = "".join(re.findall(r"^\| (`.*) \|.*\|$", graphs, re.M))
    methods = {name for name in vars(FlowBuilder) if not name.startswith("_")}
    assert methods - {"build"} == set(re.findall(r"`(\w+)\(", table))
    experts = (GUIDES / "experts-and-memory.md").read_text(encoding="utf-8")
    assert [n for n in COLUMNS if not re.search(rf"^\|[^|]*`{n}`", experts, re.M)] == []
