"""Benchmarks run scripts that are texts here: no type checker reads the names they import."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def scripts() -> list[tuple[str, str]]:
    """Texts in benchmarks that import something of Epochal, with the names of their files."""
    return [
        (path.relative_to(FOLDER).as_posix(), node.value)
        for path in sorted(FOLDER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "from epochal." in node.value and "\n" in node.value
    ]


@pytest.mark.parametrize(("file", "script"), scripts(), ids=lambda value: value[:30].strip())
def test_names_that_a_script_imports_exist(file: str, script: str) -> None:
    for node in ast.walk(ast.parse(script.replace("{{", "{").replace("}}", "}"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("epochal"):
            module = importlib.import_module(node.module or "")
            assert [name.name for name in node.names if not hasattr(module, name.name)] == [], file
