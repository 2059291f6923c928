"""The names of `epochal.torch` are a list, lazy and typed alike."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import epochal.torch


def test_every_name_can_be_imported_and_says_what_it_is() -> None:
    for name in epochal.torch.__all__:
        assert inspect.getdoc(getattr(epochal.torch, name)), name


def test_the_type_checker_sees_the_same_names_as_the_lazy_table() -> None:
    tree = ast.parse(Path(epochal.torch.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [item for block in blocks for item in block.body if isinstance(item, ast.ImportFrom)]
    assert sorted(alias.name for item in imports for alias in item.names) == sorted(
        epochal.torch.__all__
    )


def test_no_name_is_also_a_file_that_would_replace_it() -> None:
    files = {path.stem for path in Path(epochal.torch.__file__).parent.glob("*.py")}
    assert not files & set(epochal.torch.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(epochal.torch, "nothing_of_this_name")
