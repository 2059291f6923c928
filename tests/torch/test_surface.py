"""The names of `epochal.torch` are one list, lazy and typed alike."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import epochal.torch

SOURCE = Path(epochal.torch.__file__)


def test_every_name_can_be_imported_and_says_what_it_is() -> None:
    for name in epochal.torch.__all__:
        assert inspect.getdoc(getattr(epochal.torch, name)), name


def test_the_type_checker_sees_the_modules_of_the_lazy_table() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = [str(item.module) for item in block.body if isinstance(item, ast.ImportFrom)]
    assert typed == [f"epochal.torch.{module}" for module in epochal.torch._NAMES]


def test_no_name_is_also_a_file_that_would_replace_it() -> None:
    assert not {path.stem for path in SOURCE.parent.iterdir()} & set(epochal.torch.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(epochal.torch, "nothing_of_this_name")
