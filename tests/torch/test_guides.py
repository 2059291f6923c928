"""Tables of the guides name everything that they are about; ``tests/test_docs.py`` runs them."""

from __future__ import annotations

import re
from pathlib import Path

from epochal import FlowBuilder
from epochal.torch.moe import COLUMNS

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"


def test_tables_name_every_method_of_the_builder_and_every_figure_of_experts() -> None:
    graphs = (GUIDES / "graphs.md").read_text(encoding="utf-8")
    table = "".join(re.findall(r"^\| (`.*) \|.*\|$", graphs, re.M))
    methods = {name for name in vars(FlowBuilder) if not name.startswith("_")}
    assert methods - {"build"} == set(re.findall(r"`(\w+)\(", table))
    experts = (GUIDES / "experts-and-memory.md").read_text(encoding="utf-8")
    assert [n for n in COLUMNS if not re.search(rf"^\|[^|]*`{n}`", experts, re.M)] == []
