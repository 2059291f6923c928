"""The budget of the page: what is counted, what is refused, and how it is lowered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import page_size
from tools.page_size import WEB, PageBudget, problems, read_budget

SETTINGS = """
[tool.epochal.page]
lines = 1000

[tool.epochal.page.long]
"src/a.ts:shrunk" = 200
"src/a.ts:short" = 300
"src/a.ts:same" = 150
"""


def test_a_page_within_its_budget_has_no_problem() -> None:
    budget = PageBudget(lines=1000, long={"src/a.ts:old": 200})
    assert problems(budget, 1000, {"src/a.ts:old": 200}) == []


def test_each_problem_names_the_size_and_the_limit() -> None:
    budget = PageBudget(lines=1000, long={"src/a.ts:old": 200})
    page, old, new = problems(budget, 1001, {"src/a.ts:old": 201, "src/a.ts:new": 121})
    assert page.startswith("web/src has 1001 lines and may have 1000: ")
    assert old.startswith("src/a.ts:old has 201 lines and may have 200: ")
    assert new.startswith("src/a.ts:new has 121 lines and may have 120: ")


def test_lowering_keeps_room_for_sections_and_none_in_long_functions() -> None:
    text = page_size.lowered(SETTINGS, 600, {"src/a.ts:shrunk": 190, "src/a.ts:same": 180})
    assert read_budget(text) == PageBudget(
        lines=600 + page_size.ROOM, long={"src/a.ts:shrunk": 190, "src/a.ts:same": 150}
    )
    assert page_size.lowered(SETTINGS, 990, {}).startswith("\n[tool.epochal.page]\nlines = 1000\n")


@pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules" / "vite").exists(),
    reason="needs the tools of the page: run `npm ci` in web",
)
def test_a_function_counts_with_the_functions_inside_it(tmp_path: Path) -> None:
    body = "\n".join(f"    value += {n};" for n in range(130))
    inner = f"  const inner = () => {{\n{body}\n  }};"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.tsx").write_text(
        f"export function outer(): void {{\n  let value = 0;\n{inner}\n  inner();\n}}\n"
        "export const view = () => <p>short</p>;\n"
    )
    assert page_size.lines(tmp_path / "src") == 137
    assert page_size.long_functions(tmp_path) == {"src/a.tsx:inner": 132, "src/a.tsx:outer": 136}
