"""The names of `epochal.torch` and of its packages are lists, lazy and typed alike."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import epochal
import epochal.torch

FOLDER = Path(epochal.torch.__file__).parent
INSIDE = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))


@pytest.fixture(params=["", *INSIDE])
def package(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(".".join(filter(None, ("epochal.torch", request.param))))


def test_every_name_can_be_imported_and_says_what_it_is(package: ModuleType) -> None:
    assert package.__all__
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name)), name


def test_the_type_checker_sees_the_same_names_as_the_lazy_table(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [item for block in blocks for item in block.body if isinstance(item, ast.ImportFrom)]
    typed: set[str] = set()
    for item in imports:
        listed = import_module(str(item.module)).__all__ if item.names[0].name == "*" else ()
        typed |= {*listed, *(alias.name for alias in item.names)} - {"*"}
    at_root = epochal.__all__ if package is epochal.torch else ()
    assert sorted(typed - set(at_root)) == sorted(package.__all__)


def test_no_name_is_also_a_file_that_would_replace_it(package: ModuleType) -> None:
    files = {path.stem for path in Path(str(package.__file__)).parent.iterdir()}
    assert not files & set(package.__all__)


@pytest.mark.parametrize("inside", INSIDE)
def test_the_names_of_a_package_are_public_in_epochal_torch_or_at_the_root(inside: str) -> None:
    package = import_module(f"epochal.torch.{inside}")
    for name in package.__all__:
        assert getattr(epochal.torch, name) is getattr(package, name)
    assert set(package.__all__) <= {*epochal.torch.__all__, *epochal.__all__}


def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    assert not hasattr(package, "nothing_of_this_name")
