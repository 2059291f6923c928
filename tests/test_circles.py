"""No module needs itself: imports, also those inside functions, have no circle."""

from collections.abc import Callable, Iterable

import grimp


def circles(modules: Iterable[str], imported_by: Callable[[str], Iterable[str]]) -> list[list[str]]:
    """Return the modules that import each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in imported_by(module):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            start = stack.index(module)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for module in modules:
        if module not in order:
            visit(module)
    return found


def circles_of_epochal(*, exclude_type_checking_imports: bool) -> list[list[str]]:
    graph = grimp.build_graph(
        "epochal", exclude_type_checking_imports=exclude_type_checking_imports, cache_dir=None
    )
    return circles(sorted(graph.modules), graph.find_modules_directly_imported_by)


def test_a_circle_is_found() -> None:
    imports = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": []}
    assert circles(imports, imports.__getitem__) == [["a", "b", "c"]]


def test_no_circle_at_import_or_through_imports_inside_functions() -> None:
    found = circles_of_epochal(exclude_type_checking_imports=True)
    assert not found, "\n".join(f"These import each other: {', '.join(one)}" for one in found)
