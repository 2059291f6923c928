"""Imports have no circle, also those inside functions and those for type checkers."""

import graphlib

import grimp
import pytest


@pytest.mark.parametrize("exclude_type_checking_imports", [True, False])
def test_modules_do_not_import_each_other(exclude_type_checking_imports: bool) -> None:
    graph = grimp.build_graph(
        "epochal", exclude_type_checking_imports=exclude_type_checking_imports, cache_dir=None
    )
    imports = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    assert len(imports) > 100
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        circle = " <- ".join(error.args[1])
        pytest.fail(
            f"these modules import each other: {circle}. Move what both need into a lower module,"
            " or let one of them know a protocol only."
        )
